"""The statistics page of the console: usage by one dimension as a chart, a table and a CSV file."""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from decimal import Decimal

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import capfirst
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from gateway_project.console import charts
from gateway_project.console.money import money
from gateway_project.console.site import console_site
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from telemetry import services
from telemetry.usage import statistics
from telemetry.usage.rollups import MICROSECOND
from telemetry.usage.statistics import DIMENSIONS, UsageQuery
from telemetry.viewsets import csv_response

MAX_TABLE_ROWS, MAX_CHART_ROWS, LABEL_LENGTH = 100, 30, 40
TIMES = ("hour", "day")
ATTEMPTS = ("attempts", "failed_attempts")  # shown of providers: beside requests they say little of other things
FIELDS = {"from": "start", "to": "end"}  # the form's fields by the parameters of the API
# The measures that a chart can show; rows are sorted by it unless they are times.
CHARTS = {
    "requests": "Requests",
    "errors": "Errors",
    "attempts": "Attempts",
    "failed_attempts": "Failed attempts",
    "cache_hits": "From the cache",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "saved_tokens": "Tokens saved",
    "cost": "Cost",
}


class UsageForm(forms.Form):
    """The query: full days (UTC), the dimension to aggregate by, and the measure of the chart."""

    start = forms.DateField(label="From", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))
    end = forms.DateField(label="To", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))
    by = forms.ChoiceField(
        choices=[(name, name.capitalize()) for name in DIMENSIONS],
        required=False,
        initial="day",
        widget=UnfoldAdminSelectWidget,
    )
    chart = forms.ChoiceField(choices=CHARTS.items(), required=False, widget=UnfoldAdminSelectWidget)

    def usage_query(self) -> UsageQuery:
        """The query of the form; raises the API's ValidationError for a period that ends before it begins."""
        first, last = (self.cleaned_data.get(name) for name in ("start", "end"))
        start, end = services.period(
            first and datetime.combine(first, time.min, UTC), last and datetime.combine(last, time.max, UTC)
        )
        by = self.cleaned_data.get("by") or "day"
        return UsageQuery(start=start, end=end, by=(by,), sort=by if by in TIMES else f"-{self.measure}")

    @property
    def measure(self) -> str:
        return self.cleaned_data.get("chart") or "requests"


@console_site().page("statistics/", name="statistics")
def show(request: HttpRequest) -> HttpResponse:
    """Usage of a period by one dimension; with `export` all rows as CSV."""
    form, context = UsageForm({"by": "day", **request.GET.dict()}), {}
    try:
        if form.is_valid():
            query = form.usage_query()
            if "export" in request.GET:
                return csv_response(services.usage_csv(query), query)
            context = _usage_context(query, form.measure)
            form = UsageForm({**form.data, **_period_fields(query)})
    except GatewayError as error:
        for problem in error.problems:
            form.add_error(FIELDS.get(problem.parameter), capfirst(problem.detail))
    sentences = " ".join(map(str, form.non_field_errors()))
    context = console_site().context(request, "Statistics", form=form, problem=sentences, **context)
    return TemplateResponse(request, "console/statistics.html", context)


def _period_fields(query: UsageQuery) -> dict[str, str]:
    """The days of the query for the form's fields, which may have been left empty."""
    return {"start": f"{query.start:%Y-%m-%d}", "end": f"{query.end - MICROSECOND:%Y-%m-%d}"}


def _usage_context(query: UsageQuery, measure: str) -> JsonObject:
    by = query.by[0]
    page = services.usage(query, 0, MAX_TABLE_ROWS)
    services.add_health(page.rows)
    names = [_name(row, by) for row in page.rows]
    sets = _sets(page.rows[:MAX_CHART_ROWS], measure)
    return {
        "by": by,
        "query": query,
        "chart_title": CHARTS[measure],
        "chart": charts.bars(list(map(_label, names[:MAX_CHART_ROWS])), sets),
        "legend": charts.legend(sets),
        "rows": list(zip(names, map(_cells, page.rows), strict=True)),
        "total": page.total,
    }


def _sets(rows: list[JsonObject], measure: str) -> dict[str, Sequence[float]]:
    """The chart's data sets: one, or for costs one for each currency."""
    return {CHARTS[measure]: [row[measure] for row in rows]} if measure != "cost" else _costs(rows)


def _label(name: str) -> str:
    return name if len(name) <= LABEL_LENGTH else f"{name[:LABEL_LENGTH]}…"


def _costs(rows: list[JsonObject]) -> dict[str, Sequence[float]]:
    """The cost of each row in each currency, estimates included."""
    spent = [{cost["currency"]: _spent(cost) for cost in row["costs"]} for row in rows]
    currencies = sorted({currency for costs in spent for currency in costs})
    return {currency: [float(costs.get(currency, 0)) for costs in spent] for currency in currencies}


def _name(row: JsonObject, by: str) -> str:
    column = statistics.DIMENSIONS[by]
    name = row.get(column.replace("_id", "_name")) or row[column]
    return "(none)" if name is None else str(name)


def _cells(row: JsonObject) -> list[tuple[str, str]]:
    """The columns of the table with formatted values; money has a line for each currency."""
    attempts = ATTEMPTS if "health" in row else ()
    counts = ("requests", "errors", *attempts, "denied", "cache_hits", "input_tokens", "output_tokens", "saved_tokens")
    titles = CHARTS | {"denied": "Denied", "cache_hits": "Cached"}
    return [
        *([("State", row["health"] or "")] if "health" in row else []),
        *((titles[name], f"{row[name]:,}") for name in counts),
        ("Cost", "\n".join(map(_cost, row["costs"]))),
        ("Saved", "\n".join(_saved(cost) for cost in row["costs"] if cost["saved"] != "0")),
        ("p95 (ms)", "" if row["p95_ms"] is None else f"{row['p95_ms']:,.0f}"),
    ]


def _cost(cost: dict[str, str]) -> str:
    estimated = Decimal(cost["estimated"])
    mark = f"\n({money(estimated, '')} estimated)" if estimated else ""
    return f"{money(_spent(cost), cost['currency'])}{mark}"


def _saved(cost: dict[str, str]) -> str:
    return money(Decimal(cost["saved"]), cost["currency"])


def _spent(cost: dict[str, str]) -> Decimal:
    return Decimal(cost["known"]) + Decimal(cost["estimated"])
