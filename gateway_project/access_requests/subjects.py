"""What can be asked for: checked when it is asked for, and again when it is granted."""

from collections.abc import Callable
from decimal import Decimal
from typing import TypedDict

from django.conf import settings

from accounts.access_requests.models import MAX_MODEL_LENGTH, AccessRequest, RequestKind
from accounts.managing.groups import MODIFY, VIEW, administered_groups
from accounts.models import Group
from gateway_project.api.access import Caller
from gateway_project.database.names import is_clear
from gateway_project.env import WITHOUT_WINDOW
from gateway_project.errors import Conflict, ValidationError
from licensing.models import Limit, Measure, Window
from licensing.services import validated_amount
from providers.models import Provider
from rules.access_tests.judging import verdicts_of
from rules.access_tests.models import AccessTest

FIELDS = {
    RequestKind.MODEL: ("model", "provider_id"),
    RequestKind.MEMBERSHIP: ("group_id",),
    RequestKind.LIMIT: ("measure", "window", "amount"),
}
OPTIONAL = frozenset({"provider_id", "window"})


class Subject(TypedDict, total=False):
    """What a request is for: its kind, and what this kind needs."""

    kind: str
    model: str
    provider_id: int | None
    group_id: int | None
    measure: str
    window: str
    amount: Decimal | None


def check_subject(request: AccessRequest) -> None:
    """Raise ValidationError, which names the field, or Conflict if this cannot be granted (any more)."""
    kind = RequestKind(request.kind)
    for name in {name for names in FIELDS.values() for name in names} - set(FIELDS[kind]):
        if getattr(request, name) not in (None, ""):
            raise ValidationError(f"must not be sent for a request of the kind {kind}.", field=name)
    for name in FIELDS[kind]:
        if name not in OPTIONAL and getattr(request, name) in (None, ""):
            raise ValidationError("is missing.", field=name)
    CHECKS[kind](request)


def _check_model(request: AccessRequest) -> None:
    if not is_clear(request.model) or len(request.model) > MAX_MODEL_LENGTH:
        problem = f"must have at most {MAX_MODEL_LENGTH} visible characters, and must not begin or end with blanks."
        raise ValidationError(problem, field="model")
    if request.provider_id is not None and not Provider.objects.filter(pk=request.provider_id).exists():
        raise ValidationError(f"no provider with id {request.provider_id}.", field="provider_id")
    test = AccessTest(user_id=request.user_id, model=request.model, provider_id=request.provider_id)
    if verdicts_of([test])[0].holds:
        raise Conflict("a rule already allows the user this model.", field="model")


def find_group(caller: Caller, *, group_id: int | None, group_name: str | None) -> int | None:
    """The id of the group that the caller names; None without one.

    Raises ValidationError: whoever does not know a group asks by its name, or ids would tell the names of all groups.
    """
    if group_name is not None:
        if group_id is not None:
            raise ValidationError("must not be sent together with groupId.", field="group_name")
        group = Group.objects.filter(name=group_name).first()
        if group is None:
            raise ValidationError("there is no group of this name.", field="group_name")
        return group.pk
    if group_id is not None and not _knows_group(caller, group_id):
        raise _unknown_group(group_id)
    return group_id


def _knows_group(caller: Caller, group_id: int) -> bool:
    if caller.has(VIEW) or caller.has(MODIFY) or group_id in administered_groups(caller):
        return True
    return Group.objects.applying_to(caller.user).filter(pk=group_id).exists()


def _unknown_group(group_id: int) -> ValidationError:
    return ValidationError(f"no group with id {group_id}.", field="group_id")


def _check_membership(request: AccessRequest) -> None:
    assert request.group_id is not None, "it was looked for before"
    group = Group.objects.filter(pk=request.group_id).first()
    if group is None:
        raise _unknown_group(request.group_id)
    if group.members.filter(pk=request.user_id).exists():
        raise Conflict("is one of the user's groups already.", field="group_id")


def _check_limit(request: AccessRequest) -> None:
    assert request.amount is not None, "it was looked for before"
    if request.measure not in Measure.values:
        raise ValidationError(f"must be one of {', '.join(Measure.values)}.", field="measure")
    request.window = request.window or (Window.NONE if request.measure in WITHOUT_WINDOW else "")
    if (request.measure in WITHOUT_WINDOW) != (request.window == Window.NONE) or request.window not in Window:
        raise ValidationError("must be minute, day or month; for concurrent requests: none.", field="window")
    if not validated_amount(request.measure, request.amount):
        raise ValidationError("must be above 0.", field="amount")
    _refuse_lower(request)


def _refuse_lower(request: AccessRequest) -> None:
    """Raise Conflict if the limit that applies to the user is that high already."""
    present = _present_amount(request)
    if present is not None and (not present or present >= (request.amount or 0)):
        amount = f"{present.normalize():f}" if present else "unlimited"
        raise Conflict(f"must be above the current limit of {amount}.", field="amount")


def _present_amount(request: AccessRequest) -> Decimal | None:
    """The user's own limit, or else the default of users; 0 is unlimited, None where there is neither."""
    limits = Limit.objects.filter(user_id=request.user_id, measure=request.measure, window=request.window)
    defaults = {**settings.GATEWAY_GUARDS["user"], **settings.GATEWAY_LIMITS["user"]}
    own = limits.values_list("amount", flat=True).first()
    return defaults.get((request.measure, request.window)) if own is None else own


CHECKS: dict[RequestKind, Callable[[AccessRequest], None]] = {
    RequestKind.MODEL: _check_model,
    RequestKind.MEMBERSHIP: _check_membership,
    RequestKind.LIMIT: _check_limit,
}
