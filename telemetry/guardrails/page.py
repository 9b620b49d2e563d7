"""The page of the console with the results of guardrails, day by day."""

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from gateway_project.console.site import console_site
from gateway_project.database.ids import id_in
from telemetry import services
from telemetry.guardrails.statistics import GuardrailQuery, guardrail_counts


@console_site().page("guardrail-usage/", name="guardrail-usage")
def show(request: HttpRequest) -> HttpResponse:
    """The counts of the last 30 days: of one guardrail by day, or of all of them."""
    guardrail_id = guardrail_number(request)
    period = services.period(None, None)
    by = ("guardrail", "direction") if guardrail_id is None else ("day", "guardrail", "direction")
    rows = guardrail_counts(GuardrailQuery(*period, by, guardrail_id))
    title = "Usage of guardrails" if guardrail_id is None or not rows else f"Usage of {rows[-1]['guardrail_name']}"
    context = console_site().context(request, title, rows=rows, has_days=guardrail_id is not None)
    return TemplateResponse(request, "console/guardrail_usage.html", context)


def guardrail_number(request: HttpRequest) -> int | None:
    """The id of the guardrail that the address names; None if it names none."""
    return id_in(request.GET.get("guardrail", "")) or None


def name_of_guardrail(guardrail_id: int) -> str:
    """Its name in the counts of the last 30 days, also if it is deleted; otherwise its id."""
    rows = guardrail_counts(GuardrailQuery(*services.period(None, None), ("guardrail",), guardrail_id))
    return str(rows[0]["guardrail_name"]) if rows else f"guardrail {guardrail_id}"
