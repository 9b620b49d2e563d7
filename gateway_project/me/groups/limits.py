"""Limits of a group's service accounts, of their keys, and of the groups below it; each is within the group's own."""

from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from accounts.managing.groups import administered_groups
from gateway_project.api import audit
from gateway_project.database.saving import lock_row, races_as_conflicts
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.me.forms import add_errors
from gateway_project.me.groups.forms import AmountForm, GroupLimitForm
from gateway_project.me.groups.pages import PAGE_ROWS, administered_group, ask_to_delete, show_form, show_tab
from gateway_project.me.site import actor, caller, featured_caller, page
from licensing import services
from licensing.fullness import fullness, unpriced_notes
from licensing.group_limits import changeable_limits, check_group_limit, owning_group_id
from licensing.models import Limit
from licensing.status import limit_statuses
from licensing.viewsets import LimitViewSet, without_usage

FIELDS = {"userId": "subject", "keyId": "subject", "groupId": "subject"}  # the form's names by those of the API


@page
def limit_list(request: HttpRequest, group_id: int) -> HttpResponse:
    """The limits of the group, and those of what belongs to it."""
    own = featured_caller(request)
    group = administered_group(own, group_id)
    limits = Limit.objects.shown().select_related("key__owner")
    listed = limits.in_groups([group.pk]) | limits.filter(group__parent=group)
    page = Paginator(listed.order_by("id"), PAGE_ROWS).get_page(request.GET.get("limits"))
    on_page = list(page)
    states = zip(on_page, limit_statuses(on_page), unpriced_notes(on_page), strict=True)
    changeable = changeable_limits(own, on_page)
    rows = [(limit, fullness(limit, status), note, limit.pk in changeable) for limit, status, note in states]
    return show_tab(request, "limits", group, {"limits": page, "rows": rows})


@page
def create(request: HttpRequest, group_id: int) -> HttpResponse:
    """A form for a new limit."""
    group = administered_group(caller(request), group_id)
    form = GroupLimitForm(request.POST or None, group=group)
    if request.method == "POST" and form.is_valid():
        try:
            _create(request, form.values())
            return _to_limits(group.pk)
        except GatewayError as error:
            add_errors(form, error, FIELDS)
    return show_form(request, f"New limit in {group.name}", form, _limits_of(group.pk))


def _create(request: HttpRequest, values: JsonObject) -> None:
    with races_as_conflicts(), transaction.atomic():
        limit = services.set_limit(**values)
        check_group_limit(featured_caller(request), limit)
        audit.record(actor(request), "create", "limits", limit.pk, after=_audit_values(limit))


@page
def change(request: HttpRequest, limit_id: int) -> HttpResponse:
    """A form for another amount."""
    limit, group_id = _limit(request, limit_id)
    form = AmountForm(request.POST or None, initial=AmountForm.initial_of(limit))
    form.name_currency(limit)
    if request.method == "POST" and form.is_valid():
        try:
            _change(request, limit, form)
            return _to_limits(group_id)
        except GatewayError as error:
            add_errors(form, error, FIELDS)
    title = f"{limit.subject_kind.capitalize()} {limit.subject}: {limit}"
    return show_form(request, title, form, _limits_of(group_id))


def _change(request: HttpRequest, limit: Limit, form: AmountForm) -> None:
    with races_as_conflicts(), transaction.atomic():
        lock_row(limit, Limit.objects.all())
        form.check_unchanged(AmountForm.initial_of(limit))
        before = _audit_values(limit)
        services.change_limit(limit, **form.cleaned_data)
        check_group_limit(featured_caller(request), limit)
        audit.record(actor(request), "update", "limits", limit.pk, before=before, after=_audit_values(limit))


@page
def delete(request: HttpRequest, limit_id: int) -> HttpResponse:
    """Ask, then delete the limit."""
    limit, group_id = _limit(request, limit_id)
    if request.method != "POST":
        effect = "From now on the default limits and the limits of the groups above apply instead."
        return ask_to_delete(request, f"the limit of {limit.subject}: {limit}", effect, _limits_of(group_id))
    row_id = limit.pk
    with races_as_conflicts(), transaction.atomic():
        before = _audit_values(limit)
        services.delete_limit(limit)
        audit.record(actor(request), "destroy", "limits", row_id, before=before)
    return _to_limits(group_id)


def _limit(request: HttpRequest, limit_id: int) -> tuple[Limit, int]:
    """A limit that the user may change, and the group whose page shows it; raises Http404."""
    own = featured_caller(request)
    limit = Limit.objects.shown().filter(pk=limit_id).first()
    group_id = None if limit is None else owning_group_id(limit)
    if limit is None or group_id is None or not changeable_limits(own, [limit]):
        raise Http404
    group = administered_group(own, group_id)
    is_of_parent = limit.group_id is not None and group.parent_id in administered_groups(own)
    return limit, group.parent_id if is_of_parent and group.parent_id is not None else group.pk


def _audit_values(limit: Limit) -> JsonObject | None:
    return without_usage(LimitViewSet.serialize_row(limit))


def _limits_of(group_id: int) -> str:
    return reverse("me:group-limits", args=[group_id])


def _to_limits(group_id: int) -> HttpResponse:
    return HttpResponseRedirect(_limits_of(group_id))
