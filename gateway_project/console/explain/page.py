"""The page Explain: what would happen to a request, and why."""

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from gateway_project.console.audit import actor
from gateway_project.console.explain.form import ExplainForm
from gateway_project.console.explain.prefill import Prefill, prefill_of
from gateway_project.console.explain.tables import template_values
from gateway_project.console.period import period_of
from gateway_project.console.site import console_site
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.work.explain.questions import explain_question
from gateway_project.work.explain.recorded.entries import REQUESTS, describe_entry
from gateway_project.work.runtime import gateway
from telemetry.log_page.links import price_page
from telemetry.models import LogEntry

site = console_site()


@site.page("explain/", name="explain")
def explain(request: HttpRequest) -> HttpResponse:
    """The form, filled in from what the address names; POST shows the explanation below it, and sends nothing.

    A POST without the form's fields, as the page of a log entry sends, is one of the form that is filled in.
    """
    prefill, explanation = Prefill({}), None
    if "door" in request.POST:
        form = ExplainForm(request.POST)
    else:
        prefill = prefill_of(request.GET.dict())
        form = ExplainForm(prefill.values if request.method == "POST" else None, initial=prefill.values)
    if form.is_bound and form.is_valid():
        explanation = _explanation(request, form)
    context = site.context(request, "Explain", form=form, note=prefill.note, explanation=explanation)
    context["period_query"] = urlencode(period_of(request.GET.dict()).moments())
    return TemplateResponse(request, "console/explain.html", context)


@site.page("explain/entry/<int:entry_id>/", name="explain-entry")
def explain_entry(request: HttpRequest, entry_id: int) -> HttpResponse:
    """Why a request in the log was served or refused, by what was recorded."""
    entry = LogEntry.objects.filter(pk=entry_id, entry_type__in=REQUESTS).first()
    if entry is None:
        raise Http404
    document = describe_entry(entry, gateway().snapshot, with_all=True)
    explanation = template_values(
        document, outcome=entry.outcome, price_page=price_page(entry), period=period_of(request.GET.dict())
    )
    title = f"Explanation of the request of {entry.timestamp:%Y-%m-%d %H:%M:%S} UTC"
    context = site.context(request, title, entry=entry, explanation=explanation)
    return TemplateResponse(request, "console/explained_entry.html", context)


def _explanation(request: HttpRequest, form: ExplainForm) -> JsonObject | None:
    """The template context of the explanation; None if it cannot be given, and the form says why."""
    try:
        name = request.user.get_username()
        document = explain_question(form.question(gateway()), gateway(), actor(request), name)
        return template_values(document, period=period_of(request.GET.dict()))
    except GatewayError as error:
        form.add_error(None, capfirst(error.sentence))
        return None
