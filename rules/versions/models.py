"""The versions of rules. They outlive their rule, so that it can be read and restored."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from rules.versions.querysets import RuleVersionQuerySet


class RuleChange(models.TextChoices):
    """What made a version."""

    INITIAL = "initial", "existed before versions were recorded"
    CREATE = "create", "created"
    UPDATE = "update", "changed"
    DELETE = "delete", "deleted"
    RESTORE = "restore", "restored"


class RuleVersion(models.Model):
    """A rule as it was from a moment on: `attributes` with the names and values of rules.services.create_rule().

    `changes` are the attributes that differ from the version before it, each with its value before and after.
    """

    rule_id = models.BigIntegerField()
    number = models.PositiveIntegerField()
    change = models.CharField(max_length=10, choices=RuleChange)
    attributes = models.JSONField()
    changes = models.JSONField(default=dict)
    # Whether the rule was then one that an admin of its group wrote last.
    is_delegated = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(default=timezone.now)
    # A plain number and a name: the version outlives the user. The name alone is that of a user of the machine.
    author_id = models.BigIntegerField(null=True)
    author_name = models.CharField(max_length=255, blank=True)

    objects = RuleVersionQuerySet.as_manager()

    class Meta:
        verbose_name = "version of a rule"
        verbose_name_plural = "versions of rules"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["rule_id", "number"], name="one_rule_version_of_a_number"),
            models.CheckConstraint(condition=Q(change__in=RuleChange.values), name="rule_version_change_is_known"),
        ]
        indexes = [models.Index(fields=["created_at"], name="rule_versions_by_time")]

    def __str__(self) -> str:
        return f"{self.attributes['name']}, version {self.number}"

    @property
    def is_deletion(self) -> bool:
        return self.change == RuleChange.DELETE
