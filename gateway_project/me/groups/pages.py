"""The user's groups, and for whoever administers one its service accounts and rules."""

from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse

from accounts.managing.groups import administered_groups
from accounts.models import Group, User
from gateway_project.api.access import Caller
from gateway_project.me.site import caller, page, show
from rules.models import Rule

MAX_GROUPS = 200
PAGE_ROWS = 25


@page
def group_list(request: HttpRequest) -> HttpResponse:
    """The groups that the user is in or administers."""
    own = caller(request)
    administered = administered_groups(own)
    groups = Group.objects.filter(Q(members=own.user) | Q(pk__in=administered)).distinct().order_by("name")
    rows = [(group, group.pk in administered) for group in groups[:MAX_GROUPS]]
    return show(request, "groups", "Groups", {"rows": rows})


@page
def group_page(request: HttpRequest, group_id: int) -> HttpResponse:
    """Service accounts and rules of one group that the user administers."""
    group = administered_group(caller(request), group_id)
    accounts = Paginator(_accounts(group), PAGE_ROWS).get_page(request.GET.get("accounts"))
    rules = Paginator(Rule.objects.shown().filter(group=group).order_by("id"), PAGE_ROWS)
    context = {"group": group, "accounts": accounts, "rules": rules.get_page(request.GET.get("rules"))}
    return show(request, "group", f"Group {group.name}", context | {"current": "me:groups"})


def administered_group(own: Caller, group_id: int) -> Group:
    """The group, if the user administers it; raises Http404."""
    if group_id not in administered_groups(own):
        raise Http404
    return Group.objects.get(pk=group_id)


def _accounts(group: Group) -> QuerySet[User]:
    accounts = User.objects.live().service_accounts().filter(owning_group=group).order_by("username")
    return accounts.annotate(keys=Count("api_keys", filter=Q(api_keys__is_deleted=False)))
