"""The page of the search. The text is sent in the body, not in the address: people paste leaked keys into it."""

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from gateway_project.console.search.finding import find_rows
from gateway_project.console.site import console_site
from keys.secrets import without_secrets
from telemetry.paging import PAGE_MS, QueryTimeout, statement_timeout

LONGEST_TEXT = 200
TOO_LONG = "The search takes too long. Type more of the name."

site = console_site()


@site.page("find/", name="find")
def show(request: HttpRequest) -> HttpResponse:
    """The page, with the results of a text that was sent; the part `rows` is the results alone."""
    text, problem, results = request.POST.get("text", "")[:LONGEST_TEXT].strip(), "", []
    try:
        with statement_timeout(PAGE_MS):
            results = list(find_rows(text)) if text else []
    except QueryTimeout:
        problem = TOO_LONG
    part = request.headers.get("Accept-Part") == "rows"
    context = site.context(request, "Search", text=without_secrets(text), results=results, problem=problem)
    return TemplateResponse(request, "console/search_results.html" if part else "console/search.html", context)
