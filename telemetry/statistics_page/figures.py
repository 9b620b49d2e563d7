"""What the statistics page shows of usage: charts, and a table of cells."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import NamedTuple

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from gateway_project.console.display import charts
from gateway_project.console.display.badges import Badge
from gateway_project.console.display.measures import short_duration
from gateway_project.console.display.money import Figure, in_words, missing_costs, money, short_count
from gateway_project.console.display.paths import page_path
from gateway_project.console.display.times import MINUTES, utc_time
from gateway_project.console.links import link
from gateway_project.console.period import row_page, with_query
from gateway_project.json_types import JsonObject
from providers.console.model_links import model_page, price_form
from telemetry.statistics_page.filters import FILTERS
from telemetry.statistics_page.form import CHARTS, TIMES, Link, UsageForm
from telemetry.statistics_page.totals import total_cost, unpriced_models
from telemetry.usage.dashboard_sums import NO_MODEL
from telemetry.usage.statistics import DIMENSIONS, LATENCIES, RESULT_COLUMNS, Page, UsageQuery

MAX_TABLE_ROWS, MAX_CHART_ROWS, MAX_SETS, LABEL_LENGTH = 100, 30, 7, 40
OTHERS = "all others"
MAX_TIMES = 24 * 32  # the hours of a month
EMPTY = "–"
BREAK = SafeString("<br>")
# The measures whose values of parts sum up to that of the whole.
ADDITIVE = CHARTS.keys() - {"cache_share", "p50_ms", "p95_ms", "average_first_byte_ms"}
ATTEMPTS = ("attempts", "failed_attempts")  # shown of providers: beside requests they say little of other things
COUNTS = (
    *("requests", "errors", "denied", "cache_hits"),
    *("input_tokens", "cache_read_tokens", "output_tokens", "saved_tokens"),
)
LONG_COUNT = 100_000  # from which a count is short, and exact on hover: all columns have room in 1,280 pixels
TITLES = CHARTS | {
    "failed_attempts": "Failed",
    "denied": "Denied",
    "cache_hits": "Cached",
    "cache_read_tokens": "Cached in",
}
# Usage without a name in each dimension.
NAMELESS = {
    "user": "(unknown user)",
    "group": "(in no group)",
    "key": "(without a key)",
    "provider": "(not sent to a provider)",
    "model": NO_MODEL,
    "alias": "(not by an alias)",
    "tag": "(no tag)",
}
# The pages of what a name stands for, by the row's id.
PAGES = {
    "user": "accounts_user",
    "group": "accounts_group",
    "key": "keys_apikey",
    "provider": "providers_provider",
}


class Line(NamedTuple):
    """A line of a cell, which may be a link."""

    text: str
    address: str = ""


class Cell(NamedTuple):
    """A cell of a table: the heading of its column, with the address of the table sorted by it, and its lines."""

    title: str
    lines: Sequence[Line]
    sort: str = ""
    wraps: bool = False

    @property
    def html(self) -> SafeString:
        """Its lines. They are not left to the template, because a page has hundreds of cells."""
        return format_html_join(BREAK, "{}", [(link(line.text, line.address),) for line in self.lines])


class Chart(NamedTuple):
    """A chart: its data as JSON, the names of its colours, and what it leaves out."""

    title: str
    data: str
    legend: list[charts.LegendEntry]
    note: str = ""


def max_rows(query: UsageQuery) -> int:
    return MAX_TIMES if query.by[0] in TIMES else MAX_TABLE_ROWS


def times_of(page: Page, query: UsageQuery) -> list[str]:
    """The hours or days that are shown, those without usage too; empty if they are too many, or not by time.

    Of a table that is cut, those up to its last row: what follows may have usage.
    """
    by = query.by[0]
    times = list(_times(query, by)) if by in TIMES else []
    if len(times) > MAX_TIMES:
        return []
    if page.total <= len(page.rows):
        return times
    return [at for at in times if at <= page.rows[-1][by]] if query.sort == by else []


def with_empty_times(rows: list[JsonObject], times: Sequence[str], query: UsageQuery) -> list[JsonObject]:
    """The rows in the order of these times, with one of zeros for each time without usage.

    Such a row has no second dimension.
    """
    by = query.by[0]
    if not (rows and times and query.sort == by):
        return rows
    of_times = defaultdict(list)
    for row in rows:
        of_times[row[by]].append(row)
    empty = dict.fromkeys(RESULT_COLUMNS, 0) | dict.fromkeys(LATENCIES) | {"costs": []}
    empty |= {"health": None, "health_badge": None} if "health" in rows[0] else {}
    return [row for at in times for row in of_times.get(at) or [{by: at, **empty}]]


def _times(query: UsageQuery, by: str) -> Iterable[str]:
    step, form = (timedelta(hours=1), "%Y-%m-%dT%H:%M:%SZ") if by == "hour" else (timedelta(days=1), "%Y-%m-%d")
    at = query.start if by == "hour" else query.start.replace(hour=0)
    end = min(query.end, datetime.now(UTC))
    while at < end:
        yield f"{at:{form}}"
        at += step


# -- The chart ------------------------------------------------------------------------------------------


def charts_of(rows: list[JsonObject], times: Sequence[str], query: UsageQuery, form: UsageForm) -> list[Chart]:
    """A chart with a bar for each row; of two dimensions a bar for each value of the first, in parts of the second.

    Bars and parts lead to the pages of what they stand for. What does not add up, such as a latency, has bars beside
    each other instead of parts, and lines over times.
    Costs in several currencies stand beside each other; those of two dimensions have a chart for each currency.
    """
    if len(query.by) == 1:
        return [_simple_chart(rows, query.by[0], form)]
    currencies = _currencies(rows) if form.measure == "cost" else []
    labels = times or _first_names(rows, query.by[0])
    return [
        _chart_of_two(rows, labels, form, currency, is_one_of_several=len(currencies) > 1)
        for currency in currencies or [""]
    ]


def _simple_chart(rows: list[JsonObject], by: str, form: UsageForm) -> Chart:
    measure = form.measure
    chart_rows = rows if by in TIMES else rows[:MAX_CHART_ROWS]
    sets = _costs(chart_rows) if measure == "cost" else {CHARTS[measure]: [_value(row, measure) for row in chart_rows]}
    unit = next(iter(sets), "") if measure == "cost" and len(sets) == 1 else ""
    row_names = [name_of(row, by) for row in chart_rows]
    label_of = _labels(row_names)
    labels = [label_of[name] for name in row_names]
    pages = [_page_of(row, by, form) for row in chart_rows]
    note = _note("first", len(chart_rows), len(rows))
    return Chart(CHARTS[measure], charts.bars(labels, sets, unit=unit, pages=pages), charts.legend(sets), note)


def _chart_of_two(
    rows: list[JsonObject], labels: Sequence[str], form: UsageForm, currency: str, *, is_one_of_several: bool
) -> Chart:
    (first, second), measure = form.dimensions, form.measure
    values: dict[str, dict[str, float | None]] = defaultdict(dict)
    for row in (row for row in rows if DIMENSIONS[second] in row):
        of_name, at = values[name_of(row, second)], name_of(row, first)
        of_name[at] = _combine_values(of_name.get(at), _value(row, measure, currency), measure)
    greatest = sorted(values, key=lambda name: -sum(filter(None, values[name].values())))
    names = [name for name in greatest if any(values[name].values())] or greatest
    first_names, others = names[:MAX_SETS], names[MAX_SETS:]
    empty = 0 if measure in ADDITIVE else None
    label_of, pages = _labels(first_names), _pages(rows, second, form, first_names)
    sets = {label_of[name]: [values[name].get(at, empty) for at in labels] for name in first_names}
    notes = [] if first in TIMES else [_note("first", len(labels), len({name_of(row, first) for row in rows}))]
    if others and measure in ADDITIVE:
        sets[OTHERS] = [sum(values[name].get(at) or 0 for name in others) for at in labels]
    else:
        notes.append(_note("greatest", len(first_names), len(names)))
    title = f"{CHARTS[measure]} ({currency})" if is_one_of_several else CHARTS[measure]
    data = _data_of_two(labels, sets, _pages(rows, first, form, labels), form, currency)
    legend = charts.legend(sets, {label: pages.get(name, "") for name, label in label_of.items()})
    return Chart(title, data, legend, " ".join(filter(None, notes)))


def _note(order: str, number: int, total: int) -> str:
    """What a chart says if it has not room for all."""
    return f"The chart shows the {order} {number} of {total} names." if number < total else ""


def _pages(rows: list[JsonObject], by: str, form: UsageForm, names: Iterable[str]) -> dict[str, str]:
    """The page of each of these names of a dimension that a row has."""
    row_of = {name_of(row, by): row for row in rows if DIMENSIONS[by] in row}
    return {name: _page_of(row_of[name], by, form) for name in names if name in row_of}


def _combine_values(one: float | None, other: float | None, measure: str) -> float | None:
    """The value of rows that have the same names: their sum, or the greater one where a sum means nothing."""
    if one is None or other is None:
        return other if one is None else one
    return one + other if measure in ADDITIVE else max(one, other)


def _data_of_two(
    names: Sequence[str],
    sets: Mapping[str, Sequence[float | None]],
    pages: Mapping[str, str],
    form: UsageForm,
    currency: str,
) -> str:
    label_of = _labels(names)
    labels, addresses = [label_of[name] for name in names], [pages.get(name, "") for name in names]
    if form.measure not in ADDITIVE and form.dimensions[0] in TIMES:
        return charts.marked_lines(labels, sets, addresses)
    return charts.bars(labels, sets, stacked=form.measure in ADDITIVE, unit=currency, pages=addresses)


def _first_names(rows: list[JsonObject], first: str) -> list[str]:
    """The values of the first dimension, as many as a chart has room for."""
    labels = list(dict.fromkeys(name_of(row, first) for row in rows))
    return sorted(labels) if first in TIMES else labels[:MAX_CHART_ROWS]


def _value(row: JsonObject, measure: str, currency: str = "") -> float | None:
    """The measure of a row; of costs those in one currency. None where there is none, as for the latency of nothing."""
    if measure == "cost":
        return float(sum(total_cost(cost) for cost in row["costs"] if cost["currency"] == currency))
    if measure == "cache_share":
        return round(100 * row["cache_hits"] / row["requests"], 1) if row["requests"] else None
    return row[measure]


def _currencies(rows: list[JsonObject]) -> list[str]:
    return sorted({cost["currency"] for row in rows for cost in row["costs"]})


def _labels(names: Iterable[str]) -> dict[str, str]:
    """A label for each name: shortened, and different from those of all others."""
    labels: dict[str, str] = {}
    in_use = {OTHERS}
    for name in dict.fromkeys(names):
        labels[name] = next(label for label in _short_names(name) if label not in in_use)
        in_use.add(labels[name])
    return labels


def _short_names(name: str) -> Iterator[str]:
    """The name cut at its end, then in its middle, then with a number."""
    half = LABEL_LENGTH // 2
    end = name if len(name) <= LABEL_LENGTH else f"{name[:LABEL_LENGTH]}…"
    yield end
    if end != name:
        yield f"{name[:half]}…{name[-half:]}"
    yield from (f"{end} ({number})" for number in count(2))


def _costs(rows: list[JsonObject]) -> dict[str, Sequence[float | None]]:
    """The cost of each row in each currency, estimates included."""
    return {currency: [_value(row, "cost", currency) for row in rows] for currency in _currencies(rows)}


# -- The table ------------------------------------------------------------------------------------------


def names(row: JsonObject, form: UsageForm) -> list[Link]:
    """The name in each dimension of a row, with the address of what it names; none in the second of an empty time."""
    return [
        Link(_shown_name(row, by), _page_of(row, by, form)) if DIMENSIONS[by] in row else Link(EMPTY, "")
        for by in form.dimensions
    ]


def _shown_name(row: JsonObject, by: str) -> str:
    """The name; of an hour its time, beside which the browser shows its own."""
    name = name_of(row, by)
    return utc_time(datetime.fromisoformat(name), f"{MINUTES} UTC") if by == "hour" else name


def name_of(row: JsonObject, by: str) -> str:
    column = DIMENSIONS[by]
    name = row.get(column.replace("_id", "_name")) or row[column]
    return NAMELESS[by] if name is None else str(name)


def _page_of(row: JsonObject, by: str, form: UsageForm) -> str:
    """The page of a user, group, key or provider; of a day its hours; the log of an hour or a tag."""
    value = row[DIMENSIONS[by]]
    if value is None:
        return ""
    period = form.period
    if by in PAGES:
        return row_page(PAGES[by], value if row.get(f"{by}_name") else None, period)
    if by == "model":
        return model_page(value, row.get("provider_id"), period)
    if by == "alias":
        return with_query(page_path("rules_alias_changelist"), {"q": value} | period.moments())
    if by == "day":
        return form.address(by="hour", then="", start=value, end=value)
    log = {"tag": value} | period.moments() if by == "tag" else _hour(value)
    return with_query(page_path("telemetry_logentry_changelist"), log)


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
    costs = [*(line for cost in row["costs"] for line in _cost(cost)), *_uncounted_requests(row, form)]
    saved = [Line(_saved_cost(cost)) for cost in row["costs"] if cost["saved"] != "0"]
    return [
        *([_state(row["health_badge"])] if "health" in row else []),
        *(Cell(TITLES[name], _count(name, row), _sort_address(name, form)) for name in counts),
        Cell("Cost", costs, _sort_address("cost", form)),
        Cell("Saved", saved, _sort_address("saved_cost", form)),
        Cell("p50, p95", _latencies(row), _sort_address("p95_ms", form)),
    ]


def _uncounted_requests(row: JsonObject, form: UsageForm) -> list[Line]:
    """The requests that the cost does not contain."""
    unpriced, unanswered = missing_costs(row)
    lines = (Line(unpriced, _price_page(row, form)), Line(unanswered))
    return [line for line in lines if line.text]


def _state(badge: Badge | None) -> Cell:
    """That of a provider; empty for one that was deleted."""
    return Cell("State", [Line(badge.html)] if badge else [], wraps=True)


def _count(name: str, row: JsonObject) -> list[Line]:
    """The number of a measure; below the input tokens that a provider read from its cache those that it wrote."""
    is_long = name.endswith("_tokens") or row[name] >= LONG_COUNT
    text = short_count(row[name]) if is_long else f"{row[name]:,}"
    write_tokens = row["cache_write_tokens"] if name == "cache_read_tokens" else 0
    return [Line(text), *([Line(in_words("+ {} written", short_count(write_tokens)))] if write_tokens else [])]


def _price_page(row: JsonObject, form: UsageForm) -> str:
    """The form for the missing price where the row is of one model, else the models of the row that lack one."""
    if row.get("model"):
        return price_form(row["model"], row.get("provider_id"))
    return unpriced_models(form, **{by: row.get(DIMENSIONS[by]) for by in form.dimensions if by in FILTERS})


def _sort_address(name: str, form: UsageForm) -> str:
    """The address of the same table by this column, the greatest first, or the smallest if it is so already."""
    return form.address(sort=name if form.cleaned_data.get("sort") == f"-{name}" else f"-{name}")


def _latencies(row: JsonObject) -> list[Line]:
    return [] if row["p95_ms"] is None else [Line(short_duration(row[name])) for name in ("p50_ms", "p95_ms")]


def _cost(cost: dict[str, str]) -> Iterator[Line]:
    yield Line(money(total_cost(cost), cost["currency"]))
    if estimated := Decimal(cost["estimated"]):
        figure = money(estimated, cost["currency"])
        yield Line(Figure(f"est. {figure}", f"{figure.exact} estimated"))


def _saved_cost(cost: dict[str, str]) -> str:
    return money(Decimal(cost["saved"]), cost["currency"])
