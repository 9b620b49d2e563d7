"""Every change to access requests: ask, withdraw, grant, refuse, end. Each writes itself to the log."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Unpack

from django.conf import settings
from django.core.exceptions import ValidationError as TextRefused
from django.db import transaction
from django.utils import timezone

from accounts.access_requests.models import AccessRequest, RequestKind, RequestState
from accounts.models import User, check_text
from gateway_project.access_requests.grants import GRANTS
from gateway_project.access_requests.permissions import require_decider
from gateway_project.access_requests.serializers import AccessRequestSerializer
from gateway_project.access_requests.subjects import Subject, check_subject
from gateway_project.api import audit
from gateway_project.api.access import Caller
from gateway_project.api.documents import with_camel_names
from gateway_project.database.saving import lock_id, lock_row, save_or_refuse
from gateway_project.errors import Conflict, PermissionDenied, ValidationError
from gateway_project.json_types import JsonObject

RESOURCE = "access-requests"
MAX_CLOSED = 200  # requests of one user that are remembered


@transaction.atomic
def ask_for_access(*, user: User, reason: str, actor: audit.Actor, **subject: Unpack[Subject]) -> AccessRequest:
    """Store a request of the user; raises ValidationError, and Conflict if it is open already or there are too many."""
    lock_id(User.objects.all(), user.pk)  # a second request of this user waits for the first one
    request = AccessRequest(user=user, reason=_checked_text(reason, "reason"), **subject)
    if not request.reason.strip():
        raise ValidationError("must not be empty.", field="reason")
    check_subject(request)
    _refuse_excess(request)
    save_or_refuse(request, conflict="This request exists already.")
    _forget_oldest(user)
    audit.record(actor, "create", RESOURCE, request.pk, after=serialize_request(request))
    return request


def _refuse_excess(request: AccessRequest) -> None:
    open_requests = AccessRequest.objects.open().of(request.user)
    fields = ("kind", "model", "provider_id", "group_id", "measure", "window")
    if open_requests.filter(**{name: getattr(request, name) for name in fields}).exists():
        raise Conflict("You have an open request for this. Withdraw it before you ask again.")
    most = settings.GATEWAY_MAX_ACCESS_REQUESTS
    if most and open_requests.count() >= most:
        raise Conflict(f"You have {most:,} open requests, the maximum. Withdraw some first.")


def _forget_oldest(user: User) -> None:
    """Delete the user's oldest closed requests beyond MAX_CLOSED; the audit keeps them."""
    closed = AccessRequest.objects.closed().of(user).order_by("-id").values_list("pk", flat=True)
    if excess := list(closed[MAX_CLOSED : MAX_CLOSED + 100]):
        AccessRequest.objects.filter(pk__in=excess).delete()


@transaction.atomic
def withdraw_request(request: AccessRequest, *, actor: audit.Actor) -> None:
    """Take one's own request back. Raises Conflict if it is not open, NotFound and PermissionDenied."""
    _lock(request, RequestState.OPEN)
    if not _caller(actor).owns(request.user_id):
        raise PermissionDenied("Only the user who made a request can withdraw it.")
    with _store_and_audit(actor, "withdraw", request):
        request.state = RequestState.WITHDRAWN
        request.ended_at = timezone.now()


def grant_request(request: AccessRequest, *, actor: audit.Actor, until: datetime | None = None, note: str = "") -> None:
    """Give what is asked for, until a time (None: for good), as the deciding person could do it themselves.

    Raises Conflict if the request is not open or cannot be granted any more, AccessTestFailed, NotFound,
    PermissionDenied and ValidationError.
    """
    if until is not None and until <= timezone.now():
        raise ValidationError("must be in the future.", field="until")
    kind = GRANTS[RequestKind(request.kind)]
    with kind.change():
        _lock(request, RequestState.OPEN)
        require_decider(_caller(actor), request)
        _refuse_unusable(request)
        check_subject(request)
        with _store_and_audit(actor, "grant", request):
            kind.make(request, actor)
            _decide(request, RequestState.GRANTED, actor, note)
            request.ends_at = until


def _refuse_unusable(request: AccessRequest) -> None:
    if not request.user.is_usable:
        raise Conflict("The user is deleted or inactive.")


@transaction.atomic
def refuse_request(request: AccessRequest, *, actor: audit.Actor, note: str = "") -> None:
    """Decline an open request. Raises as grant_request() does."""
    _lock(request, RequestState.OPEN)
    require_decider(_caller(actor), request)
    with _store_and_audit(actor, "refuse", request):
        _decide(request, RequestState.REFUSED, actor, note)
        request.ended_at = request.decided_at


def end_request(request: AccessRequest, *, actor: audit.Actor, note: str = "") -> None:
    """Take back what was granted, before its time. Raises as grant_request() does."""
    kind = GRANTS[RequestKind(request.kind)]
    with kind.change():
        _lock(request, RequestState.GRANTED)
        require_decider(_caller(actor), request)
        if note:
            request.note = _checked_text(note, "note")
        _end(request, actor)


def end_due_request(request_id: int, *, actor: audit.Actor) -> bool:
    """Take back what was granted if its time has come; False if it is not granted, or not due."""
    kind = AccessRequest.objects.filter(pk=request_id).values_list("kind", flat=True).first()
    if kind is None:
        return False
    with GRANTS[RequestKind(kind)].change():
        due = AccessRequest.objects.due(timezone.now()).select_for_update(of=("self",))
        request = due.select_related("user").filter(pk=request_id).first()
        if request is not None:
            _end(request, actor)
    return request is not None


def _end(request: AccessRequest, actor: audit.Actor) -> None:
    with _store_and_audit(actor, "end", request):
        GRANTS[RequestKind(request.kind)].revoke(request, actor)
        request.state = RequestState.ENDED
        request.ended_at = timezone.now()


def _decide(request: AccessRequest, state: RequestState, actor: audit.Actor, note: str) -> None:
    request.state = state
    request.note = _checked_text(note, "note")
    request.decided_by = _caller(actor).user
    request.decided_at = timezone.now()


def _lock(request: AccessRequest, state: RequestState) -> None:
    """Lock the row to the end of the transaction; raises NotFound, and Conflict unless it is in this state."""
    lock_row(request, AccessRequest.objects.all())
    if request.state != state:
        raise Conflict(f"The request is {request.state}. This action needs a request that is {state.value}.")


@contextmanager
def _store_and_audit(actor: audit.Actor, operation: str, request: AccessRequest) -> Iterator[None]:
    """Around a change of a locked request: stores it, and writes it to the log as it was before and after."""
    before = serialize_request(request)
    yield
    save_or_refuse(request, conflict="This request was changed at the same time. Open it again.")
    after = serialize_request(request)
    message = "" if actor.caller is not None else f"The grant of access request {request.pk} has ended."
    audit.record(actor, operation, RESOURCE, request.pk, before=before, after=after, message=message)


def serialize_request(request: AccessRequest) -> JsonObject:
    """The stored request as lists show it."""
    return with_camel_names(AccessRequestSerializer(AccessRequest.objects.shown().get(pk=request.pk)).data)


def _caller(actor: audit.Actor) -> Caller:
    assert actor.caller is not None, "people decide"
    return actor.caller


def _checked_text(text: str, field: str) -> str:
    try:
        check_text(text)
    except TextRefused as error:
        raise ValidationError(error.messages[0], field=field) from None
    return text
