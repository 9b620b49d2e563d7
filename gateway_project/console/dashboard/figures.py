"""The figures of the page: read again after 5 to 60 seconds, however many people open it."""

from collections.abc import Callable
from datetime import UTC
from typing import TypeVar

from django.core.cache import caches
from django.utils import timezone

from gateway_project.console.period import Period
from gateway_project.json_types import JsonObject
from telemetry.usage.dashboard_sums import PeriodChoice, dashboard_sums

# How long figures are cached, by period: a month takes too long to add up for every page.
FRESH_SECONDS = {"hour": 5, "day": 20, "month": 60}
Figures = TypeVar("Figures")


def figures_of(period: PeriodChoice) -> JsonObject:
    return cached_figures(f"overview:{period.name}", lambda: dashboard_sums(period), FRESH_SECONDS[period.name])


def cached_figures(name: str, calculate: Callable[[], Figures], seconds: int) -> Figures:
    figures = caches["process"].get_or_set(name, calculate, seconds)
    assert figures is not None, "nothing that is cached here can be None"
    return figures


def period_of_page(figures: JsonObject) -> Period:
    """From the beginning of the figures until now."""
    return Period(figures["since"].astimezone(UTC), timezone.now().astimezone(UTC))
