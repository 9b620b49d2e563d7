"""A result as what its page shows: figures, and tables with links to the entries behind each number."""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, timedelta
from decimal import Decimal
from typing import NamedTuple

from django.urls import reverse
from django.utils.safestring import SafeString

from gateway_project.console.display.money import amounts
from gateway_project.console.links import link, link_to
from gateway_project.console.period import Period, row_page, with_query
from gateway_project.json_types import JsonObject
from gateway_project.work.what_if.outcome import COUNTED
from providers.console.currency import usual_currency
from providers.console.model_links import model_page
from rules.guardrails.models import Guardrail
from rules.models import WhatIf

LABELS = {
    "newlyAllowed": "Newly allowed",
    "newlyDenied": "Newly denied",
    "rerouted": "Other provider",
    "repriced": "Other cost",
}
ENTRY_LABELS = LABELS | {
    "refusedByLimits": "Refused by limits",
    "blockedByGuardrails": "Blocked by guardrails",
    "cacheShareBefore": "From the cache",
    "cacheShareAfter": "From the cache with the draft",
    "skipped": "User no longer active",
    "unknownCosts": "Cost unknown",
    "refusedOtherwise": "Refused for other reasons",
    "unknownTexts": "Text unknown",
}
GUARDRAIL_LABELS = {
    "blockedBefore": "Blocked now",
    "redactedBefore": "Redacted now",
    "monitoredBefore": "Only recorded now",
    "blocked": "Blocked with the draft",
    "redacted": "Redacted with the draft",
    "monitored": "Only recorded with the draft",
    "unknown": "Unknown",
}
MAX_SHOWN = 200  # rows of a table


class Example(NamedTuple):
    """An entry behind a number."""

    number: int
    page: str


class Row(NamedTuple):
    """A user, group or model, with the page of its entries; numbers by LABELS, each with its entries."""

    name: str
    link: SafeString | str
    log: str
    numbers: list[tuple[int, list[Example]]]
    before: str
    after: str
    cache: str


class Table(NamedTuple):
    """Rows of one kind."""

    title: str
    rows: list[Row]
    more: int


def template_values(what_if: WhatIf) -> JsonObject:
    """The template context of a result; {} while there is none."""
    result = what_if.result
    if not result:
        return {}
    return {
        "figures": list(_figures(result)),
        "labels": list(LABELS.values()),
        "tables": list(_tables(result, what_if)),
        "examples": [(label, ids) for name, label in ENTRY_LABELS.items() if (ids := _examples(result, name))],
        "guardrails": _guardrails(result.get("byGuardrail", ())),  # results of before an update lack it
        "guardrail_labels": list(GUARDRAIL_LABELS.values()),
        "unknown": result["unknown"],
        "log": _log(what_if),
    }


def _figures(result: JsonObject) -> Iterator[tuple[str, str]]:
    yield "Requests", f"{result['requests']:,}"
    for name, label in LABELS.items():
        yield label, f"{result[name]:,}"
    yield "Refused by limits", f"{result['refusedByLimits']:,}"
    yield "Blocked by guardrails", f"{result['blockedByGuardrails']:,}"
    yield "Cost", f"{_money(result['costBefore'])} → {_money(result['costAfter'])}"
    yield "From the cache", _cache(result)


def _tables(result: JsonObject, what_if: WhatIf) -> Iterator[Table]:
    kinds = (
        ("By user", "byUser", "userName", "user"),
        ("By group", "byGroup", "groupName", "group"),
        ("By model", "byModel", "model", "model_name"),
    )
    for title, member, name, parameter in kinds:
        rows = [_row(row, str(row[name]), parameter, what_if) for row in result[member][:MAX_SHOWN]]
        yield Table(title, rows, max(0, len(result[member]) - MAX_SHOWN))


def _row(row: JsonObject, name: str, parameter: str, what_if: WhatIf) -> Row:
    numbers = [(row[change.value], _examples(row, change.value)) for change in COUNTED]
    log = _log(what_if, **{parameter: name}) if name else ""  # a group that was deleted has no name
    page = _page_of(row, _period(what_if))
    return Row(name, link(name, page), log, numbers, _money(row["costBefore"]), _money(row["costAfter"]), _cache(row))


def _page_of(row: JsonObject, period: Period) -> str:
    """The page of what a row is about; the log has the same period."""
    if "model" in row:
        return model_page(row["model"], period=period)
    table, name = ("accounts_user", "userId") if "userId" in row else ("accounts_group", "groupId")
    return row_page(table, row[name], period)


def _guardrails(rows: Collection[JsonObject]) -> list[tuple[SafeString | str, list[tuple[int, list[Example]]]]]:
    """The name of each guardrail, as a link if it exists, and its numbers by GUARDRAIL_LABELS."""
    guardrails = Guardrail.objects.filter(name__in=[row["guardrail"] for row in rows])
    by_name = {guardrail.name: guardrail for guardrail in guardrails}
    return [
        (
            link_to(by_name.get(row["guardrail"])) or row["guardrail"],
            [(row[name], _examples(row, name)) for name in GUARDRAIL_LABELS],
        )
        for row in rows
    ]


def _examples(counts: JsonObject, name: str) -> list[Example]:
    return [
        Example(number, reverse("admin:telemetry_logentry_change", args=[number]))
        for number in counts["examples"].get(name, ())  # results of before an update lack some
    ]


def _cache(counts: JsonObject) -> str:
    return f"{_share(counts['cacheShareBefore'])} → {_share(counts['cacheShareAfter'])}"


def _log(what_if: WhatIf, **filters: str) -> str:
    """The list of the period's entries."""
    return with_query(reverse("admin:telemetry_logentry_changelist"), _period(what_if).moments() | filters)


def _period(what_if: WhatIf) -> Period:
    last_moment = what_if.end - timedelta.resolution  # lists have the whole second of their upper bound
    return Period(what_if.start.astimezone(UTC), last_moment.astimezone(UTC))


def _money(costs: Mapping[str, str]) -> str:
    exact = {currency: Decimal(amount) for currency, amount in costs.items()}
    return amounts(exact, usual_currency)


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"
