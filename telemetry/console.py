"""The statistics page of the console: usage by whatever one likes, as a chart, a table and a file."""

import json
from datetime import UTC, datetime, time
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from gateway_project.errors import GatewayError
from telemetry import services, statistics
from telemetry.statistics import DIMENSIONS, Question

SHOWN, IN_CHART = 100, 30


class UsageForm(forms.Form):
    """What is asked: full days (UTC), and by what they are added up."""

    start = forms.DateField(label="From", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))
    end = forms.DateField(label="To", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))
    by = forms.ChoiceField(
        choices=[(name, name.capitalize()) for name in DIMENSIONS], required=False, widget=UnfoldAdminSelectWidget
    )

    def question(self) -> Question:
        """Raises ValidationError of the API's for a time that ends before it begins."""
        first, last, by = (self.cleaned_data.get(name) for name in ("start", "end", "by"))
        start, end = services.period(
            first and datetime.combine(first, time.min, UTC), last and datetime.combine(last, time.max, UTC)
        )
        by = by or "day"
        return Question(start=start, end=end, by=(by,), sort=by if by in ("day", "hour") else "-requests")


@admin.site.page("statistics/", name="statistics")
def show(request: HttpRequest) -> HttpResponse:
    """Usage of a time by one dimension; with `export` all of it, as CSV."""
    form, problem, told = UsageForm(request.GET), "", {}
    try:
        if form.is_valid():
            question = form.question()
            if "export" in request.GET:
                return _file(services.exported_usage(question))
            told = _told(question)
    except GatewayError as error:
        problem = error.message
    context = admin.site.context(request, "Statistics", form=form, problem=problem, **told)
    return TemplateResponse(request, "console/statistics.html", context)


def _told(question: Question) -> dict[str, Any]:
    page = services.usage(question, 0, SHOWN)
    rows = [_row(row, question.by[0]) for row in page.rows]
    bars = {"label": "Requests", "data": [row["requests"] for row in rows[:IN_CHART]]}
    chart = {
        "labels": [row["name"] for row in rows[:IN_CHART]],
        "datasets": [bars | {"backgroundColor": "var(--color-primary-600)"}],
    }
    return {"by": question.by[0], "question": question, "rows": rows, "total": page.total, "chart": json.dumps(chart)}


def _row(row: dict[str, Any], by: str) -> dict[str, Any]:
    column = statistics.DIMENSIONS[by]
    name = row.get(column.replace("_id", "_name")) or row[column]
    costs = ", ".join(f"{cost['known']} and estimated {cost['estimated']} {cost['currency']}" for cost in row["costs"])
    return row | {"name": "(none)" if name is None else str(name), "cost": costs}


def _file(text: str) -> HttpResponse:
    headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)
