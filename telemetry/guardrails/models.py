"""Tables of what guardrails have come to. Guardrails are plain numbers here: the counts outlive them."""

from django.db import models


class GuardrailHour(models.Model):
    """A part of what one guardrail came to within an hour in one direction (rollup.py); the parts add up."""

    hour = models.DateTimeField()  # with which it begins, UTC
    merged = models.BooleanField(default=False, db_default=False)  # whether it is the only one but for what came later
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
