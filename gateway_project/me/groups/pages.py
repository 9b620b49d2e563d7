"""The list of the user's groups, what the pages of a group share, and the list of its service accounts."""

from collections.abc import Mapping

from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse

from accounts.managing.groups import administered_groups
from accounts.models import Group, User
from gateway_project.api.access import Caller
from gateway_project.me.site import caller, page, show_page

MAX_GROUPS = 200
PAGE_ROWS = 25
TABS = (
    ("me:group", "Members"),
    ("me:group-keys", "Keys"),
    ("me:group-limits", "Limits"),
    ("me:group-rules", "Rules"),
    ("me:group-log", "Log"),
    ("me:group-usage", "Usage and cost"),
)


@page
def group_list(request: HttpRequest) -> HttpResponse:
    """The groups that the user is in or administers."""
    own = caller(request)
    administered = administered_groups(own)
    groups = Group.objects.filter(Q(members=own.user) | Q(pk__in=administered)).distinct().order_by("name")
    rows = [(group, group.pk in administered) for group in groups[:MAX_GROUPS]]
    return show_page(request, "groups", "Groups", {"rows": rows})


@page
def account_list(request: HttpRequest, group_id: int) -> HttpResponse:
    """The service accounts of one group, which hold its keys."""
    group = administered_group(caller(request), group_id)
    accounts = Paginator(_accounts(group), PAGE_ROWS).get_page(request.GET.get("accounts"))
    return show_tab(request, "keys", group, {"accounts": accounts})


def show_tab(request: HttpRequest, name: str, group: Group, context: Mapping[str, object]) -> HttpResponse:
    """A page of templates/me/groups/, below the group's tabs."""
    tab = "me:group" if name == "members" else f"me:group-{name}"
    values = {"group": group, "tabs": TABS, "tab": tab, "current": "me:groups"}
    return show_page(request, f"groups/{name}", f"Group {group.name}", values | dict(context))


def show_form(request: HttpRequest, title: str, form: Form, back: str, *, action: str = "Save") -> HttpResponse:
    """The form for something of a group."""
    return show_page(request, "key_form", title, {"form": form, "action": action, "back": back, "current": "me:groups"})


def ask_to_delete(request: HttpRequest, name: str, effect: str, back: str) -> HttpResponse:
    """The question before something of a group is deleted."""
    return show_page(request, "delete", f"Delete {name}", {"effect": effect, "back": back, "current": "me:groups"})


def administered_group(own: Caller, group_id: int) -> Group:
    """The group, if the user administers it; raises Http404."""
    if group_id not in administered_groups(own):
        raise Http404
    return Group.objects.get(pk=group_id)


def _accounts(group: Group) -> QuerySet[User]:
    accounts = User.objects.live().service_accounts().filter(owning_group=group).order_by("username")
    return accounts.annotate(keys=Count("api_keys", filter=Q(api_keys__is_deleted=False)))
