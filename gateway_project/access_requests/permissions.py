"""Who may decide about an access request: users who may make the requested change themselves."""

from collections.abc import Collection

from accounts.access_requests.models import AccessRequest, RequestKind
from accounts.access_requests.querysets import AccessRequestQuerySet
from accounts.managing.groups import MODIFY, administered_groups
from gateway_project.api.access import Caller
from gateway_project.errors import PermissionDenied

MODIFY_RULES = "rules.modify"
DECIDERS = {
    RequestKind.MODEL: f"the permission {MODIFY_RULES}",
    RequestKind.MEMBERSHIP: f"the permission {MODIFY}, or to be an admin of the group",
    RequestKind.LIMIT: "the role admin, using a login",
}


def decidable_kinds(caller: Caller) -> Collection[str]:
    """The kinds of requests that the caller may decide about, whomever and whatever they are for."""
    has = {
        RequestKind.MODEL: caller.has(MODIFY_RULES),
        RequestKind.MEMBERSHIP: caller.has(MODIFY),
        RequestKind.LIMIT: caller.is_admin,
    }
    return [kind.value for kind, may_decide in has.items() if may_decide]


def decidable_requests(caller: Caller) -> AccessRequestQuerySet[AccessRequest]:
    """The requests of others that the caller may decide about, whatever their state."""
    kinds, groups = decidable_kinds(caller), administered_groups(caller)
    requests = AccessRequest.objects.decidable(kinds=kinds, group_ids=groups).exclude(user=caller.user)
    assert isinstance(requests, AccessRequestQuerySet)
    return requests


def visible_requests(caller: Caller) -> AccessRequestQuerySet[AccessRequest]:
    """The caller's own requests, and those that the caller may decide about."""
    requests = AccessRequest.objects.of(caller.user) | decidable_requests(caller)
    assert isinstance(requests, AccessRequestQuerySet)
    return requests


def require_decider(caller: Caller, request: AccessRequest) -> None:
    """Raise PermissionDenied unless the caller may decide about the request, which is not their own."""
    if caller.owns(request.user_id):
        raise PermissionDenied("You cannot decide about your own request.")
    if request.kind in decidable_kinds(caller):
        return
    if request.kind == RequestKind.MEMBERSHIP and request.group_id in administered_groups(caller):
        return
    raise PermissionDenied(f"This needs {DECIDERS[RequestKind(request.kind)]}.")
