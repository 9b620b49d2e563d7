"""Drafts that are tried on recorded traffic, with their progress and result."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from rules.what_if.querysets import WhatIfQuerySet


class State(models.TextChoices):
    RUNNING = "running", "running"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


class WhatIf(models.Model):
    """A draft and a period. One that is running waits until a process claims it: at most one is claimed at a time.

    A claim lasts until `claimed_until`, which its process moves on; after that another one may claim it. The user is a
    plain number and a name: what was found outlives the user for a few days.
    """

    user_id = models.BigIntegerField(null=True)
    user_name = models.CharField(max_length=150, blank=True, default="")
    start = models.DateTimeField()
    end = models.DateTimeField()
    draft = models.JSONField(default=dict)  # as it was sent
    state = models.CharField(max_length=10, choices=State, default=State.RUNNING)
    progress = models.FloatField(default=0)
    result = models.JSONField(null=True)
    error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    claim = models.CharField(max_length=32, blank=True, default="")
    claimed_until = models.DateTimeField(null=True)
    claims = models.PositiveSmallIntegerField(default=0)

    objects = WhatIfQuerySet.as_manager()

    class Meta:
        verbose_name = "what-if"
        verbose_name_plural = "what-ifs"
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=State.values), name="what_if_state_is_known"),
            models.CheckConstraint(condition=Q(start__lt=models.F("end")), name="what_if_has_a_period"),
            models.CheckConstraint(condition=Q(claim="") | Q(state=State.RUNNING), name="what_if_claimed_is_running"),
            # Whoever has a claim is running: there is one such row at most.
            models.UniqueConstraint(
                fields=["state"],
                condition=~Q(claim=""),
                name="one_what_if_is_claimed",
                violation_error_code="unique",
            ),
        ]
        indexes = [models.Index(fields=["state", "id"], name="what_ifs_by_state")]

    def __str__(self) -> str:
        return f"what-if {self.pk}"

    @property
    def is_running(self) -> bool:
        return self.state == State.RUNNING
