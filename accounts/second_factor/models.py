"""What users have besides their password: an authenticator app, passkeys, and recovery codes for their loss."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from accounts.sso.models import check_clear
from providers.credentials import decrypt, encrypt

MAX_PASSKEY_NAME_LENGTH = 100
MAX_RP_ID_LENGTH = 253  # of a host name
MAX_CREDENTIAL_ID_LENGTH = 1364  # 1,023 bytes, the most of WebAuthn, in base64url


def secret_origin(user_id: int) -> str:
    """What a secret is sealed for: it opens as this user's alone."""
    return f"authenticator app of user {user_id}"


class AuthenticatorApp(models.Model):
    """An app that shows a new code every 30 seconds (TOTP, RFC 6238); a user has one at most."""

    user = models.OneToOneField(
        "accounts.User", on_delete=models.CASCADE, primary_key=True, related_name="authenticator_app"
    )
    credential = models.TextField(editable=False)  # the secret, sealed
    # The last time step whose code was used: a code counts once, and none counts after a later one.
    last_step = models.BigIntegerField(editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return self.origin

    @property
    def origin(self) -> str:
        """What the secret is sealed for."""
        return secret_origin(self.user_id)

    def opened_secret(self) -> str:
        """The secret in the clear. Raises CredentialUnreadable."""
        return open_secret(self.credential, self.user_id)


def seal_secret(secret: str, user_id: int) -> str:
    """A secret, encrypted for one user as credentials of providers are for their hosts."""
    return encrypt(secret, origin=secret_origin(user_id), keys=settings.GATEWAY_ENCRYPTION_KEYS)


def open_secret(text: str, user_id: int) -> str:
    """The secret that seal_secret() was given with. Raises CredentialUnreadable."""
    return decrypt(text, origin=secret_origin(user_id), keys=settings.GATEWAY_ENCRYPTION_KEYS)


class RecoveryCodeQuerySet(models.QuerySet["RecoveryCode"]):
    def unused(self) -> "RecoveryCodeQuerySet":
        """The codes that are still good for one login."""
        return self.filter(used_at=None)


class RecoveryCode(models.Model):
    """A code that stands in for the second factor once; only its digest is stored."""

    user = models.ForeignKey("accounts.User", on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64, editable=False)
    used_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = RecoveryCodeQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="one_recovery_code_of_a_digest")]

    def __str__(self) -> str:
        return f"recovery code of user {self.user_id}"


class Passkey(models.Model):
    """A credential of WebAuthn: a key pair in a device, bound to the host name that it was made for."""

    user = models.ForeignKey("accounts.User", on_delete=models.CASCADE, related_name="passkeys")
    name = models.CharField(max_length=MAX_PASSKEY_NAME_LENGTH, validators=[check_clear])
    rp_id = models.CharField(max_length=MAX_RP_ID_LENGTH, editable=False)
    credential_id = models.CharField(max_length=MAX_CREDENTIAL_ID_LENGTH, editable=False)  # base64url
    credential_data = models.TextField(editable=False)  # id and public key as WebAuthn attests them, in base64url
    # How often its device has signed; 0 as long as the device does not count.
    sign_count = models.BigIntegerField(editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["credential_id"], name="one_passkey_of_a_credential"),
            models.UniqueConstraint(fields=["user", "name"], name="one_passkey_of_a_name"),
        ]

    def __str__(self) -> str:
        return self.name
