"""The installed licence, the limits that were set, and the peaks that were reached."""

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import Group, User
from gateway_project.console.display.measures import limit_text
from gateway_project.console.display.money import grouped_money
from keys.models import ApiKey
from licensing.querysets import DailyPeakQuerySet, LimitQuerySet
from providers.models import Provider

SUBJECTS = ("key", "user", "group", "provider")


def _exactly_one_subject() -> Q:
    condition = Q()
    for subject in SUBJECTS:
        condition |= Q(**{f"{name}__isnull": name != subject for name in SUBJECTS})
    return condition


class Licence(models.Model):
    """The installed licence key; there is one row or none."""

    ONLY_ID = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY_ID, editable=False)
    key = models.TextField()
    installed_at = models.DateTimeField(default=timezone.now)
    installed_by_id = models.BigIntegerField(null=True, blank=True)
    # The day (UTC) of the last warning that it expires.
    warned_on = models.DateField(null=True, blank=True, editable=False)
    # The latest time observed here, by the database's clock: an earlier time shows that the clock was set back.
    latest_seen = models.DateTimeField(null=True, blank=True, editable=False)
    # The latest date of issue of all licences that were installed here.
    latest_issued = models.DateField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_licence_is_installed")]

    def __str__(self) -> str:
        return f"installed {self.installed_at:%Y-%m-%d}"


class Measure(models.TextChoices):
    REQUESTS = "requests"
    TOKENS = "tokens"
    COST = "cost"
    CONCURRENT = "concurrent"


class Window(models.TextChoices):
    """Calendar windows in UTC; a limit of concurrent requests has none."""

    MINUTE = "minute"
    DAY = "day"
    MONTH = "month"
    NONE = "none"


class Unpriced(models.TextChoices):
    """What a cost limit does with work whose model has no price."""

    REFUSE = "refuse", "Refuse it"
    COUNT = "count", "Count it at a fixed price"
    IGNORE = "ignore", "Do not count it"


class LimitStatus(NamedTuple):
    """The amount used, reservations included, and the time at which the window ends; None where unknown."""

    used: Decimal | None
    resets_at: datetime | None


class UnpricedWork(NamedTuple):
    """Requests that a cost limit does not count in its present window.

    `requests` had no price, most of them that of the model; `unanswered` have an unknown cost for another reason.
    """

    requests: int = 0
    model: str = ""
    provider_id: int | None = None
    unanswered: int = 0


class Limit(models.Model):
    """An amount of one measure in one window, for one key, user, group or provider; 0 is unlimited."""

    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, null=True, blank=True, related_name="limits")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True, related_name="limits")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, null=True, blank=True, related_name="limits")
    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, null=True, blank=True, related_name="limits")
    measure = models.CharField(max_length=10, choices=Measure)
    window = models.CharField(max_length=10, choices=Window)
    amount = models.DecimalField(max_digits=20, decimal_places=6, validators=[MinValueValidator(0)])
    is_strict = models.BooleanField(
        "strict",
        default=False,
        help_text="The limit must have room for the largest possible use of a request, not only for the estimated use.",
    )
    unpriced = models.CharField(
        "without a price",
        max_length=6,
        choices=Unpriced,
        default=Unpriced.REFUSE,
        help_text="What the limit does with requests for a model that has no price.",
    )
    unpriced_price = models.DecimalField(
        "price without a price",
        max_digits=20,
        decimal_places=6,
        default=0,
        validators=[MinValueValidator(0)],
        help_text="The amount that a million tokens of such a model count, in the currency of the limit.",
    )
    # Usage counts from this time (the database's): the creation, or the last change from unlimited to an amount.
    bounds_since = models.DateTimeField(db_default=Now(), editable=False)
    status: LimitStatus  # in rows of the console's list
    unpriced_work: UnpricedWork | None  # in these rows, too
    currency = ""  # of a cost limit, in rows of LimitQuerySet.shown()

    objects = LimitQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=_exactly_one_subject(),
                name="limit_has_one_subject",
                violation_error_message="A limit is for one key, user, group or provider.",
            ),
            models.CheckConstraint(condition=Q(amount__gte=0), name="limit_amount_is_not_negative"),
            models.CheckConstraint(condition=Q(measure__in=Measure.values), name="limit_measure_is_known"),
            models.CheckConstraint(condition=Q(window__in=Window.values), name="limit_window_is_known"),
            models.CheckConstraint(condition=Q(unpriced__in=Unpriced.values), name="limit_unpriced_is_known"),
            models.CheckConstraint(
                condition=Q(unpriced_price__gte=0) & (~Q(unpriced=Unpriced.COUNT) | Q(unpriced_price__gt=0)),
                name="limit_counts_unpriced_at_a_price",
                violation_error_message="To count work without a price, enter what a million tokens count.",
            ),
            models.CheckConstraint(
                condition=Q(is_strict=False) | Q(measure__in=["tokens", "cost"]),
                name="limit_is_strict_about_tokens_or_cost",
                violation_error_message="Only limits of tokens and of cost can be strict.",
            ),
            models.CheckConstraint(
                condition=Q(measure="concurrent", window="none") | (~Q(measure="concurrent") & ~Q(window="none")),
                name="limit_window_fits_its_measure",
                violation_error_message="Limits of concurrent requests have the window none; all other limits need a "
                "window.",
            ),
            *(
                models.UniqueConstraint(
                    fields=[subject, "measure", "window"],
                    condition=Q(**{f"{subject}__isnull": False}),
                    name=f"one_limit_of_a_kind_a_{subject}",
                    violation_error_message=f"A limit of this measure and window for this {subject} exists already.",
                    violation_error_code="unique",
                )
                for subject in SUBJECTS
            ),
        ]

    def __str__(self) -> str:
        return limit_text(self.measure, self.window, self.amount, self.currency, grouped_money)

    @property
    def subject(self) -> models.Model:
        """The key, user, group or provider of the limit."""
        return next(subject for name in SUBJECTS if (subject := getattr(self, name)) is not None)

    @property
    def subject_kind(self) -> str:
        return next(name for name in SUBJECTS if getattr(self, f"{name}_id") is not None)


class DailyPeak(models.Model):
    """The highest number of active uses at one time of a day (UTC)."""

    date = models.DateField()
    peak_use = models.IntegerField(default=0)

    objects = DailyPeakQuerySet.as_manager()

    class Meta:
        ordering = ["date"]
        constraints = [
            models.UniqueConstraint(fields=["date"], name="one_peak_a_day"),
            models.CheckConstraint(condition=Q(peak_use__gte=0), name="peak_is_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.date}: {self.peak_use}"
