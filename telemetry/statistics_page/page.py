"""The view of the statistics page."""

from collections.abc import Iterator
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from gateway_project.api.audit import filters_of
from gateway_project.console.site import console_site
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from keys.secrets import without_secrets
from telemetry import services
from telemetry.statistics_page import figures
from telemetry.statistics_page.form import Link, UsageForm
from telemetry.statistics_page.totals import MISSING, totals
from telemetry.usage.rollups import MICROSECOND
from telemetry.usage.statistics import UsageQuery
from telemetry.viewsets import csv_response

ROWS_A_PAGE = 50  # of the table; charts have all rows
FIELDS = {"from": "start", "to": "end"}  # the form's fields by the parameters of the API


@console_site().page("statistics/", name="statistics")
def show(request: HttpRequest) -> HttpResponse:
    """Usage of a period by one dimension or two; with `export` all rows as CSV.

    A filter that is added becomes part of the address. A key that somebody typed does not stay there.
    """
    parameters = {name: without_secrets(value) for name, value in request.GET.dict().items()}
    if parameters != request.GET.dict():
        return HttpResponseRedirect(f"{request.path}?{urlencode(parameters)}")
    form, context = UsageForm({"by": "day", **parameters}), {}
    if form.is_valid() and form.new_filter:
        return HttpResponseRedirect(request.path + form.address(**form.new_filter, export=request.GET.get("export")))
    try:
        if form.has_query:
            query = form.usage_query()
            if "export" in request.GET and form.is_valid():
                return csv_response(services.usage_csv(query), query, filters_of(request.GET))
            form = UsageForm({**form.data, **_period_fields(query)})
            form.full_clean()
            context = _usage_context(query, form, parameters.get("page"))
    except GatewayError as error:
        for problem in error.problems:
            form.add_error(FIELDS.get(problem.parameter), capfirst(problem.detail))
    sentences = " ".join(map(str, form.non_field_errors()))
    context = console_site().context(request, "Statistics", form=form, problem=sentences, **context)
    return TemplateResponse(request, "console/statistics.html", context)


def _period_fields(query: UsageQuery) -> dict[str, str]:
    """The days of the query for the form's fields, which may have been left empty."""
    return {"start": f"{query.start:%Y-%m-%d}", "end": f"{query.end - MICROSECOND:%Y-%m-%d}"}


def _pages_beside(table: Page, form: UsageForm) -> Iterator[Link]:
    """The pages of the table before and after this one."""
    if table.has_previous():
        yield Link("Previous rows", form.address(page=table.previous_page_number()))
    if table.has_next():
        yield Link("Next rows", form.address(page=table.next_page_number()))


def _usage_context(query: UsageQuery, form: UsageForm, number: str | None) -> JsonObject:
    """What the template shows, of the table the page with this number."""
    page = services.usage(query, 0, figures.max_rows(query))
    services.add_health(page.rows)
    sums = totals(query, form, page)
    times = figures.times_of(page, query)
    rows = figures.with_empty_times(page.rows, times, query)
    table = Paginator(rows if page.rows else [], ROWS_A_PAGE).get_page(number)
    return {
        "dimensions": list(form.dimension_headings()),
        "query": query,
        "charts": figures.charts_of(rows, times, query, form),
        "totals": sums,
        "missing": [total for total in sums if form.measure == "cost" and total.title in MISSING],
        "table": table,
        "rows": [(figures.names(row, form), figures.cells(row, form)) for row in table],
        "pages": list(_pages_beside(table, form)),
        "total": page.total + len(rows) - len(page.rows),
        "periods": list(form.periods()),
        "filters": list(form.chosen_filters()),
    }
