"""The columns of this app's tables: their bounds, and what they refuse."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from gateway_project.database.names import is_clear, require_clear
from providers.pricing.prices import PRICE_DECIMALS

LEAST_SECONDS = 0.01  # also the bound of the settings that apply to providers without a value
# The largest values that API and console accept and the tables store.
LONGEST_CREDENTIAL = 20_000
LONGEST_TIMEOUT = 86_400
LEAST_CHECK_SECONDS, LONGEST_CHECK_SECONDS = 10, 86_400
MAX_INTEGER = 2**31 - 1  # 32 bits, although SQLite would take more


def check_provider_name(value: str) -> None:
    """Refuse a name that a reader could not tell from another, or with a slash, which separates provider and model."""
    if "/" in value or not is_clear(value):
        raise ValidationError(
            "A provider's name must not contain a slash or begin or end with a blank, and all its characters must be "
            "visible."
        )


def check_model_name(value: str) -> None:
    require_clear(value, "A model's name")


def check_credential_name(value: str) -> None:
    require_clear(value, "A credential's name")


def check_interval(value: int) -> None:
    """Refuse intervals that are too short or too long; 0 turns the checks off."""
    if value and not LEAST_CHECK_SECONDS <= value <= LONGEST_CHECK_SECONDS:
        raise ValidationError(f"Must be 0, or from {LEAST_CHECK_SECONDS} to {LONGEST_CHECK_SECONDS} seconds.")


def check_positive(value: float) -> None:
    """Refuse values that are not durations: too small, infinite or not a number."""
    if not LEAST_SECONDS <= value < float("inf"):
        raise ValidationError(f"Must be a number of seconds, at least {LEAST_SECONDS}.")


def seconds_field() -> models.FloatField:
    """A provider's own time-out in seconds; null: the default setting applies."""
    return models.FloatField(null=True, blank=True, validators=[check_positive, MaxValueValidator(LONGEST_TIMEOUT)])


def integer_field(*, least: int = 0, **options: Any) -> models.PositiveIntegerField:
    """A whole number of 32 bits on every database."""
    validators = [MinValueValidator(least), MaxValueValidator(MAX_INTEGER)]
    return models.PositiveIntegerField(validators=validators, **options)


class Modality(models.TextChoices):
    """What a model reads or writes."""

    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    FILE = "file"
    EMBEDDING = "embedding"


def check_modalities(value: object) -> None:
    """Refuse everything but a list of modalities without repetitions."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item in Modality.values for item in value):
        raise ValidationError(f"Must be a list of {', '.join(Modality.values)}.")
    if len(set(value)) < len(value):
        raise ValidationError("Must contain each modality once.")


def modalities_field() -> models.JSONField:
    """A list of modalities; null: as the public table says."""
    return models.JSONField(
        null=True, blank=True, validators=[check_modalities], help_text="Empty: as the public table says."
    )


IS_CURRENCY = RegexValidator(r"^[A-Z]{3}\Z", "Must be three capital letters, such as USD.")


def check_pattern(value: str) -> None:
    """Refuse a pattern that could not match: with capitals, blanks or unprintable characters."""
    if value != value.lower() or " " in value or not value.isprintable():
        raise ValidationError("Must be lower case without blanks. * stands for any characters.")


def amount_field(**options: Any) -> models.DecimalField:
    """Money for a million tokens."""
    return models.DecimalField(
        max_digits=12, decimal_places=PRICE_DECIMALS, validators=[MinValueValidator(0)], **options
    )
