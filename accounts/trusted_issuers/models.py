"""Trusted issuers: whose tokens are accepted for work, and in the place of which user's key."""

from collections.abc import Iterable

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.models import check_name, check_text
from accounts.trusted_issuers.querysets import TrustedIssuerQuerySet
from accounts.trusted_issuers.values import DEFAULT_ALGORITHMS, MAX_URL_LENGTH, key_ids
from gateway_project.database.names import NameField

MAX_NAME_LENGTH, MAX_CLAIM_LENGTH, MAX_PREFIX_LENGTH = 100, 100, 100
MAX_ISSUER_LENGTH = MAX_AUDIENCE_LENGTH = 500
MAX_LEEWAY_SECONDS = 300
DEFAULT_AGE_SECONDS, MIN_AGE_SECONDS, MAX_AGE_SECONDS = 86_400, 60, 366 * 86_400


def default_algorithms() -> list[str]:
    """The algorithms of a new issuer."""
    return list(DEFAULT_ALGORITHMS)


class TrustedIssuer(models.Model):
    """Signs tokens that stand for users of the gateway; its keys are stored here or fetched from it."""

    name = NameField(max_length=MAX_NAME_LENGTH, validators=[check_name])
    enabled = models.BooleanField(default=True)
    issuer = models.CharField(max_length=MAX_ISSUER_LENGTH, validators=[check_name])
    audience = models.CharField(max_length=MAX_AUDIENCE_LENGTH, validators=[check_name])
    algorithms = models.JSONField(default=default_algorithms)
    jwks_url = models.CharField(max_length=MAX_URL_LENGTH, blank=True, default="", validators=[check_text])
    jwks = models.JSONField(null=True, blank=True, default=None)
    user_claim = models.CharField(max_length=MAX_CLAIM_LENGTH, default="sub", validators=[check_name])
    user_prefix = models.CharField(max_length=MAX_PREFIX_LENGTH, blank=True, default="", validators=[check_text])
    subjects = models.JSONField(blank=True, default=dict)
    leeway_seconds = models.PositiveIntegerField(default=30, validators=[MaxValueValidator(MAX_LEEWAY_SECONDS)])
    max_age_seconds = models.PositiveIntegerField(
        default=DEFAULT_AGE_SECONDS, validators=[MinValueValidator(MIN_AGE_SECONDS), MaxValueValidator(MAX_AGE_SECONDS)]
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)
    # What was fetched, by one process for all.
    fetched_jwks = models.JSONField(null=True, default=None, editable=False)
    fetched_at = models.DateTimeField(null=True, default=None, editable=False)
    fetch_begun_at = models.DateTimeField(null=True, default=None, editable=False)
    fetch_problem = models.CharField(max_length=500, blank=True, default="", editable=False)

    objects = TrustedIssuerQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["name"], name="one_trusted_issuer_of_a_name"),
            models.UniqueConstraint(fields=["issuer", "audience"], name="one_trusted_issuer_for_an_audience"),
            models.CheckConstraint(
                condition=~Q(name="") & ~Q(issuer="") & ~Q(audience="") & ~Q(user_claim=""),
                name="trusted_issuer_is_complete",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def has_own_keys(self) -> bool:
        """Whether an administrator has stored its keys: then none are fetched."""
        return self.jwks is not None

    @property
    def key_ids(self) -> Iterable[str]:
        """The ids of the keys that its tokens are verified with."""
        return key_ids(self.jwks if self.has_own_keys else self.fetched_jwks)
