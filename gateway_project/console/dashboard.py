"""The console's first page: how the gateway is used, and what needs attention."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.core.cache import caches
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from gateway_project.console import charts
from gateway_project.console.money import money
from gateway_project.console.notices import Notice, notices
from gateway_project.work.routing.provider_health import resting_providers
from gateway_project.work.runtime import gateway
from keys.models import ApiKey
from licensing import services as licensing
from licensing.models import Limit
from licensing.status import limit_statuses
from telemetry import services
from telemetry.usage.overview import PERIODS, Period, overview

# So long figures are shown again: whoever reloads a page must not add a month up each time.
FRESH_SECONDS = {"hour": 5, "day": 20, "month": 60}
KEY_DAYS, BEHIND_SECONDS, SHOWN = 7, 30, 5
MANY_ERRORS = 0.05  # of all requests; a client's own mistakes are among them
NEARLY, LIMITS_LOOKED_AT = Decimal("0.9"), 500  # the newest: a page asks for no more counters than that


def fill(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """What the first page shows; unfold asks for it (UNFOLD["DASHBOARD_CALLBACK"])."""
    period = PERIODS.get(request.GET.get("period", ""), PERIODS["day"])
    figures = _figures(period)
    series = figures["series"]
    return {
        **context,
        "attention": attention(),
        "periods": PERIODS.values(),
        "period": period,
        "figures": figures,
        "cards": _cards(figures["totals"]),
        "requests_chart": charts.lines(series["labels"], {"Requests": series["requests"], "Errors": series["errors"]}),
        "legend": charts.legend(("Requests", "Errors")),
        "tokens_chart": charts.bars(series["labels"], {"Tokens": series["tokens"]}),
        "tops": [(f"Top {what}", list(map(_top, rows))) for what, rows in figures["top"].items()],
    }


def attention() -> list[Notice]:
    """What an administrator should look at: licence, providers, errors, keys, prices, the log's way to the database."""
    now = timezone.now()
    return [
        *notices(),
        *(Notice("error", f"The provider {name} is failing and is paused.") for name in resting_providers(gateway())),
        *_about_errors(_figures(PERIODS["hour"])),
        *_about_the_log(gateway().shipper.backlog()),
        *_about_the_store(gateway().state.warning),
        *_about_keys(ApiKey.objects.usable(now).filter(expiry__lt=now + timedelta(days=KEY_DAYS))),
        *_about_limits(caches["process"].get_or_set("nearly-used-up", _nearly_used_up, FRESH_SECONDS["day"])),
        *_about_prices(caches["process"].get_or_set("unpriced", unpriced, FRESH_SECONDS["day"])),
    ]


def _about_errors(figures: dict[str, Any]) -> Iterator[Notice]:
    errors, requests = figures["totals"]["errors"], figures["totals"]["requests"]
    if errors > requests * MANY_ERRORS:
        since = f"{figures['since']:%H:%M} UTC"
        yield Notice("warning", f"{errors:,} of {requests:,} requests since {since} failed: see the log.")


def _about_the_log(backlog: Any) -> Iterator[Notice]:
    if backlog.seconds > BEHIND_SECONDS:
        yield Notice(
            "error", f"The log waits for the database: {backlog.bytes:,} bytes, {backlog.seconds:.0f} seconds."
        )


def _about_the_store(warning: str) -> Iterator[Notice]:
    if warning:
        yield Notice("warning", warning)


def _about_keys(keys: QuerySet[ApiKey]) -> Iterator[Notice]:
    names = list(keys.order_by("expiry").values_list("name", flat=True)[: SHOWN + 1])
    if names:
        yield Notice("warning", f"Keys that expire within {KEY_DAYS} days: {_listed(names)}.")


def _nearly_used_up() -> list[str]:
    """Limits of a day or a month of which most is used: whose, of what, and how much of it."""
    limits = list(Limit.objects.shown().effective().longer_than_a_minute().order_by("-id")[:LIMITS_LOOKED_AT])
    statuses = zip(limits, limit_statuses(limits), strict=True)
    parts = ((limit, status.used / limit.amount) for limit, status in statuses if status.used is not None)
    fullest = sorted((known for known in parts if known[1] > NEARLY), key=lambda known: -known[1])
    return [f"{limit.subject}, {limit} ({100 * part:.0f} %)" for limit, part in fullest[: SHOWN + 1]]


def _about_limits(limits: list[str]) -> Iterator[Notice]:
    if limits:
        yield Notice("warning", f"Limits that are almost used up: {_listed(limits)}.")


def unpriced() -> list[str]:
    """Models that were used within a day and have no price now; a call that broke has an unknown cost at any price."""
    rows = services.unpriced(*services.period(timezone.now() - timedelta(days=1), None))
    return sorted({row["model"] for row in rows if row["model"]})


def _about_prices(models: list[str]) -> Iterator[Notice]:
    if models:
        yield Notice("warning", f"Models with traffic but without a price: {_listed(models)}.")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and others" if len(names) > SHOWN else "")


def _figures(period: Period) -> dict[str, Any]:
    kept = caches["process"]
    return kept.get_or_set(f"overview:{period.name}", lambda: overview(period), FRESH_SECONDS[period.name])


def _cards(totals: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and a note of each figure."""
    asked = totals["requests"] or 1
    terms, uses = licensing.current(), licensing.statistics(1)["currentUses"]
    return [
        ("Requests", f"{totals['requests']:,}", f"{totals['denied']:,} denied"),
        ("Errors", f"{totals['errors']:,}", f"{100 * totals['errors'] / asked:.1f} %"),
        ("Tokens", f"{totals['tokens']:,}", f"{totals['output_tokens']:,} of them out"),
        ("Cost", _money(totals["cost"]), ""),
        ("From the cache", f"{totals['cache_hits']:,}", f"{100 * totals['cache_hits'] / asked:.1f} % of all"),
        ("Cache savings", _money(totals["saved"]), f"{totals['saved_tokens']:,} tokens"),
        ("Latency", _latency(totals["p50"]), f"p95 {_latency(totals['p95'])}"),
        ("Active uses", f"{uses:,}", f"of {terms.max_active_uses:,}" if terms.max_active_uses else "unlimited"),
    ]


def _top(row: tuple[str, int, int]) -> tuple[str, str, str]:
    name, requests, tokens = row
    return name, f"{requests:,}", f"{tokens:,}"


def _money(cost: dict[str, Decimal]) -> str:
    return ", ".join(money(amount, currency) for currency, amount in cost.items()) or "0"


def _latency(ms: float | None) -> str:
    return "none" if ms is None else f"{ms:,.{0 if ms >= 10 else 1}f} ms"
