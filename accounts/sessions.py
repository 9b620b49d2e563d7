"""Every change to sessions: they begin with a password, go on with rotating tokens, and end at once."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, partial
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session as ConsoleSession
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.guessing.hashing import has_several_lanes, hashing_queue
from accounts.guessing.password_login import may_log_in_with_password, refusal_of_password
from accounts.guessing.throttle import origin_of, throttle_guess
from accounts.models import Session, SpentToken, User
from accounts.refusals.failed_logins import NOBODY, failed_logins
from accounts.second_factor.verification import has_second_factor, missing_code, require_second_factor
from accounts.tokens import issue_access, issue_refresh, read_refresh
from gateway_project.errors import AuthenticationFailed, ServiceUnavailable, ValidationError
from gateway_project.server.proxies import read_address

# Called with a message, `user` (None: unknown), `severity` and `is_refusal`, to write a log entry.
RecordEvent = Callable[..., None]

# Longer than clocks may differ and than the leeway of expired tokens.
TOKEN_GRACE = timedelta(hours=1)
DELETE_BATCH = 500
_dummy_hash_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Tokens:
    """The two tokens of a session; the only copies."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)


def _discard(message: str, *, user: User | None = None, severity: str = "info", is_refusal: bool = False) -> None:
    """The default of record_event: writes nothing."""


def log_in(
    *,
    username: str,
    password: str,
    otp: str = "",
    device: str = "",
    address: str = "",
    record_event: RecordEvent = _discard,
) -> tuple[User, UUID, Tokens]:
    """Open a session: (user, session id, tokens). `otp` is a code of the second factor, for users who have one.

    Raises AuthenticationFailed, the same for every reason, RateLimited, and SecondFactorRequired or -Missing.
    """

    had_factor = False

    def confirm(user: User) -> None:
        nonlocal had_factor
        _refuse_password_login(user, record_event)
        had_factor = has_second_factor(user)
        require_second_factor(user, otp, record_event)

    user = verify_password(
        username=username, password=password, address=address, record_event=record_event, confirm=confirm
    )
    with transaction.atomic():
        session_id, tokens = _open(user, device=device, address=address)
        # Since then the user may have set up a first factor, which ends the sessions that it finds. Now whoever does so
        # waits for this transaction: the user's row is locked.
        is_overtaken = not had_factor and has_second_factor(user)
        transaction.set_rollback(is_overtaken)
    if is_overtaken:
        raise missing_code(user, record_event)
    record_event(f"{user.username} logged in.", user=user)
    return user, session_id, tokens


def _refuse_password_login(user: User, record_event: RecordEvent) -> None:
    """Raise AuthenticationFailed for a user whose password is right and opens no session."""
    if not may_log_in_with_password(user):
        message = (
            f"{user.username} was refused although the password was right: only admins can log in with a password."
        )
        record_event(message, user=user, severity="warning")
        raise AuthenticationFailed(refusal_of_password())


def start_session(user: User, *, device: str = "", address: str = "") -> tuple[UUID, Tokens]:
    """Open a session for a user whom somebody else has authenticated: (session id, tokens).

    Raises AuthenticationFailed for a user who may not log in.
    """
    return _open(user, device=device, address=address)


def verify_password(
    *,
    username: str,
    password: str,
    address: str,
    record_event: RecordEvent = _discard,
    confirm: Callable[[User], None] = lambda _: None,
    owner: int | None = None,
) -> User:
    """The usable user of this name and password; raises AuthenticationFailed and RateLimited.

    `owner` is the user's id if they are logged in already.

    The first failures of a minute are logged each, the others counted (failed_logins.py); once the throttle refuses
    guesses, only the first refusal is. `confirm` checks what is needed besides the password: a wrong code counts as a
    wrong password does, and failures are forgotten after both.
    """
    with _dummy_hash_lock:  # the first logins must not compute it all at once
        dummy_hash = _dummy_password_hash()
    with throttle_login(username, address, record_event):
        user = User.objects.with_username(username).first()
        # An unknown name, a user without a password, an inactive one and a wrong password take the same time: one hash.
        has_password = user is not None and user.has_usable_password()
        correct = hashing_queue.is_correct(
            password, user.password if user and has_password else dummy_hash, owner=owner
        )
        if user is None or not correct or not user.may_log_in:
            _record_failure(record_event, _failure_message(user), user, address)
            raise AuthenticationFailed(refusal_of_password())
        confirm(user)
    if has_several_lanes(user.password):
        _renew_hash(user, password)
    return user


def throttle_login(username: str, address: str, record_event: RecordEvent) -> AbstractContextManager[None]:
    """Around one check of a password or code: the throttle, whose first refusals are logged. Raises RateLimited."""

    def record_refusal() -> None:
        message = "Too many wrong passwords from this address. Further attempts are refused for a while."
        _record_failure(record_event, message, User.objects.with_username(username).first(), address)

    def record_delay() -> None:
        message = "Many wrong passwords from one address, or for one account. Further attempts are slowed down."
        _record_failure(record_event, message, User.objects.with_username(username).first(), address)

    def is_known(origin: str) -> bool:
        addresses = Session.objects.filter(user__in=User.objects.with_username(username)).addresses()
        return any(origin_of(address) == origin for address in addresses)

    return throttle_guess(
        username, address, on_first_refusal=record_refusal, on_first_delay=record_delay, is_known=is_known
    )


def _record_failure(record_event: RecordEvent, message: str, user: User | None, address: str) -> None:
    event = partial(record_event, message, user=user, severity="warning", is_refusal=True)
    failed_logins.record(event, address=address, account=NOBODY if user is None else user.username)


def _renew_hash(user: User, password: str) -> None:
    """Store the hash of a correct password again, with one lane, unless the queue is full."""
    with suppress(ServiceUnavailable):
        former, user.password = user.password, hashing_queue.hash(password, owner=user.pk)
        User.objects.filter(pk=user.pk, password=former).update(password=user.password)


def check_own_password(user: User, password: str | None, *, address: str, record_event: RecordEvent) -> None:
    """Check the current password before users change their own, so that an open session cannot take the account over.

    Raises ValidationError, and RateLimited: a wrong password counts as a failed login.
    """
    if not password:
        raise ValidationError("is required to change your own password.", field="current_password")
    try:
        verify_password(
            username=user.username, password=password, address=address, record_event=record_event, owner=user.pk
        )
    except AuthenticationFailed:
        raise ValidationError("is wrong.", field="current_password") from None


def _failure_message(user: User | None) -> str:
    if user is None:  # the name is not logged: people type their passwords there by mistake
        return "A login was attempted with an unknown user name."
    if user.is_service:
        return f"Somebody tried to log in as the service account {user.username}, which has no password."
    if not user.is_usable:
        return f"Somebody tried to log in as {user.username}, who is inactive or deleted."
    return f"The password for {user.username} was wrong."


@transaction.atomic
def _open(user: User, *, device: str, address: str) -> tuple[UUID, Tokens]:
    # The password may have been changed, and all sessions ended, since it was checked.
    unchanged = User.objects.able_to_log_in().filter(pk=user.pk, password=user.password)
    now = timezone.now()
    if not unchanged.update(last_login=now):
        raise AuthenticationFailed(refusal_of_password())
    _end_oldest(user, now)
    session_id = uuid4()
    tokens, digest = _issue(user.pk, session_id)
    Session.objects.create(
        id=session_id,
        user=user,
        created_at=now,
        last_used_at=now,
        expires_at=_expiry(now, now),
        refresh_digest=digest,
        device=device[:256],
        address=read_address(address.partition("%")[0]) or None,  # a Unix socket has none
    )
    return session_id, tokens


def _end_oldest(user: User, now: datetime) -> None:
    """Make room for one more session of the user, whose row the transaction has locked."""
    if most := settings.GATEWAY_MAX_SESSIONS_PER_USER:
        live = Session.objects.of(user).live(now).order_by("-created_at", "-id")
        oldest = list(live.values_list("pk", flat=True)[most - 1 :])
        if oldest:
            Session.objects.filter(pk__in=oldest).update(ended_at=now)


def refresh_tokens(token: str, *, record_event: RecordEvent = _discard) -> Tokens:
    """New tokens for a refresh token, which can be used once; raises AuthenticationFailed.

    A token that is used again ends its session, as one of its two holders has stolen it. Not in a
    transaction: the session's end must be committed although the error is raised.
    """
    claims = read_refresh(token)
    user = User.objects.able_to_log_in().filter(pk=claims.user_id).first() if claims else None
    if claims is None or user is None:
        raise AuthenticationFailed
    now, session_id = timezone.now(), UUID(claims.session)
    tokens, digest = _issue(claims.user_id, session_id)
    session = Session.objects.filter(pk=session_id, user_id=claims.user_id)
    # One conditional UPDATE, so that the second of two concurrent uses finds another digest.
    changed = session.live(now).filter(refresh_digest=claims.digest)
    began = changed.values_list("created_at", flat=True).first() or now
    if not changed.update(refresh_digest=digest, last_used_at=now, expires_at=_expiry(now, began)):
        if session.live(now).update(ended_at=now):
            record_event(
                f"A session of {user.username} ended: its refresh token was used twice.", user=user, severity="error"
            )
        raise AuthenticationFailed
    return tokens


def end_session(session_id: UUID) -> int:
    """End one session at once; returns 0 if it had ended before, else 1."""
    return Session.objects.live().filter(pk=session_id).update(ended_at=timezone.now())


@transaction.atomic
def end_sessions(*, user: User, except_for: UUID | None = None) -> int:
    """End the live sessions of a user, all or all but one, at once; returns their number."""
    now = timezone.now()
    sessions = Session.objects.of(user).live(now)
    if except_for is not None:
        sessions = sessions.exclude(pk=except_for)
    return sessions.update(ended_at=now)


def delete_all_expired() -> None:
    """Delete every session whose tokens have all expired, in batches, so that others can write in between."""
    while delete_expired(most=DELETE_BATCH):
        pass


@transaction.atomic
def delete_expired(*, most: int) -> int:
    """Delete sessions whose tokens have all expired, at most `most` of each kind; returns their number.

    A session that was ended stays until its refresh token expires, so that a later use of it is recognised. The kinds
    are our own sessions, Django's, which the console uses, and the tokens of single sign-on that were used.
    """
    before = timezone.now() - TOKEN_GRACE
    ours, consoles = Session.objects.expired(before), ConsoleSession.objects.filter(expire_date__lt=before)
    return sum(_delete_batch(rows, most) for rows in (ours, consoles, SpentToken.objects.expired(before)))


def _delete_batch(rows: QuerySet, most: int) -> int:
    # Several processes may delete at once: each takes rows that no other one has locked.
    ids = list(rows.select_for_update(skip_locked=True).order_by().values_list("pk", flat=True)[:most])
    return rows.model._default_manager.filter(pk__in=ids).delete()[0] if ids else 0


def _issue(user_id: int, session_id: UUID) -> tuple[Tokens, str]:
    """Tokens for a session, and the digest of the refresh token to store."""
    text, digest = issue_refresh(user_id=user_id, session=session_id.hex)
    return Tokens(issue_access(user_id=user_id, session=session_id.hex), text), digest


def _expiry(now: datetime, began: datetime) -> datetime:
    """When a session ends that began then, unless it is refreshed: however often it is, it has an absolute end."""
    end = began + timedelta(days=settings.GATEWAY_SESSION_DAYS)
    return min(now + timedelta(seconds=settings.GATEWAY_REFRESH_TOKEN_SECONDS), end)


@lru_cache(maxsize=1)
def _dummy_password_hash() -> str:
    return make_password(uuid4().hex)
