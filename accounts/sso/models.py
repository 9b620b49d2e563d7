"""Identity providers, whom their subjects are here, the sessions that they began, and what must not be used twice."""

from datetime import datetime

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from gateway_project.database.names import NameField, require_clear
from gateway_project.server.paths import CONSOLE, USER_PAGES
from providers.credentials import decrypt, encrypt, hint_of, origin_of

MASK = "…"
MAX_NAME_LENGTH, MAX_SLUG_LENGTH, MAX_ISSUER_LENGTH, MAX_SUBJECT_LENGTH = 100, 50, 500, 255
MAX_CLIENT_LENGTH, MAX_SECRET_LENGTH, MAX_SCOPES_LENGTH, MAX_CLAIM_LENGTH = 200, 2000, 500, 200
MAX_RULES_LENGTH = 20_000
DEFAULT_SCOPES = "openid profile email"
slug_form = RegexValidator(
    r"^[a-z0-9](?:[a-z0-9-]{0,48}[a-z0-9])?\Z", "Must have 1 to 50 characters: a-z 0-9 and -, but no - at either end."
)
printable = RegexValidator(r"^[\x21-\x7e]*\Z", "Must have only visible characters of ASCII.")
scopes_form = RegexValidator(r"^[\x21-\x7e]+( [\x21-\x7e]+)*\Z", "Must be names with one space between them.")


def check_clear(value: str) -> None:
    require_clear(value)


def check_no_nul(value: str) -> None:
    """Refuse what PostgreSQL cannot store."""
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ValidationError("A text must not contain NUL or half a character.")


def _claim(default: str) -> models.CharField:
    return models.CharField(max_length=MAX_CLAIM_LENGTH, blank=True, default=default, validators=[printable])


class IdentityProviderQuerySet(models.QuerySet["IdentityProvider"]):
    def enabled(self) -> "IdentityProviderQuerySet":
        """Providers that users can log in with."""
        return self.filter(enabled=True)


class IdentityProvider(models.Model):
    """An OpenID Connect provider at which the gateway is registered as a client."""

    name = NameField(max_length=MAX_NAME_LENGTH, validators=[check_clear])
    slug = models.CharField(max_length=MAX_SLUG_LENGTH, validators=[slug_form])  # in the addresses of the flow
    issuer = models.CharField(max_length=MAX_ISSUER_LENGTH, validators=[printable])
    client_id = models.CharField(max_length=MAX_CLIENT_LENGTH, validators=[printable])
    credential = models.TextField(blank=True, default="", editable=False)  # the client's secret, sealed for the issuer
    credential_hint = models.CharField(max_length=4, blank=True, default="", editable=False)
    scopes = models.CharField(max_length=MAX_SCOPES_LENGTH, default=DEFAULT_SCOPES, validators=[scopes_form])
    enabled = models.BooleanField(default=True)
    user_name_claim = _claim("preferred_username")
    display_name_claim = _claim("name")
    email_claim = _claim("email")
    create_users = models.BooleanField(default=False)
    # Whether a first login takes the local user of this name over; never an admin, nor whoever manages users.
    match_user_names = models.BooleanField(default=False)
    rules = models.TextField(  # claim_rules.py
        blank=True, default="", validators=[MaxLengthValidator(MAX_RULES_LENGTH), check_no_nul]
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)
    # When somebody ordered to fetch its keys; before fetched_at, processes remember what they ask for anew.
    fetch_begun_at = models.DateTimeField(null=True, default=None, editable=False)
    fetched_at = models.DateTimeField(null=True, default=None, editable=False)

    # Replaces the sealed secret of the provider from the environment, which has no row.
    plain_secret: str | None = None

    objects = IdentityProviderQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["name"], name="one_identity_provider_of_a_name"),
            models.UniqueConstraint(fields=["slug"], name="one_identity_provider_of_a_slug"),
            models.UniqueConstraint(fields=["issuer"], name="one_identity_provider_of_an_issuer"),
            models.CheckConstraint(condition=~Q(issuer=""), name="identity_provider_has_an_issuer"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def origin(self) -> str:
        """scheme://host:port of the issuer: what the secret is bound to."""
        return origin_of(self.issuer)

    @property
    def masked_secret(self) -> str:
        """The mask of the secret; '' without one."""
        return f"{MASK}{self.credential_hint}" if self.credential else ""

    def seal(self, secret: str) -> None:
        """Set the secret; "" clears it."""
        keys = settings.GATEWAY_ENCRYPTION_KEYS
        self.credential = encrypt(secret, origin=self.origin, keys=keys) if secret else ""
        self.credential_hint = hint_of(secret)

    def opened_secret(self) -> str:
        """The secret in the clear. Raises CredentialUnreadable."""
        if self.plain_secret is not None or not self.credential:
            return self.plain_secret or ""
        return decrypt(self.credential, origin=self.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)

    @property
    def login_path(self) -> str:
        return f"/auth/sso/{self.slug}/"

    @property
    def redirect_uri(self) -> str:
        """Where the provider sends browsers back to."""
        return f"{settings.GATEWAY_BASE_URL}{self.login_path}callback/"

    @property
    def backchannel_logout_uri(self) -> str:
        """Where the provider reports that a user has logged out there."""
        return f"{settings.GATEWAY_BASE_URL}{self.login_path}backchannel-logout/"

    @property
    def post_logout_redirect_uri(self) -> str:
        """Where the provider sends browsers after a logout that began here."""
        return f"{settings.GATEWAY_BASE_URL}{USER_PAGES if settings.GATEWAY_USER_PAGES else CONSOLE}/login/"


class Identity(models.Model):
    """Who a provider's subject is here. No name and no e-mail address stands in for it."""

    user = models.ForeignKey("accounts.User", on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=MAX_ISSUER_LENGTH, validators=[printable])
    subject = models.CharField(max_length=MAX_SUBJECT_LENGTH, validators=[printable])
    # The ids of the roles and groups that rules gave and may take away again.
    granted_roles = models.JSONField(default=list, editable=False)
    granted_groups = models.JSONField(default=list, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_login = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name_plural = "identities"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="one_identity_of_a_subject"),
            models.UniqueConstraint(fields=["user", "issuer"], name="one_identity_of_a_user_at_an_issuer"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class FederatedLoginQuerySet(models.QuerySet["FederatedLogin"]):
    def named_by(self, issuer: str, *, subject: str, session_id: str) -> "FederatedLoginQuerySet":
        """The logins whose sessions have not ended that a provider means; at least one of the two must be there."""
        logins = self.filter(issuer=issuer, session__ended_at=None)
        logins = logins.filter(subject=subject) if subject else logins
        return logins.filter(provider_session=session_id) if session_id else logins


class FederatedLogin(models.Model):
    """How a session began at a provider: what its logout, there or here, needs."""

    session = models.OneToOneField(
        "accounts.Session", on_delete=models.CASCADE, primary_key=True, related_name="federated"
    )
    provider_slug = models.CharField(max_length=MAX_SLUG_LENGTH)
    issuer = models.CharField(max_length=MAX_ISSUER_LENGTH)
    subject = models.CharField(max_length=MAX_SUBJECT_LENGTH)
    provider_session = models.CharField(max_length=MAX_SUBJECT_LENGTH, blank=True, default="")  # the claim sid
    id_token = models.TextField(blank=True, default="")  # sealed; the provider wants it back at a logout

    objects = FederatedLoginQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["issuer", "subject"], name="federated_logins_of_a_subject")]


class SpentTokenQuerySet(models.QuerySet["SpentToken"]):
    def expired(self, at: datetime) -> "SpentTokenQuerySet":
        """Tokens that would be refused anyway, since they are too old."""
        return self.filter(expires_at__lt=at)


class SpentToken(models.Model):
    """The digest of a state or of a logout token that was used: a second use is refused."""

    digest = models.CharField(max_length=64, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    objects = SpentTokenQuerySet.as_manager()
