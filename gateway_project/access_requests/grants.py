"""What the grant of each kind of request makes, and how it is taken back; the services of each resource do it."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import chain, count
from typing import NamedTuple

from django.db import transaction

from accounts import services as accounts
from accounts.access_requests.models import AccessRequest, RequestKind
from accounts.managing.groups import check_addition, check_removal
from accounts.models import Group, User
from gateway_project.api import audit
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_id, lock_row
from gateway_project.errors import Conflict
from licensing import services as licensing
from licensing.models import Limit
from licensing.viewsets import LimitViewSet, without_usage
from rules.models import Effect, Rule
from rules.services import create_rule, delete_rule
from rules.viewsets import RuleViewSet


def grant_model(request: AccessRequest, actor: audit.Actor) -> None:
    """Make a rule for the user that allows exactly this model."""
    rule = create_rule(
        name=_free_name(f"Access request {request.pk}"),
        description=f"Access request {request.pk}, granted by {actor.name or 'the gateway'}.",
        regex=re.escape(request.model),
        user_id=request.user_id,
        provider_id=request.provider_id,
    )
    request.grant_id = rule.pk
    audit.record(actor, "create", "rules", rule.pk, after=RuleViewSet.serialize_row(rule))


def _free_name(name: str) -> str:
    """The name, or the first with a number behind it that no rule has."""
    names = chain([name], (f"{name} ({number})" for number in count(2)))
    used_names = set(Rule.objects.filter(name__startswith=name).values_list("name", flat=True))
    return next(name for name in names if name not in used_names)


def revoke_model(request: AccessRequest, actor: audit.Actor) -> None:
    """Delete the rule, unless it was deleted, or made one that says something else."""
    granted = {"user_id": request.user_id, "provider_id": request.provider_id, "regex": re.escape(request.model)}
    rule = Rule.objects.filter(pk=_grant_id(request), effect=Effect.ALLOW, **granted).first()
    if rule is not None:
        before = RuleViewSet.serialize_row(rule)
        delete_rule(rule)
        _record(actor, request, "destroy", "rules", request.grant_id, before=before)


def grant_membership(request: AccessRequest, actor: audit.Actor) -> None:
    """Make the user a member of the group."""
    group = Group.objects.select_for_update(no_key=True).filter(pk=_group_id(request)).first()
    if group is None:
        raise Conflict("The group was deleted.")
    if group.members.filter(pk=request.user_id).exists():
        raise Conflict(f"{request.user.username!r} is a member of the group already.")
    user = accounts.add_member(group, user_id=request.user_id, is_admin=False)
    if actor.caller is not None:
        check_addition(actor.caller, user)
    request.grant_id = _membership_id(request)
    audit.record(actor, "create", "members", group.pk, after=_member(user))


def revoke_membership(request: AccessRequest, actor: audit.Actor) -> None:
    """Remove the user from the group, unless they left it and came back by another way.

    Whoever has become an admin of the group stays when the time is over. Raises PermissionDenied if the actor may not
    remove an admin of the group.
    """
    group = Group.objects.filter(pk=_group_id(request)).first()
    if group is None or _membership_id(request) != request.grant_id:
        return
    is_admin = group.has_admin(request.user)
    if is_admin and actor.caller is None:
        return
    if actor.caller is not None:
        check_removal(actor.caller, group, request.user)
    user = accounts.remove_member(group, user_id=request.user_id)
    _record(actor, request, "destroy", "members", group.pk, before=_member(user) | {"admin": is_admin})


def _membership_id(request: AccessRequest) -> int | None:
    rows = Group.members.through._default_manager.filter(group_id=_group_id(request), user_id=request.user_id)
    return rows.values_list("pk", flat=True).first()


def _member(user: User) -> dict[str, object]:
    return {"id": user.pk, "name": user.username, "admin": False}


def grant_limit(request: AccessRequest, actor: audit.Actor) -> None:
    """Set the user's limit of this measure and window; one that exists gets the new amount."""
    assert request.amount is not None, "the table refuses such a row"
    lock_id(User.objects.all(), request.user_id)  # a second grant for this user waits for the first one
    if AccessRequest.objects.granted().filter(**_kind_of_limit(request)).exists():
        raise Conflict("The grant of an earlier request for this limit is still in force. End that grant first.")
    limit = Limit.objects.filter(**_kind_of_limit(request)).first()
    before = _limit(limit)
    if limit is None:
        limit = licensing.set_limit(
            user=request.user, measure=request.measure, window=request.window, amount=request.amount
        )
    else:
        lock_row(limit, Limit.objects.all())
        request.former_amount = limit.amount
        licensing.change_limit(limit, amount=request.amount)
    request.grant_id = limit.pk
    audit.record(actor, "update" if before else "create", "limits", limit.pk, before=before, after=_limit(limit))


def revoke_limit(request: AccessRequest, actor: audit.Actor) -> None:
    """Give the limit its former amount, or delete it; not if somebody has changed the amount since."""
    assert request.amount is not None, "the table refuses such a row"
    limit = Limit.objects.select_for_update().filter(pk=_grant_id(request), amount=request.amount).first()
    if limit is None:
        return
    before, limit_id = _limit(limit), limit.pk
    if request.former_amount is None:
        licensing.delete_limit(limit)
        _record(actor, request, "destroy", "limits", limit_id, before=before)
    else:
        licensing.change_limit(limit, amount=request.former_amount)
        _record(actor, request, "update", "limits", limit_id, before=before, after=_limit(limit))


def _grant_id(request: AccessRequest) -> int:
    assert request.grant_id is not None, "the table refuses a grant without it"
    return request.grant_id


def _group_id(request: AccessRequest) -> int:
    assert request.group_id is not None, "the table refuses a membership without it"
    return request.group_id


def _kind_of_limit(request: AccessRequest) -> dict[str, object]:
    return {"user_id": request.user_id, "measure": request.measure, "window": request.window}


def _limit(limit: Limit | None) -> object:
    return None if limit is None else without_usage(LimitViewSet.serialize_row(limit))


def _record(
    actor: audit.Actor, request: AccessRequest, operation: str, resource: str, row_id: int | None, **values: object
) -> None:
    """Write a change to the log; one by nobody says what it belongs to."""
    message = "" if actor.caller is not None else f"{resource} {row_id}: access request {request.pk} has ended."
    before, after = values.get("before"), values.get("after")
    audit.record(actor, operation, resource, row_id, before=before, after=after, message=message)


class Grant(NamedTuple):
    """How a kind of request is granted and ended, and the transaction around it."""

    make: Callable[[AccessRequest, audit.Actor], None]
    revoke: Callable[[AccessRequest, audit.Actor], None]
    change: Callable[[], AbstractContextManager[None]]


GRANTS = {
    RequestKind.MODEL: Grant(grant_model, revoke_model, lambda: guarded_change(Access.RULES)),
    RequestKind.MEMBERSHIP: Grant(grant_membership, revoke_membership, lambda: guarded_change(Access.CALLERS)),
    RequestKind.LIMIT: Grant(grant_limit, revoke_limit, transaction.atomic),
}
