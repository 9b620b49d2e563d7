"""Who logs in with a password: every person who has one, or only admins (GATEWAY_PASSWORD_LOGIN=off)."""

from django.conf import settings

from accounts.models import User

WRONG_CREDENTIALS = "The user name or the password is wrong."
# The same for a wrong password and for a right one that does not count: an answer must not tell which it was.
WRONG_OR_NO_ADMIN = f"{WRONG_CREDENTIALS} Only admins can log in with a password: use single sign-on."


def is_for_admins_only() -> bool:
    """Whether all others log in with an identity provider."""
    return settings.GATEWAY_PASSWORD_LOGIN == "off"


def may_log_in_with_password(user: User) -> bool:
    """Whether this user's password opens a session, if there is one."""
    return not is_for_admins_only() or user.is_admin


def refusal_of_password() -> str:
    """The message for a user whose password opens no session."""
    return WRONG_OR_NO_ADMIN if is_for_admins_only() else WRONG_CREDENTIALS
