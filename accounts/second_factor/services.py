"""Every change to the second factors of users; each is an entry of the audit. None of them ends `current_session`."""

import time
from dataclasses import asdict, dataclass
from uuid import UUID

from django.db import transaction

from accounts.models import AuthenticatorApp, Passkey, RecoveryCode, User
from accounts.second_factor import codes
from accounts.second_factor.models import open_secret, seal_secret
from accounts.second_factor.verification import WRONG_CODE, has_second_factor
from accounts.services import lock_user
from accounts.sessions import end_sessions
from gateway_project.api import audit
from gateway_project.database.saving import save_or_refuse
from gateway_project.errors import Conflict, ValidationError

MAX_PASSKEYS = 20


@dataclass(frozen=True, slots=True)
class NewCredential:
    """What a device has attested of a new passkey; the names are the columns."""

    rp_id: str
    credential_id: str
    credential_data: str
    sign_count: int


def begin_app(user: User) -> str:
    """A secret for a new app, sealed for the user; nothing is stored."""
    return seal_secret(codes.new_secret(), user.pk)


@transaction.atomic
def set_up_app(
    user: User,
    *,
    sealed_secret: str,
    code: str,
    actor: audit.Actor,
    current_session: UUID | None = None,
    may_replace: bool = True,
) -> list[str]:
    """Store an app whose secret the user has shown to know, in the place of another one; ends other sessions.

    Returns the recovery codes, if this is the user's first factor. Raises ValidationError for a wrong code, and
    Conflict without `may_replace`, for whoever has shown only a password, if there is a factor already.
    """
    lock_user(user)
    if not may_replace and has_second_factor(user):
        raise Conflict("You have a second factor already. Log in again.")
    step = codes.matching_step(open_secret(sealed_secret, user.pk), codes.normalize_code(code), at=time.time())
    if step is None:
        raise ValidationError(WRONG_CODE, field="code")
    recovery_codes = [] if has_second_factor(user) else _renew_codes(user)
    # The code is used up by this: nobody logs in with it again.
    values = {"credential": sealed_secret, "last_step": step}
    _, is_new = AuthenticatorApp.objects.update_or_create(user=user, defaults=values)
    audit.record(actor, "set up authenticator app" if is_new else "replace authenticator app", "users", user.pk)
    end_sessions(user=user, except_for=current_session)
    return recovery_codes


@transaction.atomic
def add_passkey(
    user: User, *, name: str, credential: NewCredential, actor: audit.Actor, current_session: UUID | None
) -> list[str]:
    """Store a passkey; ends other sessions. Returns the recovery codes, if this is the user's first factor.

    Raises Conflict if the name or the credential exists or there are too many, and ValidationError.
    """
    lock_user(user)
    if user.passkeys.count() >= MAX_PASSKEYS:
        raise Conflict(f"You have {MAX_PASSKEYS} passkeys, the most that a user may have.")
    recovery_codes = [] if has_second_factor(user) else _renew_codes(user)
    passkey = Passkey(user=user, name=name, **asdict(credential))
    save_or_refuse(passkey, conflict="You already have a passkey with this name, or on this device.")
    audit.record(actor, "add passkey", "users", user.pk, after=_audit_values(passkey))
    end_sessions(user=user, except_for=current_session)
    return recovery_codes


@transaction.atomic
def remove_own_app(user: User, *, actor: audit.Actor, current_session: UUID | None) -> None:
    """Remove the user's app; ends other sessions. Raises Conflict for a factor that a role requires."""
    lock_user(user)
    if not AuthenticatorApp.objects.filter(user=user).delete()[0]:
        return
    _settle(user)
    audit.record(actor, "remove authenticator app", "users", user.pk)
    end_sessions(user=user, except_for=current_session)


@transaction.atomic
def remove_own_passkey(user: User, passkey_id: int, *, actor: audit.Actor, current_session: UUID | None) -> None:
    """Remove one of the user's passkeys; ends other sessions. Raises Conflict for a factor that a role requires."""
    lock_user(user)
    passkey = user.passkeys.filter(pk=passkey_id).first()
    if passkey is None:
        return
    before = _audit_values(passkey)
    passkey.delete()
    _settle(user)
    audit.record(actor, "remove passkey", "users", user.pk, before=before)
    end_sessions(user=user, except_for=current_session)


@transaction.atomic
def renew_recovery_codes(user: User, *, actor: audit.Actor) -> list[str]:
    """New recovery codes in the place of all others; raises Conflict for a user without a second factor."""
    lock_user(user)
    if not has_second_factor(user):
        raise Conflict("Set up an authenticator app or a passkey first.")
    audit.record(actor, "renew recovery codes", "users", user.pk)
    return _renew_codes(user)


@transaction.atomic
def remove_second_factor(user: User, *, actor: audit.Actor) -> bool:
    """Remove all factors and recovery codes of a user who has lost them, and end all sessions; whether there were any.

    The next login with the password needs no second factor; if a role requires one, it begins with setting one up.
    Raises Conflict for one's own, which asks for the password (remove_app, remove_passkey).
    """
    if actor.user_id == user.pk:
        raise Conflict("Remove your own second factor on the page Your second factor, with your password.")
    lock_user(user)
    has_app = AuthenticatorApp.objects.filter(user=user).exists()
    before = {"authenticatorApp": has_app, "passkeys": [key.name for key in user.passkeys.all()]}
    numbers = [rows.filter(user=user).delete()[0] for rows in (AuthenticatorApp.objects, Passkey.objects)]
    RecoveryCode.objects.filter(user=user).delete()
    if not any(numbers):
        return False
    audit.record(actor, "remove second factor", "users", user.pk, before=before, severity="warning")
    end_sessions(user=user)
    return True


def _settle(user: User) -> None:
    """After a removal: without a factor there are no recovery codes; raises Conflict if a role requires a factor."""
    if has_second_factor(user):
        return
    if user.must_have_second_factor:
        raise Conflict("One of your roles requires a second factor. Set up another one before you remove this one.")
    RecoveryCode.objects.filter(user=user).delete()


def _renew_codes(user: User) -> list[str]:
    recovery_codes = codes.new_recovery_codes()
    RecoveryCode.objects.filter(user=user).delete()
    rows = (RecoveryCode(user=user, digest=codes.digest_of(code, user.pk)) for code in recovery_codes)
    RecoveryCode.objects.bulk_create(rows)
    return recovery_codes


def _audit_values(passkey: Passkey) -> dict[str, str]:
    return {"name": passkey.name, "host": passkey.rp_id}
