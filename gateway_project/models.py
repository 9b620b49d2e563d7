"""The product's own table: what changed, for every process that keeps a copy."""

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone


class Change(models.Model):
    """A watched row changed; triggers write it (gateway_project/change_feed/triggers.py), ChangeFeed reads it.

    `row_id` 0 says: reload everything of this kind. On PostgreSQL the table has one column more, `xid`, the
    transaction that wrote the row: ids are given out before commits and say nothing about their order.
    """

    kind = models.CharField(max_length=32)
    row_id = models.BigIntegerField(default=0, db_default=0)
    at = models.DateTimeField(default=timezone.now, db_default=Now())

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["at"], name="changes_by_age")]

    def __str__(self) -> str:
        return f"{self.kind} {self.row_id}"
