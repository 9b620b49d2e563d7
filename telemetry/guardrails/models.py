"""Tables of what guardrails have come to. Guardrails are plain numbers here: the counts outlive them."""

import json

from django.conf import settings
from django.db import models
from django.utils import timezone

from providers.credentials import CredentialUnreadable, decrypt
from telemetry.querysets import GuardrailSampleQuerySet


class GuardrailHour(models.Model):
    """A part of what one guardrail came to within an hour in one direction (rollup.py); the parts add up."""

    hour = models.DateTimeField()  # with which it begins, UTC
    merged = models.BooleanField(default=False, db_default=False)  # true for the sum; later entries add more rows
    guardrail_id = models.BigIntegerField()
    guardrail_name = models.CharField(max_length=100)
    direction = models.CharField(max_length=10)
    searched = models.BigIntegerField(null=True)  # requests, or answers; null here and below: none
    passed = models.BigIntegerField(null=True)
    blocked = models.BigIntegerField(null=True)
    redacted = models.BigIntegerField(null=True)
    monitored = models.BigIntegerField(null=True)
    failed = models.BigIntegerField(null=True)
    duration_us = models.BigIntegerField(null=True)

    class Meta:
        verbose_name_plural = "hours of guardrails"
        indexes = [models.Index(fields=["merged", "hour"], name="guardrails_by_hour")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}:00 {self.guardrail_name} {self.direction}"


class GuardrailSample(models.Model):
    """What a guardrail has matched, with a little text around it, for as long as the guardrail said then."""

    timestamp = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(default=timezone.now)
    guardrail_id = models.BigIntegerField(default=0)
    correlation_id = models.CharField(max_length=128, default="")
    user_id = models.BigIntegerField(null=True)
    direction = models.CharField(max_length=10, default="")
    category = models.CharField(max_length=200, default="")
    sealed = models.TextField(default="")  # the text before the match, the match, the text after it, as JSON, encrypted

    objects = GuardrailSampleQuerySet.as_manager()

    class Meta:
        ordering = ["-timestamp", "-id"]
        indexes = [
            models.Index(fields=["guardrail_id", "-timestamp", "-id"], name="samples_of_a_guardrail"),
            models.Index(fields=["expires_at"], name="samples_by_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.category} of guardrail {self.guardrail_id}"

    @property
    def parts(self) -> list[str] | None:
        """The text before the match, the match, and the text after it; None without the key that it needs."""
        try:
            text = decrypt(
                self.sealed, origin=origin_of_samples(self.guardrail_id), keys=settings.GATEWAY_ENCRYPTION_KEYS
            )
        except CredentialUnreadable:
            return None
        parts: list[str] = json.loads(text)
        return parts


def origin_of_samples(guardrail_id: int) -> str:
    """What the samples of a guardrail are sealed for."""
    return f"samples of guardrail {guardrail_id}"
