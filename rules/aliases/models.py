"""Aliases and their targets. Rules judge the name of an alias as well as each of its targets."""

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator, MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.models import check_text
from gateway_project.database.names import NameField, require_clear
from providers.models import Model
from rules.aliases.querysets import AliasQuerySet

MAX_NAME_LENGTH, MAX_DESCRIPTION_LENGTH = 200, 10_000
MAX_STARS = 4  # in one name
MAX_WEIGHT, MAX_TIER = 1_000_000, 99
MAX_TARGETS = 64  # of one alias, those of its aliases included
MAX_DEPTH = 5  # of aliases in aliases


class Strategy(models.TextChoices):
    """How one of the targets of a tier is chosen."""

    WEIGHTED = "weighted", "By weight"
    FASTEST = "fastest", "The fastest"
    CHEAPEST = "cheapest", "The cheapest"
    LEAST_BUSY = "least-busy", "The least busy"
    STICKY = "sticky", "The same for a conversation"


class FallbackCause(models.TextChoices):
    """Why a target did not serve."""

    ERROR = "error", "Error or time-out"
    RATE_LIMITED = "rate_limited", "Rate limit of the provider"
    CONTEXT_LENGTH = "context_length", "Conversation too long for the model"
    CONTENT_FILTER = "content_filter", "Content filter of the provider"
    BUDGET = "budget", "Limit of the provider reached here"


DEFAULT_CAUSES = (FallbackCause.ERROR.value, FallbackCause.RATE_LIMITED.value)


def check_alias_name(value: str) -> None:
    """Refuse a name that no reader can tell from another, or with too many stars."""
    require_clear(value, "An alias's name")
    if value.count("*") > MAX_STARS or "**" in value:
        raise ValidationError(f"An alias's name must have at most {MAX_STARS} stars, and no two of them side by side.")


def check_causes(value: object) -> None:
    """Refuse what is no list of different causes."""
    causes = FallbackCause.values
    if not isinstance(value, list) or any(one not in causes for one in value) or len(set(value)) != len(value):
        raise ValidationError(f"Must be a list of {', '.join(FallbackCause.values)}, each at most once.")


def default_causes() -> list[str]:
    """The causes of a new alias."""
    return list(DEFAULT_CAUSES)


def _integer(most: int, **options: Any) -> models.PositiveIntegerField:
    return models.PositiveIntegerField(validators=[MinValueValidator(0), MaxValueValidator(most)], **options)


class Alias(models.Model):
    """A name, perhaps with stars, that its targets serve."""

    name = NameField(max_length=MAX_NAME_LENGTH, validators=[check_alias_name])
    description = models.TextField(
        blank=True, default="", validators=[MaxLengthValidator(MAX_DESCRIPTION_LENGTH), check_text]
    )
    enabled = models.BooleanField(default=True)
    strategy = models.CharField(max_length=20, choices=Strategy, default=Strategy.WEIGHTED)
    fallback_on = models.JSONField(blank=True, default=default_causes, validators=[check_causes])
    # PROTECT: whoever deletes the model learns of the alias.
    mirror = models.ForeignKey(Model, on_delete=models.PROTECT, null=True, blank=True, related_name="mirrored_aliases")
    mirror_share = models.FloatField(default=0, validators=[MinValueValidator(0), MaxValueValidator(1)])
    hedge = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = AliasQuerySet.as_manager()
    targets: "models.Manager[AliasTarget]"

    class Meta:
        verbose_name_plural = "aliases"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["name"], name="one_alias_of_a_name"),
            models.CheckConstraint(condition=~Q(name=""), name="alias_has_a_name"),
            models.CheckConstraint(condition=Q(strategy__in=Strategy.values), name="alias_strategy_is_known"),
            models.CheckConstraint(
                condition=Q(mirror=None, mirror_share=0) | Q(mirror__isnull=False, mirror_share__gt=0),
                name="alias_mirrors_a_share_if_anything",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for all names that fit it."""
        return "*" in self.name


class AliasTarget(models.Model):
    """What may serve an alias: a model of a provider, or what serves another alias."""

    alias = models.ForeignKey(Alias, on_delete=models.CASCADE, related_name="targets")
    position = models.PositiveIntegerField()
    model = models.ForeignKey(Model, on_delete=models.PROTECT, null=True, blank=True, related_name="alias_targets")
    nested = models.ForeignKey(Alias, on_delete=models.PROTECT, null=True, blank=True, related_name="uses")
    weight = _integer(MAX_WEIGHT, default=1)
    tier = _integer(MAX_TIER, default=0)
    # Ids without foreign keys: a target of a deleted group matches nobody, and not everybody.
    match = models.JSONField(blank=True, default=dict)

    class Meta:
        verbose_name = "target of an alias"
        verbose_name_plural = "targets of aliases"
        ordering = ["alias_id", "position"]
        constraints = [
            models.UniqueConstraint(fields=["alias", "position"], name="one_alias_target_of_a_position"),
            models.CheckConstraint(
                condition=Q(model=None, nested__isnull=False) | Q(model__isnull=False, nested=None),
                name="alias_target_is_a_model_or_an_alias",
            ),
            models.CheckConstraint(condition=Q(weight__gte=0), name="alias_target_weight_is_a_share"),
        ]

    def __str__(self) -> str:
        return f"{self.model.provider.name}/{self.model.name}" if self.model else f"alias {self.nested}"


def names_of(aliases: Iterable[Alias]) -> str:
    """Their names in one text."""
    return ", ".join(sorted(alias.name for alias in aliases))
