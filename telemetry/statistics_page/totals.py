"""The totals of the statistics page: of the period, and how they differ from those of the period before."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from gateway_project.console.display.money import missing_costs, money, short_count
from gateway_project.json_types import JsonObject
from providers.console.model_links import price_form
from telemetry import services
from telemetry.statistics_page.form import UsageForm
from telemetry.usage.dashboard_sums import UNKNOWN_COSTS
from telemetry.usage.rollups import TOKENS
from telemetry.usage.statistics import Page, UsageQuery

MISSING = UNPRICED, UNANSWERED = "Requests without cost", "Requests of unknown cost"  # totals that costs lack
PRICED_BY = {"model", "provider_id"}  # the filters that the list of models without a price has columns for
COUNTED = ("requests", "errors", "cache_hits", *TOKENS, *UNKNOWN_COSTS)
# Rows by these do not sum up to the whole: a request counts in several groups and tags, and old hours are deleted.
INCOMPLETE = {"group", "tag", "hour"}


class Total(NamedTuple):
    """A figure of the whole period, and how it differs from the period before."""

    title: str
    text: str
    change: str
    address: str = ""


def totals(query: UsageQuery, form: UsageForm, page: Page) -> list[Total]:
    """Requests, errors, cache share, tokens and cost of the period, compared with as long a period before it.

    `page` has the rows of the query, from the first on.
    """
    length = min(query.end - query.start, query.start - services.EARLIEST)
    is_whole = page.total <= len(page.rows) and INCOMPLETE.isdisjoint(query.by)
    now = _sums(page.rows if is_whole else _days(query, query.start, query.end))
    before = _sums(_days(query, query.start - length, query.start))
    return [
        Total("Requests", f"{now['requests']:,}", _change(now["requests"], before["requests"])),
        Total("Errors", f"{now['errors']:,} ({_share(now, 'errors')})", _change(now["errors"], before["errors"])),
        Total("From the cache", _share(now, "cache_hits"), f"{_share(before, 'cache_hits')} in the period before"),
        Total("Tokens", short_count(now["tokens"]), _change(now["tokens"], before["tokens"])),
        *(
            Total("Cost", money(amount, currency), _change(amount, before["costs"].get(currency, Decimal())))
            for currency, amount in sorted(now["costs"].items())
        ),
        *_missing_totals(query, form, now),
    ]


def _missing_totals(query: UsageQuery, form: UsageForm, sums: JsonObject) -> Iterator[Total]:
    """What the cost does not contain: requests without a price, and others of unknown cost."""
    unpriced, unanswered = missing_costs(sums)
    if unpriced:
        yield _unpriced_total(query, form, unpriced)
    if unanswered:
        yield Total(UNANSWERED, unanswered, "")


def _unpriced_total(query: UsageQuery, form: UsageForm, text: str) -> Total:
    """The requests without a price, with the form for the price that most of them lack, or with their models."""
    row = _most_unpriced(query)
    if row is None:
        return Total(UNPRICED, text, "Show the models", unpriced_models(form))
    address = price_form(row["model"], row["provider_id"])
    return Total(UNPRICED, text, f"Set a price for {row['model'] or 'a model'}", address)


def _most_unpriced(query: UsageQuery) -> JsonObject | None:
    """The model and provider of most requests without a price.

    None if all have a price by now, or if the query has filters that this list of models does not have.
    """
    if not query.filters.keys() <= PRICED_BY:
        return None
    rows = services.list_models_without_price(query.start, query.end)
    matches = (row for row in rows if all(row[name] == value for name, value in query.filters.items()))
    return next(matches, None)


def unpriced_models(form: UsageForm, **changes: object) -> str:
    """The address of the same usage by model, those with the most requests without a price first."""
    return form.address(**{"by": "model", "then": "", "sort": "-unpriced_requests"} | changes)


def _days(query: UsageQuery, start: datetime, end: datetime) -> list[JsonObject]:
    return services.usage(UsageQuery(start, end, ("day",), query.filters), 0, 10_000).rows


def _sums(rows: Sequence[JsonObject]) -> JsonObject:
    sums: JsonObject = {name: sum(row[name] for row in rows) for name in COUNTED}
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for cost in (cost for row in rows for cost in row["costs"]):
        costs[cost["currency"]] += total_cost(cost)
    return sums | {"tokens": sum(sums[name] for name in TOKENS), "costs": costs}


def _share(sums: JsonObject, name: str) -> str:
    return f"{100 * sums[name] / sums['requests']:.1f} %" if sums["requests"] else "none"


def _change(now: int | Decimal, before: int | Decimal) -> str:
    if not before:
        return "none in the period before"
    return f"{100 * (now - before) / before:+.0f} % against the period before"


def total_cost(cost: dict[str, str]) -> Decimal:
    return Decimal(cost["known"]) + Decimal(cost["estimated"])
