"""Checks a draft as its create would: it is stored by the services, and the transaction is rolled back."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Model

from gateway_project.database.guarding import unguarded_trial
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import Conflict, NotFound, ValidationError
from gateway_project.work.what_if.drafts import ALIASES, GUARDRAILS, LIMITS, PRICES, RULES, Draft, RowDraft
from licensing import services as licensing
from licensing.models import Limit
from providers import services as providers
from providers.models import ModelPrice
from rules import services as rules
from rules.aliases import services as aliases
from rules.aliases.models import Alias
from rules.guardrails import services as guardrails
from rules.guardrails.models import Guardrail
from rules.models import Rule

Change = Callable[..., object]


class Services(NamedTuple):
    """How rows of a kind are changed; `replace` None: by deleting and creating them."""

    model: type[Model]
    create: Change
    replace: Change | None
    delete: Change


# Aliases first: guardrails refer to them.
SERVICES: Mapping[str, Services] = {
    ALIASES: Services(Alias, aliases.create_alias, aliases.update_alias, aliases.delete_alias),
    RULES: Services(Rule, rules.create_rule, rules.update_rule, rules.delete_rule),
    GUARDRAILS: Services(
        Guardrail, guardrails.create_guardrail, guardrails.update_guardrail, guardrails.delete_guardrail
    ),
    LIMITS: Services(Limit, licensing.set_limit, None, licensing.delete_limit),
    PRICES: Services(ModelPrice, providers.set_price, None, providers.end_price),
}
# The last to be written: what stands in the draft may take the place of what is deleted.
DELETED_LAST = (ALIASES,)


def check_draft(draft: Draft) -> None:
    """Raise ValidationError, with the place in the draft, for what could not be stored. Nothing is stored."""
    with races_as_conflicts(), unguarded_trial(), transaction.atomic():
        for kind, services in SERVICES.items():
            if kind not in DELETED_LAST:
                _delete(kind, services, draft)
            for row in draft.of(kind):
                with _name_place(row.place):
                    _write(services, row)
            if kind in DELETED_LAST:
                _delete(kind, services, draft)
        transaction.set_rollback(True)


def _delete(kind: str, services: Services, draft: Draft) -> None:
    for row_id in sorted(draft.deleted_ids(kind)):
        with _name_place(f"delete.{kind}"):
            services.delete(_row(services, row_id))


def _write(services: Services, row: RowDraft) -> None:
    values = dict(row.values)
    if row.id is None:
        services.create(**values)
        return
    original = _row(services, row.id)
    if services.replace is not None:
        services.replace(original, **values)
        return
    services.delete(original)
    services.create(**values)


def _row(services: Services, row_id: int) -> Any:
    row = services.model._default_manager.filter(pk=row_id).first()
    if row is None:
        raise NotFound(f"no row with id {row_id}.")
    return row


@contextmanager
def _name_place(place: str) -> Iterator[None]:
    """Errors of a service name the place in the draft."""
    try:
        yield
    except (ValidationError, Conflict, NotFound) as error:
        field = f"{place}.{error.field}" if error.field else place
        raise ValidationError(error.message, field=field) from None
