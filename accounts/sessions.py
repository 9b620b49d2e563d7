"""Every change to sessions: they begin with a password, live by rotating tokens, and end at once."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.sessions.models import Session as ConsoleSession
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import Session, User
from accounts.throttle import guess
from accounts.tokens import issue_access, issue_refresh, read_refresh
from gateway_project.errors import AuthenticationFailed, ValidationError
from gateway_project.proxies import read_address

# What happened, of which user (None: unknown), and how grave it is: for the log.
Tell = Callable[..., None]

WRONG = "The user name or the password is wrong."
# Longer than clocks differ, and than expired tokens are tolerated.
SPENT_FOR = timedelta(hours=1)
CLEARED_AT_ONCE = 500
# One hash takes 64 MB and a core for a tenth of a second: whoever comes beyond these waits.
_hashing = threading.BoundedSemaphore(4)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The two tokens of a session; the only copies."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)


def _nobody_listens(message: str, *, user: User | None = None, severity: str = "info") -> None:
    """Stands in where nobody keeps a log."""


def log_in(
    *, username: str, password: str, device: str = "", address: str = "", tell: Tell = _nobody_listens
) -> tuple[User, UUID, Tokens]:
    """The user, and a new session with its tokens.

    Raises AuthenticationFailed, the same for every reason, and RateLimited.
    """
    user = verify(username=username, password=password, address=address, tell=tell)
    session_id, tokens = _open(user, device=device, address=address)
    tell(f"{user.username} logged in.", user=user)
    return user, session_id, tokens


def verify(*, username: str, password: str, address: str, tell: Tell = _nobody_listens) -> User:
    """The usable user of this name and password; raises AuthenticationFailed and RateLimited.

    Failures are told as long as guesses are let through, and then once that they are not.
    """
    nobodys = _nobodys_password()

    def tell_of_refusal() -> None:
        message = "Too many wrong passwords came from this address: more are refused for a while."
        tell(message, user=User.objects.called(username).first(), severity="warning")

    with _hashing, guess(username, address, on_first_refusal=tell_of_refusal):
        user = User.objects.called(username).first()
        # An unknown name, an inactive user and a wrong password cost the same hash.
        correct = check_password(password, user.password if user else nobodys)
        if user is None or not correct or not user.is_usable:
            tell(_why_not(user), user=user, severity="warning")
            raise AuthenticationFailed(WRONG)
    return user


def check_own_password(user: User, password: str | None, *, address: str, tell: Tell) -> None:
    """Before one's own is changed: whoever sits down at an open session must not be able to take the account over.

    Raises ValidationError, and RateLimited: a wrong one counts as a failed login.
    """
    if not password:
        raise ValidationError("currentPassword: is needed to change one's own password.")
    try:
        verify(username=user.username, password=password, address=address, tell=tell)
    except AuthenticationFailed:
        raise ValidationError("currentPassword: is wrong.") from None


def _why_not(user: User | None) -> str:
    if user is None:  # the name stays out of the log: people type their passwords there
        return "Somebody tried to log in under a name that nobody has."
    if not user.is_usable:
        return f"Somebody tried to log in as {user.username}, who is inactive or deleted."
    return f"A wrong password was given for {user.username}."


@transaction.atomic
def _open(user: User, *, device: str, address: str) -> tuple[UUID, Tokens]:
    # The password may have been changed, and all sessions ended, while it was being checked.
    unchanged = User.objects.usable().filter(pk=user.pk, password=user.password)
    now = timezone.now()
    if not unchanged.update(last_login=now):
        raise AuthenticationFailed(WRONG)
    session_id = uuid4()
    tokens, digest = _issue(user.pk, session_id)
    Session.objects.create(
        id=session_id,
        user=user,
        created_at=now,
        last_used_at=now,
        expires_at=_expiry(now),
        refresh_digest=digest,
        device=device[:256],
        address=read_address(address.partition("%")[0]) or None,  # a socket of the machine's own has none
    )
    return session_id, tokens


def refresh(token: str, *, tell: Tell = _nobody_listens) -> Tokens:
    """New tokens for a refresh token, which is used up by it; raises AuthenticationFailed.

    A token that was used before ends its session: one of the two who hold it has stolen it. Not in a
    transaction: the end must stay when the error is raised.
    """
    known = read_refresh(token)
    user = User.objects.usable().filter(pk=known.user_id).first() if known else None
    if user is None:
        raise AuthenticationFailed
    now, session_id = timezone.now(), UUID(known.session)
    tokens, digest = _issue(known.user_id, session_id)
    session = Session.objects.filter(pk=session_id, user_id=known.user_id)
    # One statement on the row's own columns: of two at the same moment the second finds another digest.
    changed = session.live(now).filter(refresh_digest=known.digest)
    if not changed.update(refresh_digest=digest, last_used_at=now, expires_at=_expiry(now)):
        if session.live(now).update(ended_at=now):
            tell(f"A session of {user.username} ended: its refresh token was used twice.", user=user, severity="error")
        raise AuthenticationFailed
    return tokens


def end_session(session_id: UUID) -> int:
    """End one session, at once; how many that were: 0 if it had ended before."""
    return Session.objects.live().filter(pk=session_id).update(ended_at=timezone.now())


@transaction.atomic
def end_sessions(*, user: User, except_for: UUID | None = None) -> int:
    """End the live sessions of a user, all or all but one, at once; how many there were."""
    now = timezone.now()
    return Session.objects.of(user).live(now).exclude(pk=except_for).update(ended_at=now)


def clear_away_all() -> None:
    """Delete every session of which no token can come any more, some at a time: others write in between."""
    while clear_away(most=CLEARED_AT_ONCE):
        pass


@transaction.atomic
def clear_away(*, most: int) -> int:
    """Delete sessions of which no token can come any more, at most so many of each kind; how many that were.

    One that ended stays until its refresh token would have expired: as long as that may come it is known for what
    it is. Beside our own sessions there are those of Django's, which the console uses.
    """
    before = timezone.now() - SPENT_FOR
    ours, consoles = Session.objects.spent(before), ConsoleSession.objects.filter(expire_date__lt=before)
    return sum(_delete_some(rows, most) for rows in (ours, consoles))


def _delete_some(rows: QuerySet, most: int) -> int:
    # Several processes may be at it: each takes what no other one holds.
    chosen = list(rows.select_for_update(skip_locked=True).order_by().values_list("pk", flat=True)[:most])
    return rows.model._default_manager.filter(pk__in=chosen).delete()[0] if chosen else 0


def _issue(user_id: int, session_id: UUID) -> tuple[Tokens, str]:
    """Tokens for a session, and the digest by which the refresh token is known again."""
    text, digest = issue_refresh(user_id=user_id, session=session_id.hex)
    return Tokens(issue_access(user_id=user_id, session=session_id.hex), text), digest


def _expiry(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.GATEWAY_REFRESH_TOKEN_SECONDS)


@lru_cache(maxsize=1)
def _nobodys_password() -> str:
    return make_password(uuid4().hex)
