"""A login between its two steps: the password was right, and the second factor is still to come.

It is in the browser's session, which nobody is logged in with by it. It ends after ten minutes, and with a change of
the password.
"""

import time
from dataclasses import dataclass

from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme

from accounts.guessing.password_login import may_log_in_with_password
from accounts.models import User

PENDING, SECRET, CHALLENGE = "pending_login", "new_app_secret", "passkey_challenge"  # keys in the session
LIFETIME_SECONDS = 600


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """Whose password was right, and the path to go to after the login; '' for the first page."""

    user: User
    next_path: str


def begin_login(request: HttpRequest, user: User, *, site: str) -> None:
    """Remember that the password of this user was right at a site's login, in a session with a new cookie."""
    end_login(request)
    # Whoever has planted the former cookie in this browser must not take the second step.
    request.session.cycle_key()
    request.session[PENDING] = {
        "user": user.pk,
        "password": user.get_session_auth_hash(),
        "site": site,
        "until": time.time() + LIFETIME_SECONDS,
        "next": _next_path(request),
    }


def _next_path(request: HttpRequest) -> str:
    path = request.POST.get("next", request.GET.get("next", ""))
    is_own = url_has_allowed_host_and_scheme(
        path, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return path if is_own else ""


def read_login(request: HttpRequest, *, site: str) -> PendingLogin | None:
    """The login that waits for its second factor in this browser at this site; None without one."""
    state = request.session.get(PENDING)
    if not state or state["site"] != site or state["until"] < time.time():
        return None
    user = User.objects.able_to_log_in().prefetch_related("roles").filter(pk=state["user"]).first()
    if user is None or not may_log_in_with_password(user):
        return None
    if not constant_time_compare(user.get_session_auth_hash(), state["password"]):
        return None
    return PendingLogin(user, state["next"])


def end_login(request: HttpRequest) -> None:
    """Forget the login, and what was begun for it."""
    for key in (PENDING, SECRET, CHALLENGE):
        request.session.pop(key, None)
