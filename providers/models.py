"""Where work can go: providers, the models they offer and the formats they speak."""

from datetime import datetime
from math import inf

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from gateway_project.database.names import SearchedField
from providers.columns import (
    IS_CURRENCY,
    amount_field,
    check_credential_name,
    check_interval,
    check_modalities,  # noqa: F401  migrations name it here, as the next two
    check_model_name,
    check_pattern,
    check_positive,  # noqa: F401
    check_provider_name,
    integer_field,
    modalities_field,
    seconds_field,
)
from providers.credentials import origin_of
from providers.formats.usage import MONEY_DECIMALS
from providers.health.models import HealthCheck  # noqa: F401 - a table of this app
from providers.pricing.facts import ModelFacts, bundled_facts
from providers.pricing.prices import Offer, Price
from providers.querysets import CredentialQuerySet, ModelPriceQuerySet, ModelQuerySet, ProviderQuerySet

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
    "health_check_seconds",
    "health_check_always",
)
CREDENTIAL_LIMITS = ("requests_per_minute", "tokens_per_minute", "concurrent_requests")
CREDENTIAL_OPTIONS = ("weight", "enabled", *CREDENTIAL_LIMITS)
# What a model may be given beside its name.
MODEL_OPTIONS = ("upstream_name", "context_length", "max_output_tokens", "input_modalities", "output_modalities")
MOST_MODELS = 1000  # in one request for a new provider
MOST_CREDENTIALS = 100  # of one provider, besides its own


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
    """Who shares a stored response. Empty: as GATEWAY_CACHE_SCOPE says; a provider can only narrow that setting."""

    SETTING = "", "Default"
    GLOBAL = "global", "Everybody"
    GROUP = "group", "Users with the same groups"
    USER = "user", "The same user"
    KEY = "key", "The same key"


class UnknownParameters(models.TextChoices):
    """How to treat parameters of a request that the provider's format does not know."""

    REFUSE = "refuse", "Refuse the request"
    DROP = "drop", "Drop them"
    PASS = "pass", "Pass them on"


class Provider(models.Model):
    """One endpoint that serves models, with its credential (encrypted) and its own time-outs and limits."""

    name = SearchedField(max_length=100, validators=[check_provider_name])
    url = models.CharField(max_length=2000)
    auth_method = models.CharField(max_length=20, choices=AuthMethod, default=AuthMethod.BEARER)
    credential = models.TextField(blank=True, default="", editable=False)
    credential_hint = models.CharField(max_length=4, blank=True, default="", editable=False)
    format = models.ForeignKey(ProviderFormat, on_delete=models.PROTECT, related_name="providers")
    enabled = models.BooleanField(default=True)
    priority = integer_field(default=100, help_text="Lower is tried first.")
    weight = integer_field(
        least=1, default=1, help_text="Share of the requests among providers with the same priority."
    )
    cache_scope = models.CharField(max_length=10, choices=CacheScope, blank=True, default=CacheScope.SETTING)
    cache_ttl_seconds = integer_field(null=True, blank=True)
    connect_timeout_seconds = seconds_field()
    first_byte_timeout_seconds = seconds_field()
    idle_timeout_seconds = seconds_field()
    total_timeout_seconds = seconds_field()
    max_response_bytes = models.PositiveBigIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    unknown_parameters = models.CharField(max_length=10, choices=UnknownParameters, default=UnknownParameters.PASS)
    health_check_seconds = models.PositiveIntegerField(
        default=0,
        validators=[check_interval],
        help_text="Seconds between checks of a failing provider, each a tiny request. 0: never.",
    )
    health_check_always = models.BooleanField(default=False, help_text="Check the provider also while it works.")
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
        return mask_of(self)


def _upstream_limit(noun: str) -> models.PositiveIntegerField:
    return integer_field(least=1, null=True, blank=True, help_text=f"The most {noun}. Empty: no limit.")


class ProviderCredential(models.Model):
    """One more credential of a provider (encrypted): another account there, with its share of the requests."""

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="credentials", db_index=False)
    name = SearchedField(max_length=100, validators=[check_credential_name])
    credential = models.TextField(blank=True, default="", editable=False)
    credential_hint = models.CharField(max_length=4, blank=True, default="", editable=False)
    weight = integer_field(
        least=1,
        default=1,
        help_text="Share of the provider's requests. The credential on the provider's page has weight 1.",
    )
    enabled = models.BooleanField(default=True)
    requests_per_minute = _upstream_limit("requests per minute")
    tokens_per_minute = _upstream_limit("tokens per minute")
    concurrent_requests = _upstream_limit("requests at a time")

    objects = CredentialQuerySet.as_manager()

    class Meta:
        verbose_name = "credential"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["provider", "name"], name="one_credential_of_a_name_a_provider"),
            models.CheckConstraint(condition=~models.Q(name=""), name="credential_has_a_name"),
            models.CheckConstraint(condition=models.Q(weight__gte=1), name="credential_weight_is_a_share"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def masked_credential(self) -> str:
        """What anyone may see of it: "…" and its last four characters; empty once a new address has cleared it."""
        return mask_of(self)


def mask_of(row: Provider | ProviderCredential) -> str:
    """The mask of a row's credential; empty without one."""
    return f"{MASK}{row.credential_hint}" if row.credential else ""


class Model(models.Model):
    """A model name that one provider serves. Of what is not set, the public table of models may know it."""

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="models", db_index=False)
    name = SearchedField(max_length=200, validators=[check_model_name])
    upstream_name = SearchedField(
        max_length=200,
        blank=True,
        default="",
        validators=[check_model_name],
        help_text="The model name in requests to the provider. Empty: the name above.",
    )
    context_length = integer_field(
        least=1,
        null=True,
        blank=True,
        help_text="Most tokens of a request and its answer together. Empty: as the public table says.",
    )
    input_modalities = modalities_field()
    output_modalities = modalities_field()
    max_output_tokens = integer_field(
        least=1,
        null=True,
        blank=True,
        help_text="Most tokens of an answer, for providers that require a maximum. Empty: as the public table says.",
    )

    # Who may rename it without the right to change providers; null for models that came with their provider.
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )

    objects = ModelQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["provider", "name"], name="one_model_of_a_name_a_provider"),
            models.CheckConstraint(condition=~models.Q(name=""), name="model_has_a_name"),
            models.CheckConstraint(condition=models.Q(max_output_tokens__gte=1), name="model_answers_something"),
            models.CheckConstraint(condition=models.Q(context_length__gte=1), name="model_reads_something"),
        ]
        indexes = [models.Index(fields=["name"], name="models_by_name")]

    def __str__(self) -> str:
        return self.name

    @property
    def name_at_provider(self) -> str:
        """What the provider is asked for."""
        return self.upstream_name or self.name

    @property
    def facts(self) -> ModelFacts:
        """What is known of it: what was set here, else what the public table says of the provider's name."""
        public = bundled_facts(self.name_at_provider)
        return ModelFacts(
            self.context_length or public.context_length,
            self.max_output_tokens or public.max_output_tokens,
            public.input_modalities if self.input_modalities is None else tuple(self.input_modalities),
            public.output_modalities if self.output_modalities is None else tuple(self.output_modalities),
        )


class PriceSource(models.TextChoices):
    """Where a price comes from."""

    BUNDLED = "bundled", "Public prices that come with the gateway"
    SYNCED = "synced", "A loaded file"
    EDITED = "edited", "Edited here"


# The columns of a price that may change with time, and those that say what it is the price of.
AMOUNTS = ("input", "output", "cache_read", "cache_write", "cache_write_hour", "reasoning", "request")
SUBJECT = ("provider", "host", "model", "above_input_tokens")


class ModelPrice(models.Model):
    """The price of some models at a provider, at a host or anywhere, for a period. A changed price is a new row."""

    provider = models.ForeignKey(
        Provider, on_delete=models.CASCADE, null=True, blank=True, related_name="prices", help_text="Empty: any."
    )
    host = models.CharField(
        max_length=255,
        blank=True,
        default="",
        validators=[check_pattern],
        help_text="Host of the provider's URL. Empty: any.",
    )
    model = SearchedField(max_length=200, validators=[check_pattern])
    above_input_tokens = models.PositiveBigIntegerField(
        default=0, help_text="The price applies to requests with more input tokens than this."
    )
    currency = models.CharField(max_length=3, validators=[IS_CURRENCY])
    input = amount_field()
    output = amount_field()
    cache_read = amount_field(null=True, blank=True, help_text="Empty: the price of input.")
    cache_write = amount_field(null=True, blank=True, help_text="Empty: the price of input.")
    cache_write_hour = amount_field(
        null=True, blank=True, help_text="Empty: the price of other writing into the cache."
    )
    reasoning = amount_field(null=True, blank=True, help_text="Empty: the price of output.")
    request = models.DecimalField(
        max_digits=18, decimal_places=MONEY_DECIMALS, default=0, validators=[MinValueValidator(0)]
    )
    valid_from = models.DateTimeField(default=timezone.now)
    valid_until = models.DateTimeField(null=True, blank=True, help_text="Empty: no end.")
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
        """The price with its model, its provider and its time."""
        until = self.valid_until.timestamp() if self.valid_until else inf
        since, is_public = self.valid_from.timestamp(), self.source != PriceSource.EDITED
        return Offer(self.price, self.model, self.provider_id, self.host, since, until, is_public)

    def holds(self, at: datetime) -> bool:
        """Whether it is the price at this moment."""
        return self.valid_from <= at and (self.valid_until is None or at < self.valid_until)
