"""Members of a group: add and remove them, and say who of them administers it."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.managing.groups import MODIFY, administered_groups
from accounts.managing.members import add_group_member, remove_group_member
from accounts.models import Group, User
from gateway_project.api import audit
from gateway_project.api.access import Caller
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.me.forms import add_errors
from gateway_project.me.groups.forms import MemberForm
from gateway_project.me.groups.pages import PAGE_ROWS, administered_group, show_tab
from gateway_project.me.site import actor, caller, featured_caller, page


@page
def member_list(request: HttpRequest, group_id: int) -> HttpResponse:
    """The members, and a form that adds one."""
    group = administered_group(caller(request), group_id)
    form = MemberForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            _add(request, group.pk, form.cleaned_data["username"].pk)
            return _to_group(group.pk)
        except GatewayError as error:
            add_errors(form, error, {"id": "username"})
    return show_tab(request, "members", group, {"form": form, **_members(request, group)})


def _members(request: HttpRequest, group: Group) -> JsonObject:
    """A page of the members: each with whether they are an admin, and whether the user may remove them."""
    own = featured_caller(request)
    appoints = may_appoint(own, group)
    members = Paginator(group.members.order_by("username"), PAGE_ROWS).get_page(request.GET.get("members"))
    admin_ids = set(User.objects.administering(group.pk).values_list("pk", flat=True))

    def may_remove(member: User) -> bool:
        is_owned = member.owning_group_id == group.pk and not member.is_deleted
        return not is_owned and (member.pk not in admin_ids or appoints or own.has(MODIFY))

    rows = [(member, member.pk in admin_ids, may_remove(member)) for member in members]
    return {"members": members, "rows": rows, "may_appoint": appoints}


def may_appoint(own: Caller, group: Group) -> bool:
    """Whether the user says who is an admin of this group: admins do, and those of a group above."""
    return own.is_admin or group.parent_id in administered_groups(own)


def _add(request: HttpRequest, group_id: int, user_id: int, *, is_admin: bool | None = None) -> None:
    with _locked_group(request, group_id) as group:
        user = add_group_member(featured_caller(request), group, user_id=user_id, is_admin=is_admin)
        audit.record(actor(request), "create", "members", group.pk, after=_membership(group, user))


@page
@require_POST
def appoint(request: HttpRequest, group_id: int, user_id: int) -> HttpResponse:
    """Make a member an admin of the group, or take this from them."""
    _member(request, group_id, user_id)
    _add(request, group_id, user_id, is_admin=request.POST.get("admin") == "true")
    return _to_group(group_id)


@page
@require_POST
def remove(request: HttpRequest, group_id: int, user_id: int) -> HttpResponse:
    """Remove a member."""
    _member(request, group_id, user_id)
    with _locked_group(request, group_id) as group:
        before = _membership(group, _member(request, group_id, user_id))
        remove_group_member(featured_caller(request), group, user_id=user_id)
        audit.record(actor(request), "destroy", "members", group.pk, before=before)
    return _to_group(group_id)


@contextmanager
def _locked_group(request: HttpRequest, group_id: int) -> Iterator[Group]:
    """The group, locked: who administers it must not change between the check and the change."""
    with races_as_conflicts(), guarded_change(Access.CALLERS):
        group = Group.objects.select_for_update(no_key=True).filter(pk=group_id).first()
        if group is None:
            raise Http404
        yield administered_group(caller(request), group.pk)


def _member(request: HttpRequest, group_id: int, user_id: int) -> User:
    group = administered_group(caller(request), group_id)
    member = group.members.filter(pk=user_id).first()
    if member is None:
        raise Http404
    return member


def _membership(group: Group, user: User) -> JsonObject:
    return {"id": user.pk, "name": user.username, "admin": group.has_admin(user)}


def _to_group(group_id: int) -> HttpResponse:
    return HttpResponseRedirect(reverse("me:group", args=[group_id]))
