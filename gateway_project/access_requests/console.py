"""The console's pages of access requests: those that wait for a decision, and the table of all."""

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST
from unfold.decorators import display

from accounts.access_requests.models import AccessRequest, RequestKind, RequestState
from gateway_project.access_requests.forms import DecisionForm, apply_decision, decision_context
from gateway_project.access_requests.permissions import decidable_requests
from gateway_project.console.audit import actor, caller
from gateway_project.console.display.times import utc_time
from gateway_project.console.filters import text_filter
from gateway_project.console.links import link, link_column, link_to
from gateway_project.console.site import console_site
from gateway_project.console.tables import ReadOnlyAdmin
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import AccessTestFailed, GatewayError
from providers.console.model_links import model_page

LABELS = {
    RequestState.OPEN.label: "info",
    RequestState.GRANTED.label: "success",
    RequestState.REFUSED.label: "warning",
}


@console_site().page("access-requests/", name="access-requests")
def open_requests(request: HttpRequest) -> HttpResponse:
    """The requests of others that are open or in force, each with its decision."""
    lists = decision_context(decidable_requests(caller(request)), request.GET)
    context = console_site().context(request, "Access requests", decide_url="admin:access-requests-decide", **lists)
    return TemplateResponse(request, "access_requests/console.html", context)


@console_site().page("access-requests/<int:request_id>/decide/", name="access-requests-decide", part=True)
@require_POST
def decide_request(request: HttpRequest, request_id: int) -> HttpResponse:
    """Grant, refuse or end."""
    row = _row(request, request_id)
    if row is None:
        raise Http404
    try:
        with races_as_conflicts(), transaction.atomic():
            messages.success(request, apply_decision(row, DecisionForm(request.POST), actor(request)))
    except AccessTestFailed:
        raise  # the site asks for a reason
    except GatewayError as error:
        messages.error(request, error.sentence)
    return HttpResponseRedirect(reverse("admin:access-requests"))


def subject_links(row: AccessRequest) -> str:
    """What is asked for, with links to the model and provider, or to the group."""
    if row.kind == RequestKind.MEMBERSHIP and row.group is not None:
        return format_html("membership of {}", link_to(row.group))
    if row.kind != RequestKind.MODEL or (row.provider_id is not None and row.provider is None):
        return row.subject
    model = link(row.model, model_page(row.model, row.provider_id))
    return format_html("model {} of {}" if row.provider else "model {}", model, link_to(row.provider))


def _row(request: HttpRequest, request_id: int) -> AccessRequest | None:
    return decidable_requests(caller(request)).shown().filter(pk=request_id).first()


@admin.register(AccessRequest)
class AccessRequestAdmin(ReadOnlyAdmin):
    """All requests, with what became of them."""

    empty_message = "There are no access requests. Users create them at /me/access/."
    list_display = [
        "moment",
        "subject",
        link_column("user"),
        "label",
        "reason",
        link_column("decided_by"),
        "ends_at",
        "note",
    ]
    list_display_links = ["moment"]
    list_filter = [
        "state",
        "kind",
        text_filter("user", "user", "user__name_key"),
        text_filter("model", "model", "model"),
    ]
    search_fields = ["user__name_key", "model", "group__name", "reason", "note"]
    ordering = ["-id"]
    fields = [
        *("subject", "user", "label", "reason", "created_at"),
        *("decided_by", "decided_at", "note", "ends_at", "ended_at"),
    ]
    list_per_page = 30

    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessRequest]:
        return super().get_queryset(request).shown()

    @display(description="Created (UTC)", ordering="id")
    def moment(self, row: AccessRequest) -> str:
        return utc_time(row.created_at)

    @display(description="For")
    def subject(self, row: AccessRequest) -> str:
        return subject_links(row)

    @display(description="State", ordering="state", label=LABELS)
    def label(self, row: AccessRequest) -> str:
        return RequestState(row.state).label
