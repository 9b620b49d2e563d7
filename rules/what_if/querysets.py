"""Every question to the database about drafts that are tried on recorded traffic."""

from datetime import datetime
from typing import Self, TypeVar

from django.db import models
from django.db.models import Q

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)
RUNNING = "running"


class WhatIfQuerySet(models.QuerySet[Row]):
    def of_user(self, user_id: int) -> Self:
        """Those of one user."""
        return self.filter(user_id=user_id)

    def running(self) -> Self:
        """Those that wait or are being worked on."""
        return self.filter(state=RUNNING)

    def ended(self) -> Self:
        """Those that are done, failed or cancelled."""
        return self.exclude(state=RUNNING)

    def claimed(self, at: datetime) -> Self:
        """Those that a process works on at a moment."""
        return self.filter(claimed_until__gt=at).exclude(claim="")

    def abandoned(self, at: datetime) -> Self:
        """Those whose process has not been heard of for too long."""
        return self.exclude(claim="").filter(Q(claimed_until__lte=at) | Q(claimed_until=None))

    def claimed_by(self, claim: str) -> Self:
        """The one that a process works on under this claim."""
        return self.filter(claim=claim, state=RUNNING)

    def waiting(self) -> Self:
        """Those that no process works on, the first to be worked on first."""
        return self.running().filter(claim="").order_by("id")

    def ended_before(self, moment: datetime) -> Self:
        """Those whose result is older than that."""
        return self.filter(ended_at__lt=moment)
