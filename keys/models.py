"""API keys; only a digest of each secret is stored."""

from datetime import datetime

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.deletion import Collector
from django.utils import timezone

from accounts.models import User, check_name
from gateway_project.console.display.badges import Badge
from gateway_project.database.names import NameField, SearchedField
from keys.querysets import ApiKeyQuerySet
from keys.restrictions import MAX_TOKENS, ContentLogging
from keys.states import KeyState, key_badge
from providers.models import Provider


def work_only() -> list[str]:
    """The default permissions of a key."""
    return ["work"]


def check_permissions(value: object) -> None:
    """Refuse what is not a list of feature names."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValidationError("Permissions must be a list of feature names.")


def protect_live_keys(
    collector: Collector, field: models.ForeignKey, rows: models.QuerySet["ApiKey"], using: str
) -> None:
    """Protect a provider while live keys are linked to it: without it they would be keys for every provider.

    Deleted keys lose their provider: they are never accepted again, and would protect it forever.
    """
    if live := rows.filter(is_deleted=False):
        models.PROTECT(collector, field, live, using)
    models.SET_NULL(collector, field, rows, using)


class ApiKey(models.Model):
    """A credential for work, with a subset of its owner's permissions."""

    name = NameField(max_length=100, validators=[check_name])
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_keys")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    public_id = SearchedField(max_length=16, editable=False)
    digest = models.BinaryField(max_length=32)
    # The previous secret of a rotated key, and how long it is accepted. Null, not empty: the ids are unique.
    former_public_id = SearchedField(max_length=16, null=True, blank=True, editable=False)
    former_digest = models.BinaryField(max_length=32, null=True)
    former_until = models.DateTimeField(null=True, blank=True, editable=False)
    rotated_at = models.DateTimeField(null=True, blank=True, editable=False)
    expiry = models.DateTimeField(null=True, blank=True)
    provider = models.ForeignKey(Provider, on_delete=protect_live_keys, null=True, blank=True, related_name="api_keys")
    permissions = models.JSONField(default=work_only, blank=True, validators=[check_permissions])
    # What narrows it further (restrictions.py); the empty values restrict nothing.
    model_patterns = models.JSONField("models", default=list, blank=True)
    networks = models.JSONField(default=list, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    tags = models.JSONField(default=dict, blank=True)
    max_tokens_per_request = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(MAX_TOKENS)]
    )
    content_logging = models.CharField(
        max_length=8,
        choices=[(kind.value, kind.value) for kind in ContentLogging],
        default=ContentLogging.DEFAULT.value,
    )
    locked_time = models.DateTimeField(null=True, blank=True)
    last_used = models.DateTimeField(null=True, blank=True, editable=False)
    is_deleted = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    key_state: str  # the state in rows of with_state()
    recent_costs: str  # of 30 days, in rows of the console's list

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = "API key"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="one_key_of_a_public_id"),
            models.UniqueConstraint(fields=["former_public_id"], name="one_key_of_a_former_public_id"),
            models.UniqueConstraint(
                fields=["owner", "name"],
                condition=models.Q(is_deleted=False),
                name="one_live_key_of_a_name_an_owner",
                violation_error_message="This user has a key of this name already.",
                violation_error_code="unique",
            ),
            models.CheckConstraint(condition=~models.Q(name=""), name="key_has_a_name"),
            models.CheckConstraint(condition=models.Q(max_tokens_per_request__gte=1), name="key_allows_a_token"),
            models.CheckConstraint(
                condition=models.Q(content_logging__in=[kind.value for kind in ContentLogging]),
                name="key_has_a_known_content_logging",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.public_id})"

    def state(self) -> KeyState:
        """The state that with_state() loaded, else the current one, by one query."""
        return KeyState(self.key_state) if hasattr(self, "key_state") else ApiKey.objects.state_of(self.pk)

    def badge(self, at: datetime | None = None) -> Badge:
        """The state in words, as all pages show it, at a moment (default: now)."""
        return key_badge(self.state(), self.expiry, at or timezone.now())

    def is_expired(self, at: datetime | None = None) -> bool:
        """Whether its expiry has passed at a moment (default: now)."""
        return self.expiry is not None and self.expiry <= (at or timezone.now())

    @property
    def secret_created_at(self) -> datetime:
        """The creation time of its current secret."""
        return self.rotated_at or self.created_at

    def digest_of(self, public_id: str, at: datetime | None = None) -> bytes | None:
        """The digest of the secret with this public id; None if it is not accepted at a moment (default: now)."""
        if public_id == self.public_id:
            return bytes(self.digest)
        if public_id != self.former_public_id or self.former_until is None or self.former_digest is None:
            return None
        return bytes(self.former_digest) if self.former_until > (at or timezone.now()) else None
