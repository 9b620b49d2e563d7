"""Whether a login has its second factor."""

import time
from collections.abc import Callable

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from accounts.guessing.throttle import code_guess
from accounts.models import User
from accounts.second_factor.codes import digest_of, is_app_code, matching_step, normalize_code
from accounts.second_factor.models import AuthenticatorApp, Passkey, RecoveryCode
from gateway_project.errors import AuthenticationFailed, SecondFactorMissing, SecondFactorRequired
from providers.credentials import CredentialUnreadable

WRONG_CODE = "The code is wrong or was used before."
# Called with a message, `user` and `severity`, to write a log entry.
RecordEvent = Callable[..., None]


def has_second_factor(user: User) -> bool:
    """Whether a login with this user's password needs more than the password."""
    return AuthenticatorApp.objects.filter(user=user).exists() or Passkey.objects.filter(user=user).exists()


def with_second_factor(users: QuerySet[User]) -> QuerySet[User]:
    """Users with `app_exists` and `passkey_exists`."""
    return users.annotate(
        app_exists=Exists(AuthenticatorApp.objects.filter(user=OuterRef("pk"))),
        passkey_exists=Exists(Passkey.objects.filter(user=OuterRef("pk"))),
    )


def require_second_factor(user: User, code: str, record_event: RecordEvent) -> None:
    """Return if the code, which may be '', completes the right password of this user.

    Raises AuthenticationFailed for a wrong code, SecondFactorRequired without one, and SecondFactorMissing for a user
    who has to set up a second factor first.
    """
    if not has_second_factor(user):
        if user.must_have_second_factor:
            raise _record_missing_factor(SecondFactorMissing(), user, record_event)
    elif not code:
        raise missing_code(user, record_event)
    else:
        check_code(user, code, record_event)


def missing_code(user: User, record_event: RecordEvent) -> SecondFactorRequired | SecondFactorMissing:
    """The error for a login with the right password and without the code that it needs."""
    return _record_missing_factor(SecondFactorRequired(), user, record_event)


def _record_missing_factor(
    error: SecondFactorRequired | SecondFactorMissing, user: User, record_event: RecordEvent
) -> SecondFactorRequired | SecondFactorMissing:
    """The error, about this user; somebody knows the password, which the log has to say even if nothing follows."""
    record_event(f"{user.username} entered the right password; the second factor is still missing.", user=user)
    error.user = user
    return error


def check_code(user: User, code: str, record_event: RecordEvent) -> None:
    """Use up a code of the user's app, or a recovery code; raises AuthenticationFailed and RateLimited."""
    text = normalize_code(code)
    if not is_app_code(text):
        _refuse_unless(_use_recovery_code(user, text, record_event), user, record_event)
        return
    with code_guess(user.username):
        _refuse_unless(_use_app_code(user, text), user, record_event)


def _refuse_unless(is_right: bool, user: User, record_event: RecordEvent) -> None:
    if not is_right:
        record_event(f"{user.username} entered a wrong second factor.", user=user, severity="warning")
        raise AuthenticationFailed(WRONG_CODE)


def _use_app_code(user: User, code: str) -> bool:
    app = AuthenticatorApp.objects.filter(user=user).first()
    if app is None:
        return False
    try:
        step = matching_step(app.opened_secret(), code, at=time.time())
    except CredentialUnreadable:  # the encryption key is gone: a recovery code helps
        return False
    if step is None:
        return False
    # One conditional UPDATE, so that only one of two concurrent uses of a code succeeds.
    unused = AuthenticatorApp.objects.filter(user=user, credential=app.credential, last_step__lt=step)
    return unused.update(last_step=step) == 1


def _use_recovery_code(user: User, code: str, record_event: RecordEvent) -> bool:
    codes = RecoveryCode.objects.filter(user=user).unused()
    if not codes.filter(digest=digest_of(code, user.pk)).update(used_at=timezone.now()):
        return False
    number = codes.count()
    remainder = f"{number} {'is' if number == 1 else 'are'} left"
    record_event(f"{user.username} used a recovery code; {remainder}.", user=user, severity="warning")
    return True
