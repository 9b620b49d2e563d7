"""Access rules: each allows some work, or denies it. Work that no rule allows is denied."""

from django.core.validators import MaxLengthValidator, MaxValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.models import Group, User, check_name, check_text
from gateway_project.database.names import NameField
from providers.models import Provider
from rules.access_tests.models import AccessTest
from rules.aliases.models import Alias, AliasTarget
from rules.guardrails.models import MAX_POSITION, Guardrail
from rules.linter import RuleProblem
from rules.matching import DEFAULT_POSITION
from rules.querysets import RuleQuerySet
from rules.versions.models import RuleVersion
from rules.what_if.models import WhatIf

__all__ = ["AccessTest", "Alias", "AliasTarget", "Effect", "Everyone", "Guardrail", "Rule", "RuleVersion", "WhatIf"]
MAX_PATTERN_LENGTH, MAX_DESCRIPTION_LENGTH = 1000, 10_000


class Everyone(models.TextChoices):
    """Which of userId and groupId was written as 0; either way the rule is for everyone."""

    NOT = "", "not for everyone"
    USER = "user", "every user"
    GROUP = "group", "every group"


class Effect(models.TextChoices):
    """What a rule does with the requests that it matches."""

    ALLOW = "allow", "Allow"
    DENY = "deny", "Deny"


class Rule(models.Model):
    """Allows its user, group or everyone the models that match the pattern, of one provider or of any; or denies them.

    Rules are judged in order of position and id. Those that deny come first: one with a provider leaves that provider
    out, one without refuses the request.
    """

    name = NameField(max_length=100, validators=[check_name])
    description = models.TextField(
        blank=True, default="", validators=[MaxLengthValidator(MAX_DESCRIPTION_LENGTH), check_text]
    )
    enabled = models.BooleanField(default=True)
    effect = models.CharField(max_length=5, choices=Effect, default=Effect.ALLOW, db_default=Effect.ALLOW)
    position = models.PositiveIntegerField(
        default=DEFAULT_POSITION, db_default=DEFAULT_POSITION, validators=[MaxValueValidator(MAX_POSITION)]
    )
    regex = models.TextField(
        blank=True,
        default="",
        validators=[MaxLengthValidator(MAX_PATTERN_LENGTH), check_text],
        help_text="An RE2 pattern for the whole model name. Empty: every model.",
    )
    # SET_NULL: a rule of a deleted user or group becomes a rule for nobody.
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="rules")
    group = models.ForeignKey(Group, on_delete=models.SET_NULL, null=True, blank=True, related_name="rules")
    everyone = models.CharField(max_length=5, choices=Everyone, blank=True, default=Everyone.NOT)
    # PROTECT: without its provider a rule would allow any.
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, null=True, blank=True, related_name="rules")
    # Whether an admin of the group wrote it last, who may then change it (delegation.py).
    is_delegated = models.BooleanField(default=False, db_default=False, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)
    warnings: list[RuleProblem]  # in rows of the console's list
    move_address: str  # there, too: where a form moves it; "" while it cannot be moved
    moves: tuple[str, str]  # the values of its buttons up and down in a list of the console

    objects = RuleQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["-effect", "position", "id"], name="rules_in_order_of_judging")]
        constraints = [
            models.UniqueConstraint(fields=["name"], name="one_rule_of_a_name"),
            models.CheckConstraint(condition=~Q(name=""), name="rule_has_a_name"),
            models.CheckConstraint(condition=Q(everyone__in=Everyone.values), name="rule_everyone_is_known"),
            models.CheckConstraint(condition=Q(effect__in=Effect.values), name="rule_effect_is_known"),
            models.CheckConstraint(
                condition=Q(user=None, group=None) | Q(user=None, everyone="") | Q(group=None, everyone=""),
                name="rule_is_for_one_sort_of_caller",
                violation_error_message="A rule is for a user, for a group or for everyone.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def for_nobody(self) -> bool:
        """Whether it applies to nobody, because its user or group was deleted."""
        return not self.everyone and self.user_id is None and self.group_id is None

    @property
    def denies(self) -> bool:
        return self.effect == Effect.DENY
