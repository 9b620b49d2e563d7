"""Access tests. They stay when their user, group or provider is deleted: a deleted user may use nothing."""

from collections.abc import Collection
from typing import NamedTuple

from django.core.validators import MaxLengthValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.models import Group, User, check_name, check_text
from gateway_project.database.names import NameField
from providers.models import Provider
from rules.access_tests.querysets import AccessTestQuerySet

MAX_NAME_LENGTH, MAX_DESCRIPTION_LENGTH, MAX_MODEL_LENGTH, MAX_KEY_NAME_LENGTH = 100, 10_000, 300, 100


class Expectation(models.TextChoices):
    """What the test says about a request."""

    ALLOWED = "allowed", "Allowed"
    DENIED = "denied", "Denied"


class Verdict(NamedTuple):
    """Whether a test holds, and why the request that it is about would be served or refused."""

    holds: bool
    because: str


class AccessTest(models.Model):
    """A user, with a login or a key, or a group may or may not use a model, perhaps of one provider."""

    name = NameField(max_length=MAX_NAME_LENGTH, validators=[check_name])
    description = models.TextField(
        blank=True, default="", validators=[MaxLengthValidator(MAX_DESCRIPTION_LENGTH), check_text]
    )
    # The references stay as they are when the row is deleted.
    user = models.ForeignKey(User, models.DO_NOTHING, null=True, blank=True, db_constraint=False, related_name="+")
    group = models.ForeignKey(Group, models.DO_NOTHING, null=True, blank=True, db_constraint=False, related_name="+")
    key_name = models.CharField(max_length=MAX_KEY_NAME_LENGTH, blank=True, default="", validators=[check_text])
    model = models.CharField(max_length=MAX_MODEL_LENGTH, validators=[check_text])
    provider = models.ForeignKey(
        Provider, models.DO_NOTHING, null=True, blank=True, db_constraint=False, related_name="+"
    )
    expected = models.CharField(max_length=10, choices=Expectation, default=Expectation.ALLOWED)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    verdict: Verdict | None = None  # in rows of the console's list

    objects = AccessTestQuerySet.as_manager()

    class Meta:
        verbose_name = "access test"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["name"], name="one_access_test_of_a_name"),
            models.CheckConstraint(condition=~Q(name="") & ~Q(model=""), name="access_test_has_name_and_model"),
            models.CheckConstraint(
                condition=Q(expected__in=Expectation.values), name="access_test_expectation_is_known"
            ),
            models.CheckConstraint(
                condition=Q(user=None, group__isnull=False, key_name="") | Q(user__isnull=False, group=None),
                name="access_test_is_about_a_user_or_a_group",
                violation_error_message="An access test is for a user, with or without a key, or for a group.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        """Validate all fields but the references, which may be to what is gone; services check new ones."""
        super().clean_fields({*(exclude or ()), "user", "group", "provider"})

    @property
    def expects_denial(self) -> bool:
        return self.expected == Expectation.DENIED
