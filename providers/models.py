"""Where work can go: providers, the models they offer and the formats they speak."""

from datetime import datetime
from math import inf
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from gateway_project.database.names import SearchedField, is_clear
from providers.credentials import origin_of
from providers.formats.usage import MONEY_DECIMALS
from providers.pricing.prices import PRICE_DECIMALS, Offer, Price
from providers.querysets import ModelPriceQuerySet, ModelQuerySet, ProviderQuerySet

MASK = "…"
TIMEOUTS = (
    "connect_timeout_seconds",
    "first_byte_timeout_seconds",
    "idle_timeout_seconds",
    "total_timeout_seconds",
)
# What a provider may be given beside its address and its name.
OPTIONS = (
    "enabled",
    "priority",
    "weight",
    "cache_scope",
    "cache_ttl_seconds",
    *TIMEOUTS,
    "max_response_bytes",
    "unknown_parameters",
)
LEAST_SECONDS = 0.01  # as of the settings that stand in for a time-out that is not given
# What may be stored, and so what the API and the console take.
LONGEST_CREDENTIAL = 20_000
LONGEST_TIMEOUT = 86_400
MAX_INTEGER = 2**31 - 1  # of a whole number of 32 bits, also where the database would take more
MOST_MODELS = 1000  # of a new provider


def check_provider_name(value: str) -> None:
    """Refuse a name that `provider/model` could not be split at, or that no reader can tell from another."""
    if "/" in value or not is_clear(value):
        raise ValidationError(
            "A provider's name has no slash, no blanks around it and only characters that can be seen."
        )


def check_model_name(value: str) -> None:
    """Refuse a name that no reader can tell from another."""
    if not is_clear(value):
        raise ValidationError("A model's name has no blanks around it and only characters that can be seen.")


def check_positive(value: float) -> None:
    """Refuse what is no duration: less than anything takes, infinite or not a number."""
    if not LEAST_SECONDS <= value < float("inf"):
        raise ValidationError(f"Must be a number of seconds, {LEAST_SECONDS} at least.")


class ProviderFormat(models.Model):
    """A wire format that the gateway speaks; the code of the same name is in providers/formats."""

    name = models.CharField(max_length=50)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["name"], name="one_format_of_a_name")]

    def __str__(self) -> str:
        return self.name


class AuthMethod(models.TextChoices):
    """How the credential is put on a request to the provider."""

    BEARER = "bearer", "Authorization: Bearer"
    X_API_KEY = "x-api-key", "x-api-key"
    API_KEY = "api-key", "api-key"
    X_GOOG_API_KEY = "x-goog-api-key", "x-goog-api-key"
    QUERY = "query", "?key="
    BASIC = "basic", "Authorization: Basic"
    AWS_SIGV4 = "aws-sigv4", "AWS Signature Version 4"
    NONE = "none", "none"


class CacheScope(models.TextChoices):
    """Who shares a stored response; empty leaves it to the setting."""

    SETTING = "", "as the setting says"
    GLOBAL = "global", "everybody"
    GROUP = "group", "the members of the same groups"
    USER = "user", "one user"
    KEY = "key", "one key"


class UnknownParameters(models.TextChoices):
    """What becomes of a request's parameters that the provider's format does not know."""

    REFUSE = "refuse", "refuse the request"
    DROP = "drop", "leave them out"
    PASS = "pass", "pass them on"


def _seconds() -> models.FloatField:
    """A time-out of the provider's own; null leaves it to the setting."""
    return models.FloatField(null=True, blank=True, validators=[check_positive, MaxValueValidator(LONGEST_TIMEOUT)])


def _integer_field(*, least: int = 0, **options: Any) -> models.PositiveIntegerField:
    """A whole number that is the same on every database: SQLite would take one of 64 bits."""
    validators = [MinValueValidator(least), MaxValueValidator(MAX_INTEGER)]
    return models.PositiveIntegerField(validators=validators, **options)


class Provider(models.Model):
    """One endpoint that serves models, with its credential (encrypted) and its own time-outs and limits."""

    name = SearchedField(max_length=100, validators=[check_provider_name])
    url = models.CharField(max_length=2000)
    auth_method = models.CharField(max_length=20, choices=AuthMethod, default=AuthMethod.BEARER)
    credential = models.TextField(blank=True, default="", editable=False)
    credential_hint = models.CharField(max_length=4, blank=True, default="", editable=False)
    format = models.ForeignKey(ProviderFormat, on_delete=models.PROTECT, related_name="providers")
    enabled = models.BooleanField(default=True)
    priority = _integer_field(default=100, help_text="Lower is tried first.")
    weight = _integer_field(least=1, default=1, help_text="Share of the work within a priority.")
    cache_scope = models.CharField(max_length=10, choices=CacheScope, blank=True, default=CacheScope.SETTING)
    cache_ttl_seconds = _integer_field(null=True, blank=True)
    connect_timeout_seconds = _seconds()
    first_byte_timeout_seconds = _seconds()
    idle_timeout_seconds = _seconds()
    total_timeout_seconds = _seconds()
    max_response_bytes = models.PositiveBigIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    unknown_parameters = models.CharField(max_length=10, choices=UnknownParameters, default=UnknownParameters.PASS)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ProviderQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["name"], name="one_provider_of_a_name"),
            models.CheckConstraint(
                condition=~models.Q(name="") & ~models.Q(name__contains="/"),
                name="provider_name_is_a_path_part",
            ),
            models.CheckConstraint(condition=models.Q(weight__gte=1), name="provider_weight_is_a_share"),
            *(
                models.CheckConstraint(condition=models.Q(**{f"{field}__gt": 0}), name=f"provider_{field}_above_0")
                for field in TIMEOUTS
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def origin(self) -> str:
        """scheme://host:port of its URL: what its credential is bound to."""
        return origin_of(self.url)

    @property
    def masked_credential(self) -> str:
        """What anyone may see of the credential: "…" and its last four characters; empty without one."""
        return f"{MASK}{self.credential_hint}" if self.credential else ""


class Model(models.Model):
    """A model name that one provider serves."""

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="models", db_index=False)
    name = SearchedField(max_length=200, validators=[check_model_name])
    max_output_tokens = _integer_field(
        least=1,
        null=True,
        blank=True,
        help_text="The longest answer that it gives, for providers that want to be told; empty: as far as it is known.",
    )

    objects = ModelQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["provider", "name"], name="one_model_of_a_name_a_provider"),
            models.CheckConstraint(condition=~models.Q(name=""), name="model_has_a_name"),
            models.CheckConstraint(condition=models.Q(max_output_tokens__gte=1), name="model_answers_something"),
        ]
        indexes = [models.Index(fields=["name"], name="models_by_name")]

    def __str__(self) -> str:
        return self.name


class PriceSource(models.TextChoices):
    """Where a price comes from."""

    BUNDLED = "bundled", "the public prices that come with the gateway"
    SYNCED = "synced", "a file that was loaded"
    EDITED = "edited", "somebody here"


def check_pattern(value: str) -> None:
    """Refuse a pattern that could not match: with capitals, blanks or what cannot be printed."""
    if value != value.lower() or " " in value or not value.isprintable():
        raise ValidationError("Must be in lower case, without blanks; * stands for any characters.")


def _amount(**options: Any) -> models.DecimalField:
    """Money for a million tokens."""
    return models.DecimalField(
        max_digits=12, decimal_places=PRICE_DECIMALS, validators=[MinValueValidator(0)], **options
    )


# Of a price: what may change with time, and what it is a price of.
AMOUNTS = ("input", "output", "cache_read", "cache_write", "reasoning", "request")
SUBJECT = ("provider", "host", "model", "above_input_tokens")


class ModelPrice(models.Model):
    """What some models cost somewhere from one moment until another; a price that changes is a new row."""

    provider = models.ForeignKey(
        Provider, on_delete=models.CASCADE, null=True, blank=True, related_name="prices", help_text="Empty: any."
    )
    host = models.CharField(
        max_length=255,
        blank=True,
        default="",
        validators=[check_pattern],
        help_text="Of the URL; empty: any.",
    )
    model = SearchedField(max_length=200, validators=[check_pattern])
    above_input_tokens = models.PositiveBigIntegerField(default=0, help_text="For requests with more input than this.")
    currency = models.CharField(max_length=3, validators=[RegexValidator(r"^[A-Z]{3}\Z", "Three capitals, like USD.")])
    input = _amount()
    output = _amount()
    cache_read = _amount(null=True, blank=True, help_text="Empty: as input.")
    cache_write = _amount(null=True, blank=True, help_text="Empty: as input.")
    reasoning = _amount(null=True, blank=True, help_text="Empty: as output.")
    request = models.DecimalField(
        max_digits=18, decimal_places=MONEY_DECIMALS, default=0, validators=[MinValueValidator(0)]
    )
    valid_from = models.DateTimeField(default=timezone.now)
    valid_until = models.DateTimeField(null=True, blank=True, help_text="Empty: until further notice.")
    source = models.CharField(max_length=10, choices=PriceSource, default=PriceSource.EDITED)

    objects = ModelPriceQuerySet.as_manager()

    class Meta:
        verbose_name = "price"
        ordering = ["id"]
        constraints = [
            *(
                models.UniqueConstraint(
                    fields=[name for name in SUBJECT if name != without],
                    condition=Q(valid_until=None, provider__isnull=without == "provider"),
                    name=f"one_open_price_{ending}",
                    violation_error_code="unique",
                )
                for without, ending in (("", "at_a_provider"), ("provider", "anywhere"))
            ),
            models.CheckConstraint(
                condition=Q(valid_until=None) | Q(valid_until__gt=F("valid_from")), name="price_ends_after_it_begins"
            ),
            models.CheckConstraint(condition=~Q(model=""), name="price_has_a_model"),
            models.CheckConstraint(
                condition=Q(provider=None) | Q(host=""),
                name="price_is_of_a_provider_or_a_host",
                violation_error_message="A price is for a provider or for a host, not for both.",
            ),
            *(
                models.CheckConstraint(
                    condition=Q(**{f"{name}__gte": 0}) | Q(**{f"{name}__isnull": True}),
                    name=f"price_{name}_is_not_negative",
                )
                for name in AMOUNTS
            ),
        ]
        indexes = [models.Index(fields=["valid_until"], name="prices_by_end")]

    def __str__(self) -> str:
        return f"{self.model}: {self.input.normalize():f} in, {self.output.normalize():f} out, {self.currency}"

    @property
    def price(self) -> Price:
        """It as calculations take it."""
        amounts = {name: getattr(self, name) for name in AMOUNTS}
        return Price(self.currency, above_input_tokens=self.above_input_tokens, **amounts)

    @property
    def offer(self) -> Offer:
        """It with whom it is for and when."""
        until = self.valid_until.timestamp() if self.valid_until else inf
        return Offer(self.price, self.model, self.provider_id, self.host, self.valid_from.timestamp(), until)

    def holds(self, at: datetime) -> bool:
        """Whether it is the price at this moment."""
        return self.valid_from <= at and (self.valid_until is None or at < self.valid_until)
