"""What the statistics page shows of usage: totals beside those of the period before, a chart, and a table of cells."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import urlencode

from django.urls import reverse

from gateway_project.console.display import charts
from gateway_project.console.display.money import money, short, without_price
from gateway_project.json_types import JsonObject
from providers.console.price_links import price_form
from telemetry import services
from telemetry.statistics_page.form import CHARTS, TIMES, Link, UsageForm
from telemetry.usage.statistics import DIMENSIONS, SHOWN, SORTED_BY, UsageQuery

MAX_TABLE_ROWS, MAX_CHART_ROWS, MAX_STACKED, LABEL_LENGTH = 100, 30, 8, 40
MAX_TIMES = 24 * 32  # the hours of a month
ATTEMPTS = ("attempts", "failed_attempts")  # shown of providers: beside requests they say little of other things
COUNTS = ("requests", "errors", "denied", "cache_hits", "input_tokens", "output_tokens", "saved_tokens")
TITLES = CHARTS | {"denied": "Denied", "cache_hits": "Cached"}
# The pages of what a name stands for: those of rows by id, lists by their search.
PAGES = {
    "user": "accounts_user_change",
    "group": "accounts_group_change",
    "key": "keys_apikey_change",
    "provider": "providers_provider_change",
}
SEARCHES = {"model": "providers_model_changelist", "alias": "rules_alias_changelist"}


class Line(NamedTuple):
    """A line of a cell, which may be a link."""

    text: str
    address: str = ""


class Cell(NamedTuple):
    """A cell of a table: the heading of its column, with the address of the table sorted by it, and its lines."""

    title: str
    lines: Sequence[Line]
    sort: str = ""


class Total(NamedTuple):
    """A figure of the whole period, and how it differs from the period before."""

    title: str
    text: str
    change: str
    address: str = ""


def max_rows(query: UsageQuery) -> int:
    return MAX_TIMES if query.by[0] in TIMES else MAX_TABLE_ROWS


def with_empty_times(rows: list[JsonObject], query: UsageQuery) -> list[JsonObject]:
    """The rows by hour or day, with one of zeros for each time without usage: a chart must not skip it."""
    [by] = query.by if len(query.by) == 1 else [""]
    if by not in TIMES or query.sort != by:
        return rows
    of_times = {row[by]: row for row in rows}
    times = list(_times(query, by))
    if len(times) > MAX_TIMES:
        return rows
    empty = dict.fromkeys(SHOWN, 0) | dict.fromkeys(("average_ms", "p50_ms", "p95_ms", "average_first_byte_ms"))
    return [of_times.get(at) or {by: at, **empty, "costs": []} for at in times]


def _times(query: UsageQuery, by: str) -> Iterable[str]:
    step, form = (timedelta(hours=1), "%Y-%m-%dT%H:%M:%SZ") if by == "hour" else (timedelta(days=1), "%Y-%m-%d")
    at = query.start if by == "hour" else query.start.replace(hour=0)
    end = min(query.end, datetime.now(UTC))
    while at < end:
        yield f"{at:{form}}"
        at += step


# -- Totals ---------------------------------------------------------------------------------------------


def totals(query: UsageQuery) -> list[Total]:
    """Requests, errors, cache share, tokens and cost of the period, compared with as long a period before it."""
    length = min(query.end - query.start, query.start - services.EARLIEST)
    now, before = _sums(query, query.start, query.end), _sums(query, query.start - length, query.start)
    unpriced = now["unknown_cost_requests"]
    return [
        Total("Requests", f"{now['requests']:,}", _change(now["requests"], before["requests"])),
        Total("Errors", f"{now['errors']:,} ({_share(now, 'errors')})", _change(now["errors"], before["errors"])),
        Total("From the cache", _share(now, "cache_hits"), f"{_share(before, 'cache_hits')} in the period before"),
        Total("Tokens", short(now["tokens"]), _change(now["tokens"], before["tokens"])),
        *(
            Total("Cost", money(amount, currency), _change(amount, before["costs"].get(currency, Decimal())))
            for currency, amount in sorted(now["costs"].items())
        ),
        *([_unpriced_total(query, unpriced)] if unpriced else []),
    ]


def _unpriced_total(query: UsageQuery, count: int) -> Total:
    """What the cost does not contain, with the form for the price that most of it lacks."""
    rows = services.unpriced(query.start, query.end)
    row = rows[0] if rows else {"model": str(query.filters.get("model", "")), "provider_id": None}
    address = price_form(row["model"], row["provider_id"])
    return Total("Not in the cost", without_price(count), f"Set a price for {row['model'] or 'a model'}", address)


def _sums(query: UsageQuery, start: datetime, end: datetime) -> JsonObject:
    rows = services.usage(UsageQuery(start, end, ("day",), query.filters), 0, 10_000).rows
    sums: JsonObject = {name: sum(row[name] for row in rows) for name in (*COUNTS, "unknown_cost_requests")}
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for cost in (cost for row in rows for cost in row["costs"]):
        costs[cost["currency"]] += _spent(cost)
    return sums | {"tokens": sums["input_tokens"] + sums["output_tokens"], "costs": costs}


def _share(sums: JsonObject, name: str) -> str:
    return f"{100 * sums[name] / sums['requests']:.1f} %" if sums["requests"] else "none"


def _change(now: int | Decimal, before: int | Decimal) -> str:
    if not before:
        return "nothing in the period before"
    return f"{100 * (now - before) / before:+.0f} % against the period before"


# -- The chart ------------------------------------------------------------------------------------------


def chart(rows: list[JsonObject], query: UsageQuery, measure: str) -> JsonObject:
    """The chart's data and legend: a bar for each row, or for each value of the first dimension a stack of bars."""
    if len(query.by) == 1:
        shown = rows if query.by[0] in TIMES else rows[:MAX_CHART_ROWS]
        sets = _sets(shown, measure)
        labels = [_label(name_of(row, query.by[0])) for row in shown]
        return {"chart": charts.bars(labels, sets, unit=_unit(rows, measure)), "legend": charts.legend(sets)}
    labels, sets = _stacks(rows, query, measure)
    return {"chart": charts.bars(labels, sets, stacked=True, unit=_unit(rows, measure)), "legend": charts.legend(sets)}


def _unit(rows: list[JsonObject], measure: str) -> str:
    """The currency of a chart of costs; several have a legend."""
    currencies = {cost["currency"] for row in rows for cost in row["costs"]} if measure == "cost" else set()
    return currencies.pop() if len(currencies) == 1 else ""


def _stacks(rows: list[JsonObject], query: UsageQuery, measure: str) -> tuple[list[str], dict[str, Sequence[float]]]:
    first, second = query.by
    values: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    sums: dict[str, float] = defaultdict(float)
    for row in rows:
        value = _value(row, measure)
        values[name_of(row, second)][name_of(row, first)] += value
        sums[name_of(row, second)] += value
    labels = list(dict.fromkeys(name_of(row, first) for row in rows))
    labels = sorted(labels) if first in TIMES else labels[:MAX_CHART_ROWS]
    greatest = sorted(sums, key=lambda name: -sums[name])[:MAX_STACKED]
    return list(map(_label, labels)), {_label(name): [values[name][at] for at in labels] for name in greatest}


def _sets(rows: list[JsonObject], measure: str) -> dict[str, Sequence[float]]:
    """The chart's data sets: one, or for costs one for each currency."""
    return _costs(rows) if measure == "cost" else {CHARTS[measure]: [_value(row, measure) for row in rows]}


def _value(row: JsonObject, measure: str) -> float:
    """The measure of a row; costs of several currencies are added up, which only a stack of one currency should."""
    if measure == "cost":
        return float(sum(map(_spent, row["costs"])))
    if measure == "cache_share":
        return round(100 * row["cache_hits"] / row["requests"], 1) if row["requests"] else 0
    return row[measure] or 0


def _label(name: str) -> str:
    return name if len(name) <= LABEL_LENGTH else f"{name[:LABEL_LENGTH]}…"


def _costs(rows: list[JsonObject]) -> dict[str, Sequence[float]]:
    """The cost of each row in each currency, estimates included."""
    spent = [{cost["currency"]: _spent(cost) for cost in row["costs"]} for row in rows]
    currencies = sorted({currency for costs in spent for currency in costs})
    return {currency: [float(costs.get(currency, 0)) for costs in spent] for currency in currencies}


# -- The table ------------------------------------------------------------------------------------------


def names(row: JsonObject, form: UsageForm) -> list[Link]:
    """The name in each dimension of a row, with the address of what it names."""
    return [Link(name_of(row, by), _page_of(row, by, form)) for by in form.dimensions]


def name_of(row: JsonObject, by: str) -> str:
    column = DIMENSIONS[by]
    name = row.get(column.replace("_id", "_name")) or row[column]
    return "(none)" if name is None else str(name)


def _page_of(row: JsonObject, by: str, form: UsageForm) -> str:
    """The page of a user, group, key or provider; of a day its hours; the log of an hour or a tag."""
    value = row[DIMENSIONS[by]]
    if value is None:
        return ""
    if by in PAGES:
        return reverse(f"admin:{PAGES[by]}", args=[value]) if row.get(f"{by}_name") else ""
    if by in SEARCHES:
        return f"{reverse(f'admin:{SEARCHES[by]}')}?{urlencode({'q': value})}"
    if by == "day":
        return form.address(by="hour", then="", start=value, end=value)
    log = {"tag": value} if by == "tag" else _hour(value)
    return f"{reverse('admin:telemetry_logentry_changelist')}?{urlencode(log)}"


def _hour(value: str) -> dict[str, str]:
    day, hour = value[:10], value[11:13]
    return {
        "timestamp_from_0": day, "timestamp_from_1": f"{hour}:00:00",
        "timestamp_to_0": day, "timestamp_to_1": f"{hour}:59:59",
    }  # fmt: skip


def cells(row: JsonObject, form: UsageForm) -> list[Cell]:
    """The columns of the table with formatted values; money has a line for each currency."""
    attempts = ATTEMPTS if "health" in row else ()
    counts = (*COUNTS[:2], *attempts, *COUNTS[2:])
    unpriced = row["unknown_cost_requests"]
    missing = [Line(without_price(unpriced), _price_page(row))] if unpriced else []
    costs = [*(line for cost in row["costs"] for line in _cost(cost)), *missing]
    saved = [Line(_saved(cost)) for cost in row["costs"] if cost["saved"] != "0"]
    return [
        *([Cell("State", [Line((row["health"] or "").capitalize())])] if "health" in row else []),
        *(Cell(TITLES[name], [Line(_count(name, row[name]))], _sorting(name, form)) for name in counts),
        Cell("Cost", costs, _sorting("cost", form)),
        Cell("Saved", saved),
        Cell("p50, p95", _latencies(row)),
    ]


def _count(name: str, number: int) -> str:
    return short(number) if name.endswith("_tokens") else f"{number:,}"


def _price_page(row: JsonObject) -> str:
    """The form for the missing price where the row is of one model, else the models that lack one."""
    if row.get("model"):
        return price_form(row["model"], row.get("provider_id"))
    return f"{reverse('admin:statistics')}?{urlencode({'by': 'model', 'sort': '-unknown_cost_requests'})}"


def _sorting(name: str, form: UsageForm) -> str:
    """The address of the same table by this column, the greatest first, or the smallest if it is so already."""
    if name not in SORTED_BY:
        return ""
    return form.address(sort=name if form.cleaned_data.get("sort") == f"-{name}" else f"-{name}")


def _latencies(row: JsonObject) -> list[Line]:
    return [] if row["p95_ms"] is None else [Line(f"{row['p50_ms']:,.0f}"), Line(f"{row['p95_ms']:,.0f} ms")]


def _cost(cost: dict[str, str]) -> Iterator[Line]:
    yield Line(money(_spent(cost), cost["currency"]))
    if estimated := Decimal(cost["estimated"]):
        yield Line(f"({money(estimated, cost['currency'])} estimated)")


def _saved(cost: dict[str, str]) -> str:
    return money(Decimal(cost["saved"]), cost["currency"])


def _spent(cost: dict[str, str]) -> Decimal:
    return Decimal(cost["known"]) + Decimal(cost["estimated"])
