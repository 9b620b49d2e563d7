"""Usage: what requests come to by time and dimensions, and the values of tags that it tells apart."""

from django.db import models

from gateway_project.database import columns

# Bounds between which the latencies of requests are counted, in milliseconds: four to a power of ten.
LATENCY_MS = tuple(round(10 ** (quarter / 4)) for quarter in range(23))
LATENCY_COLUMNS = tuple(f"latency_{number}" for number in range(len(LATENCY_MS) + 1))


def _sum() -> models.BigIntegerField:
    """A whole number that was added up; null where there was nothing to add."""
    return models.BigIntegerField(null=True)


def _money() -> models.DecimalField:
    return models.DecimalField(max_digits=38, decimal_places=12, null=True)


class Usage(models.Model):
    """A part of what happened within some time for one set of dimensions (rollups.py); the parts add up.

    Dimensions are plain numbers, as in the log. Groups are those of the user, and tags those of the request, all
    together in one row: a request with two tags counts for each of them.
    """

    hour = models.DateTimeField()  # with which the time begins, UTC
    merged = columns.flag()  # true for the sum of its time and dimensions; later entries add rows that are not merged
    user_id = columns.number()
    group_ids = columns.empty_list()
    key_id = columns.number()
    provider_id = columns.number()
    model = columns.text(200)  # that served
    alias = columns.name()
    tags = columns.empty_mapping()
    currency = columns.text(3)
    requests = _sum()
    completed = _sum()
    denied = _sum()
    client_closed = _sum()
    errors = _sum()
    cache_hits = _sum()
    input_tokens = _sum()  # the tokens that providers worked on; those of cache hits are saved ones
    cache_read_tokens = _sum()
    cache_write_tokens = _sum()
    output_tokens = _sum()
    reasoning_tokens = _sum()
    saved_tokens = _sum()
    estimated_requests = _sum()
    cost = _money()
    estimated_cost = _money()
    saved_cost = _money()  # what stored answers would have cost, as far as they have a price
    unknown_cost_requests = _sum()
    unpriced_requests = _sum()  # those of them that were answered: the model had no price
    unpriced_tokens = _sum()  # those of requests whose cost is unknown
    duration_us = _sum()  # of completed requests, as the latencies are
    first_byte_us = _sum()
    first_bytes = _sum()  # how many of them told when their first byte went out
    attempts = _sum()  # requests that were sent to the provider, also before another one was asked
    failed_attempts = _sum()
    limited = _sum()  # requests that a limit refused, and of all others those for which a provider was asked
    asked = _sum()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}:00 {self.model}"


for _column in LATENCY_COLUMNS:
    Usage.add_to_class(_column, models.IntegerField(null=True))


class UsageHour(Usage):
    """Usage of an hour."""

    class Meta:
        verbose_name_plural = "hours of usage"
        indexes = [models.Index(fields=["merged", "hour"], name="usage_by_hour")]


class UsageDay(Usage):
    """Usage of a day (UTC): the sum of its merged hours, for fast reading of months."""

    class Meta:
        verbose_name_plural = "days of usage"
        indexes = [models.Index(fields=["merged", "hour"], name="usage_by_day")]


class ModelUsageHour(Usage):
    """Usage of an hour by provider, model, alias and currency alone: few rows, however many users there are."""

    class Meta:
        verbose_name_plural = "hours of models"
        indexes = [models.Index(fields=["merged", "hour"], name="model_usage_by_hour")]


class ModelUsageDay(Usage):
    """Usage of a day (UTC) by provider, model, alias and currency alone."""

    class Meta:
        verbose_name_plural = "days of models"
        indexes = [models.Index(fields=["merged", "hour"], name="model_usage_by_day")]


class TagValue(models.Model):
    """A value of a tag that the statistics tell apart from others; tags.py says which do."""

    name = models.CharField(max_length=64)
    value = models.CharField(max_length=256)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "value"], name="one_row_a_value_of_a_tag")]

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
