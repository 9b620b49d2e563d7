"""The statistics page of the console: usage by whatever one likes, as a chart, a table and a file."""

import re
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from gateway_project.console import charts
from gateway_project.console.money import money
from gateway_project.errors import GatewayError
from telemetry import services, statistics
from telemetry.rollups import INSTANT
from telemetry.statistics import DIMENSIONS, Question
from telemetry.viewsets import csv_response

SHOWN, IN_CHART, LABEL_LENGTH = 100, 30, 40
TIMES = ("hour", "day")
NAMES = re.compile(r"\bfrom\b|\bto(?=[:.])")  # what the API calls the days, in what it says of them
# What a chart shows, and what comes first where it is not the time.
CHARTS = {
    "requests": "Requests",
    "errors": "Errors",
    "cache_hits": "From the cache",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "saved_tokens": "Tokens saved",
    "cost": "Cost",
}


class UsageForm(forms.Form):
    """What is asked: full days (UTC), by what they are added up, and what the chart shows."""

    start = forms.DateField(label="From", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))
    end = forms.DateField(label="To", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))
    by = forms.ChoiceField(
        choices=[(name, name.capitalize()) for name in DIMENSIONS],
        required=False,
        initial="day",
        widget=UnfoldAdminSelectWidget,
    )
    chart = forms.ChoiceField(choices=CHARTS.items(), required=False, widget=UnfoldAdminSelectWidget)

    def question(self) -> Question:
        """Raises ValidationError of the API's for a time that ends before it begins."""
        first, last = (self.cleaned_data.get(name) for name in ("start", "end"))
        start, end = services.period(
            first and datetime.combine(first, time.min, UTC), last and datetime.combine(last, time.max, UTC)
        )
        by = self.cleaned_data.get("by") or "day"
        return Question(start=start, end=end, by=(by,), sort=by if by in TIMES else f"-{self.measure}")

    @property
    def measure(self) -> str:
        return self.cleaned_data.get("chart") or "requests"


@admin.site.page("statistics/", name="statistics")
def show(request: HttpRequest) -> HttpResponse:
    """Usage of a time by one dimension; with `export` all of it, as CSV."""
    form, problem, told = UsageForm({"by": "day", **request.GET.dict()}), "", {}
    try:
        if form.is_valid():
            question = form.question()
            if "export" in request.GET:
                return csv_response(services.exported_usage(question), question)
            told = _told(question, form.measure)
            form = UsageForm({**form.data, **_days(question)})
    except GatewayError as error:
        problem = NAMES.sub(lambda name: name[0].capitalize(), error.message)
    context = admin.site.context(request, "Statistics", form=form, problem=problem, **told)
    return TemplateResponse(request, "console/statistics.html", context)


def _days(question: Question) -> dict[str, str]:
    """The days that were asked about, for who left that open."""
    return {"start": f"{question.start:%Y-%m-%d}", "end": f"{question.end - INSTANT:%Y-%m-%d}"}


def _told(question: Question, measure: str) -> dict[str, Any]:
    by = question.by[0]
    page = services.usage(question, 0, SHOWN)
    names = [_name(row, by) for row in page.rows]
    sets = _sets(page.rows[:IN_CHART], measure)
    return {
        "by": by,
        "question": question,
        "chart_title": CHARTS[measure],
        "chart": charts.bars(list(map(_label, names[:IN_CHART])), sets),
        "legend": charts.legend(sets),
        "rows": list(zip(names, map(_cells, page.rows), strict=True)),
        "total": page.total,
    }


def _sets(rows: list[dict[str, Any]], measure: str) -> dict[str, list[float]]:
    """The numbers that the chart shows; of costs those of each currency."""
    return {CHARTS[measure]: [row[measure] for row in rows]} if measure != "cost" else _costs(rows)


def _label(name: str) -> str:
    return name if len(name) <= LABEL_LENGTH else f"{name[:LABEL_LENGTH]}…"


def _costs(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """What each row cost in each currency, estimates among it."""
    spent = [{cost["currency"]: _spent(cost) for cost in row["costs"]} for row in rows]
    currencies = sorted({currency for costs in spent for currency in costs})
    return {currency: [float(costs.get(currency, 0)) for costs in spent] for currency in currencies}


def _name(row: dict[str, Any], by: str) -> str:
    column = statistics.DIMENSIONS[by]
    name = row.get(column.replace("_id", "_name")) or row[column]
    return "(none)" if name is None else str(name)


def _cells(row: dict[str, Any]) -> list[tuple[str, str]]:
    """The columns of the table and their values, to be read: of money a line for each currency."""
    counts = ("requests", "errors", "denied", "cache_hits", "input_tokens", "output_tokens", "saved_tokens")
    titles = CHARTS | {"denied": "Denied", "cache_hits": "Cached"}
    return [
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
