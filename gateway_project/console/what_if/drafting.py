"""A draft from the form of a rule, an alias, a limit, a price or a guardrail, as the API takes it; stores nothing."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from django.db.models import Model
from django.http import QueryDict

from gateway_project.api.names import camel
from gateway_project.console.forms.service_form import ServiceForm, plain_decimal
from gateway_project.env import WITHOUT_WINDOW
from gateway_project.json_types import JsonObject
from gateway_project.work.what_if.drafts import ALIASES, GUARDRAILS, LIMITS, PRICES, RULES
from licensing.admin import LimitForm
from licensing.models import SUBJECTS, Limit
from providers.console.price_admin import PriceForm
from providers.models import AMOUNTS, SUBJECT, ModelPrice
from rules.admin import RuleForm
from rules.aliases.admin import AliasForm
from rules.aliases.drafts import TargetDraft
from rules.aliases.models import Alias
from rules.guardrails.admin import FIELDS, GuardrailForm
from rules.guardrails.models import Guardrail
from rules.models import Rule

# Of the forms of rows that exist, the fields that cannot be changed.
LIMIT_SUBJECT = ("subject", *SUBJECTS, "measure", "time_window")
OF_COST = ("unpriced", "unpriced_price")  # what the forms of other limits do not have


class Drafting(NamedTuple):
    """How the form of a kind becomes a draft: `fixed` fields are those of the stored row, `optional` ones may lack."""

    kind: str
    model: type[Model]
    form: type[ServiceForm]
    document: Callable[[JsonObject, Any], JsonObject]
    fixed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def draft_of(table: str, data: QueryDict, row_id: int | None) -> tuple[JsonObject, str]:
    """The draft of the form of a table, or why there is none; for a new row, or in the place of one."""
    drafting = DRAFTINGS[table]
    row = drafting.model._default_manager.filter(pk=row_id).first() if row_id else None
    form = _without_saving(drafting.form)(data, instance=row)
    for name in _unchangeable_fields(form, drafting, row):
        form.fields.pop(name, None)
    if not form.is_valid():
        return {}, " ".join(_problems(form))
    document = drafting.document(form.cleaned_data, row)
    return {drafting.kind: [document | ({"id": row.pk} if row is not None else {})]}, ""


def _unchangeable_fields(form: ServiceForm, drafting: Drafting, row: Model | None) -> tuple[str, ...]:
    """The fields that are not of the form that was sent: those that cannot be changed, or do not matter for the row."""
    if row is None:
        return ("valid_from",)
    absent = (name for name in drafting.optional if name not in form.data)
    return (*drafting.fixed, *absent, "valid_from")


def _without_saving(form: type[ServiceForm]) -> type[ServiceForm]:
    """The form without its last step, which stores."""
    return type(f"Unsaved{form.__name__}", (form,), {"_post_clean": _store_nothing})


def _store_nothing(form: ServiceForm) -> None:
    """In the place of the step that stores."""


def _problems(form: ServiceForm) -> Iterable[str]:
    for name, errors in form.errors.items():
        label = f"{form.fields[name].label or name}: " if name in form.fields else ""
        yield f"{label}{' '.join(map(str, errors))}"


def _rule(values: JsonObject, row: Rule | None) -> JsonObject:
    plain = {name: values[name] for name in ("name", "description", "enabled", "effect", "position", "regex")}
    kind = values["audience"]
    audience = {} if kind == "nobody" else {"userId": 0} if kind == "everyone" else {f"{kind}Id": values[kind].pk}
    return plain | audience | {"providerId": _pk(values["provider"])}


def _alias(values: JsonObject, row: Alias | None) -> JsonObject:
    plain = {name: values[name] for name in ("name", "description", "enabled", "strategy", "hedge")}
    model = values["mirror"]
    mirror = model and {"provider": model.provider_id, "model": model.name, "share": values["mirror_share"]}
    targets = list(map(_target, values["targets"]))
    return plain | {"fallbackOn": values["fallback_on"], "targets": targets, "mirror": mirror}


def _target(target: TargetDraft) -> JsonObject:
    identity: JsonObject = (
        {"alias": target.alias} if target.alias else {"provider": target.provider_id, "model": target.model}
    )
    return {**identity, "weight": target.weight, "tier": target.tier, "match": target.match or None}


def _limit(values: JsonObject, row: Limit | None) -> JsonObject:
    if row is None:
        subject, measure = values["subject"], values["measure"]
        window = "none" if measure in WITHOUT_WINDOW else values["time_window"]
        place = {f"{subject}Id": values[subject].pk, "measure": measure, "window": window}
    else:
        place = {f"{row.subject_kind}Id": row.subject.pk, "measure": row.measure, "window": row.window}
    unpriced = {name: values[name] for name in ("unpriced",) if name in values}
    price = {"unpricedPrice": _text(values["unpriced_price"])} if values.get("unpriced_price") is not None else {}
    return place | unpriced | price | {"strict": values["is_strict"], "amount": _text(values["amount"])}


def _price(values: JsonObject, row: ModelPrice | None) -> JsonObject:
    place = values if row is None else {name: getattr(row, name) for name in SUBJECT}
    amounts = {name: _text(values[name]) for name in AMOUNTS if values.get(name) is not None}
    return {
        "providerId": _pk(place["provider"]),
        "host": place["host"],
        "model": place["model"],
        "aboveInputTokens": place["above_input_tokens"],
        "currency": values["currency"],
        **{camel(name): amount for name, amount in amounts.items()},
    }


def _guardrail(values: JsonObject, row: Guardrail | None) -> JsonObject:
    return {camel(name): values[name] for name in FIELDS if name in values}


def _pk(row: Model | None) -> int | None:
    return None if row is None else row.pk


def _text(amount: Decimal) -> str:
    return str(plain_decimal(amount))


# By the names of tables in addresses.
DRAFTINGS: Mapping[str, Drafting] = {
    "rule": Drafting(RULES, Rule, RuleForm, _rule),
    "alias": Drafting(ALIASES, Alias, AliasForm, _alias),
    "guardrail": Drafting(GUARDRAILS, Guardrail, GuardrailForm, _guardrail),
    "limit": Drafting(LIMITS, Limit, LimitForm, _limit, LIMIT_SUBJECT, OF_COST),
    "modelprice": Drafting(PRICES, ModelPrice, PriceForm, _price, SUBJECT),
}
