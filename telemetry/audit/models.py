"""The audit: who did what, in a chain of hashes, and the segments of it that retention has removed."""

from django.db import models
from django.utils import timezone

from telemetry.audit.chain import AuditRecord, Link
from telemetry.audit.querysets import AuditQuerySet


def _hash() -> models.CharField:
    return models.CharField(max_length=64, editable=False)


class AuditEntry(models.Model):
    """One event; written once. Users and keys are plain numbers here: the audit outlives them."""

    timestamp = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=200, blank=True, default="")
    user_id = models.BigIntegerField(null=True, blank=True)
    key_id = models.BigIntegerField(null=True, blank=True)
    action = models.CharField(max_length=40)
    resource = models.CharField(max_length=64)
    resource_id = models.BigIntegerField(null=True, blank=True)
    message = models.TextField(blank=True, default="")
    # Text, and not JSON: a database that writes JSON in another form would break the hash.
    before = models.TextField(blank=True, default="null")
    after = models.TextField(blank=True, default="null")
    address = models.CharField(max_length=64, blank=True, default="")
    request_id = models.CharField(max_length=128, blank=True, default="")
    previous_hash = _hash()
    hash = _hash()

    objects = AuditQuerySet.as_manager()

    class Meta:
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["-timestamp", "-id"], name="audit_newest_first"),
            models.Index(fields=["resource", "resource_id", "-id"], name="audit_of_an_object"),
            models.Index(fields=["actor", "-id"], name="audit_of_an_actor"),
        ]
        constraints = [models.UniqueConstraint(fields=["previous_hash"], name="one_audit_entry_follows_another")]

    def __str__(self) -> str:
        return f"{self.timestamp:%Y-%m-%d %H:%M:%S} {self.message}"

    @property
    def link(self) -> Link:
        """The row as the chain sees it."""
        record = AuditRecord(*(getattr(self, name) for name in AuditRecord._fields))
        return Link(self.pk, record, self.previous_hash, self.hash)


class AuditSegment(models.Model):
    """Rows of a closed month of the audit that retention has removed; the hashes keep the chain whole."""

    first_id = models.BigIntegerField()
    last_id = models.BigIntegerField()
    rows = models.PositiveBigIntegerField()
    begins = models.DateTimeField()
    ends = models.DateTimeField()
    previous_hash = _hash()
    hash = _hash()

    class Meta:
        ordering = ["last_id"]
        constraints = [models.UniqueConstraint(fields=["previous_hash"], name="one_audit_segment_follows_another")]

    def __str__(self) -> str:
        return f"{self.begins:%Y-%m}, rows {self.first_id} to {self.last_id}"
