"""Guardrails. The audience of one is stored as ids and names; those of deleted rows stand for nobody."""

from django.conf import settings
from django.core.validators import MaxLengthValidator, MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.models import check_name, check_text
from gateway_project.database.names import NameField
from gateway_project.json_types import JsonObject
from providers.credentials import decrypt, encrypt, hint_of, origin_of
from providers.models import MASK
from rules.guardrails.querysets import GuardrailQuerySet

MAX_NAME_LENGTH, MAX_DESCRIPTION_LENGTH, MAX_POSITION = 100, 10_000, 1_000_000
MAX_SAMPLE_DAYS = 365
EVERYONE = "everyone"


class Direction(models.TextChoices):
    """What is searched."""

    BOTH = "both", "Requests and answers"
    REQUEST = "request", "Requests"
    RESPONSE = "response", "Answers"


class Action(models.TextChoices):
    """What happens where there is a match, the strictest first."""

    BLOCK = "block", "Block"
    REDACT = "redact", "Redact"
    MONITOR = "monitor", "Only record"


class GuardrailType(models.TextChoices):
    """What is searched for, and how."""

    PATTERN = "pattern", "Patterns (RE2)"
    SECRETS = "secrets", "Secrets: keys, tokens, passwords"
    PII = "pii", "Personal data"
    WORDS = "words", "Words"
    JSON = "json", "Answers that are not JSON, or do not match a schema"
    TOPIC = "topic", "Languages, lengths, links and images"
    INJECTION = "injection", "Prompt injection (heuristics)"
    HTTP = "http", "A service over HTTP"
    PROVIDER = "provider", "A moderation model of a provider"


def default_action(type_: str) -> str:
    """The action of a new guardrail for which none was chosen: heuristics only record."""
    return Action.MONITOR if type_ == GuardrailType.INJECTION else Action.BLOCK


class FailMode(models.TextChoices):
    """What happens while a guardrail cannot run."""

    OPEN = "open", "Let pass"
    CLOSED = "closed", "Block"


def for_everyone() -> JsonObject:
    """Whom a new guardrail is for."""
    return {EVERYONE: True}


class Guardrail(models.Model):
    """Searches the texts of requests, answers or both, of its audience, for what its type and parameters say."""

    name = NameField(max_length=MAX_NAME_LENGTH, validators=[check_name])
    description = models.TextField(
        blank=True, default="", validators=[MaxLengthValidator(MAX_DESCRIPTION_LENGTH), check_text]
    )
    enabled = models.BooleanField(default=True)
    position = models.PositiveIntegerField(
        default=100, validators=[MinValueValidator(0), MaxValueValidator(MAX_POSITION)]
    )
    direction = models.CharField(max_length=10, choices=Direction, default=Direction.BOTH)
    action = models.CharField(max_length=10, choices=Action, default=Action.BLOCK)
    type = models.CharField(max_length=20, choices=GuardrailType)
    parameters = models.JSONField(blank=True, default=dict)
    credential = models.TextField(blank=True, default="", editable=False)  # the secret of `http`, sealed for its URL
    credential_hint = models.CharField(max_length=4, blank=True, default="", editable=False)
    fail_mode = models.CharField(max_length=10, choices=FailMode, default=FailMode.OPEN)
    samples = models.BooleanField("Keep samples", default=False)  # of what it matches, for some days
    sample_days = models.PositiveSmallIntegerField(
        default=7, validators=[MinValueValidator(1), MaxValueValidator(MAX_SAMPLE_DAYS)]
    )
    applies_to = models.JSONField(default=for_everyone)  # audience.py
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = GuardrailQuerySet.as_manager()

    class Meta:
        ordering = ["position", "id"]
        constraints = [
            models.UniqueConstraint(fields=["name"], name="one_guardrail_of_a_name"),
            models.CheckConstraint(condition=~Q(name=""), name="guardrail_has_a_name"),
            models.CheckConstraint(condition=Q(direction__in=Direction.values), name="guardrail_direction_is_known"),
            models.CheckConstraint(condition=Q(action__in=Action.values), name="guardrail_action_is_known"),
            models.CheckConstraint(condition=Q(fail_mode__in=FailMode.values), name="guardrail_fail_mode_is_known"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def origin(self) -> str:
        """scheme://host:port of the service: what the secret is bound to."""
        return origin_of(self.parameters["url"])

    @property
    def shown_parameters(self) -> JsonObject:
        """The parameters with the mask of the secret."""
        secret = {"secret": f"{MASK}{self.credential_hint}"} if self.credential else {}
        return {**self.parameters, **secret}

    def seal(self, secret: str) -> None:
        """Set the secret; "" clears it."""
        keys = settings.GATEWAY_ENCRYPTION_KEYS
        self.credential = encrypt(secret, origin=self.origin, keys=keys) if secret else ""
        self.credential_hint = hint_of(secret)

    def opened_secret(self) -> str:
        """The secret in the clear. Raises CredentialUnreadable."""
        if not self.credential:
            return ""
        return decrypt(self.credential, origin=self.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)
