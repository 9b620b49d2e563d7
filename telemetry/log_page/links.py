"""What an entry of the log names, as links: rows, the limit that refused it, the rules that were considered."""

import re
from collections.abc import Iterable, Mapping

from django.urls import reverse

from gateway_project.console.display.names import Name
from gateway_project.console.forms.prefill import prefilled_form
from gateway_project.console.period import Period, row_page, with_query
from gateway_project.errors import RuleDenied
from providers.console.model_links import model_page, models_of, price_form
from providers.models import Provider
from telemetry.journal.decisions import LoggedDecision
from telemetry.models import EntryType, LogEntry, Outcome

MAX_RULE_NAME = 100
# Facts that name a row: its table, and the field with its id.
ROWS = {
    "User": ("accounts_user", "user_id"),
    "Key": ("keys_apikey", "key_id"),
    "Rule": ("rules_rule", "rule_id"),
    "Provider": ("providers_provider", "provider_id"),
}


def pages_of(entry: LogEntry, period: Period) -> dict[str, str]:
    """The page of each fact that names something, by the fact's name; pages of rows hand the period on."""
    rows = {fact: row_page(table, getattr(entry, column), period) for fact, (table, column) in ROWS.items()}
    return rows | {
        "Model": model_page(entry.model, None if entry.served_model else entry.provider_id, period),
        "Served by model": model_page(entry.served_model or "", entry.provider_id, period),
        "Alias": _search_page("rules_alias", period, entry.alias),
        "Trusted issuer": _search_page("accounts_trustedissuer", period, entry.trusted_issuer),
        "Guardrails": _search_page("rules_guardrail", period, *{one["name"] for one in entry.guardrails or ()}),
        "Error": _cause_page(entry, period),
        "Cost": price_page(entry) or _prices_page(entry),
    }


def names_of(entry: LogEntry, pages: Mapping[str, str]) -> list[Name]:
    """What the message of the entry may name, with these pages of its facts."""
    limit = Name("refusing limit", "limit", pages.get("Error", "") if entry.status == 429 else "")
    names = {"User": entry.username, "Key": entry.key_name, "Rule": entry.rule_name, "Provider": entry.provider_name}
    return [
        limit,
        Name("model", entry.model, pages.get("Model", "")),
        *(Name(fact.lower(), name or "", pages.get(fact, "")) for fact, name in names.items()),
    ]


def _cause_page(entry: LogEntry, period: Period) -> str:
    """The limit that refused the request, or the rules that did; '' for another error."""
    if refusing := _refusing_limit(entry):
        return with_query(reverse("admin:limit-by-name"), {"name": refusing})
    if entry.entry_type == EntryType.WORK_REQUEST and entry.outcome == Outcome.DENIED and entry.status == 403:
        return with_query(reverse("admin:explain-entry", args=[entry.pk]), period.moments()) + "#rules"
    return ""


def price_page(entry: LogEntry) -> str:
    """The form for the price that the work lacks; '' for other entries."""
    return price_form(entry.served_model or entry.model, entry.provider_id) if entry.lacks_price else ""


def rule_form(entry: LogEntry) -> str:
    """The form for a rule that allows the user such requests, filled in; '' unless no rule allowed this one."""
    if entry.exception != RuleDenied.__name__ or not entry.user_id:
        return ""
    models = [] if entry.alias else models_of({"model": entry.model})
    model = models[0].name if models else entry.model  # rules judge the name without the provider's
    values = {"audience": "user", "user": str(entry.user_id), "regex": re.escape(model).replace(r"\-", "-")}
    return prefilled_form("rules_rule", values | {"name": f"{model} for {entry.username}"[:MAX_RULE_NAME]})


def _prices_page(entry: LogEntry) -> str:
    """The prices that the cost was calculated with, or that came after them; '' without a cost."""
    if not entry.cost or not entry.provider_name:
        return ""
    model = f"{entry.provider_name}/{entry.served_model or entry.model}"
    return with_query(reverse("admin:providers_modelprice_changelist"), {"for_model": model, "of": "all"})


def _refusing_limit(entry: LogEntry) -> str:
    return "" if entry.decision is None else LoggedDecision(*entry.decision).refusing


def _search_page(table: str, period: Period, *names: str | None) -> str:
    """The list of a table, searched for the name if there is only one; '' without a name."""
    searches = [{"q": name} for name in names if name]
    query = searches[0] if len(searches) == 1 else {}
    return with_query(reverse(f"admin:{table}_changelist"), query | period.moments()) if searches else ""


def provider_pages(names: Iterable[str], period: Period) -> Mapping[str, str]:
    """The pages of these providers, by name."""
    rows = Provider.objects.filter(name__in=set(names)).values_list("name", "pk")
    return {name: row_page("providers_provider", number, period) for name, number in rows}
