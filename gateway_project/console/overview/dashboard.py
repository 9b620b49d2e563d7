"""The console's first page: how the gateway is used, and what needs attention."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode

from django.core.cache import caches
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from gateway_project.console.display import charts
from gateway_project.console.display.money import Figure, joined, money, short, without_price
from gateway_project.console.notices import Notice, notices
from gateway_project.console.overview.checklist import first_steps
from gateway_project.json_types import JsonObject
from gateway_project.work.routing.provider_health import failing_providers
from gateway_project.work.runtime import gateway
from keys.models import ApiKey
from licensing import services as licensing
from licensing.models import Limit
from licensing.status import limit_statuses
from providers.console.price_links import price_form
from providers.health.status import Health
from telemetry import services
from telemetry.journal.shipping import Backlog
from telemetry.models import Outcome
from telemetry.usage.overview import PERIODS, Period, overview

# How long figures are cached, by period: a month takes too long to add up for every page.
FRESH_SECONDS = {"hour": 5, "day": 20, "month": 60}
KEY_DAYS, BEHIND_SECONDS, SHOWN = 7, 30, 5
MANY_ERRORS = 0.05  # of all requests; a client's own mistakes are among them
NEARLY, LIMITS_LOOKED_AT = Decimal("0.9"), 500  # the newest ones: the page reads no more counters

Figures = TypeVar("Figures")


class Card(NamedTuple):
    """One figure of the page, with a note that may be a link."""

    title: str
    text: str
    note: str = ""
    address: str = ""


def fill(request: HttpRequest, context: JsonObject) -> JsonObject:
    """What the first page shows; unfold calls it (UNFOLD["DASHBOARD_CALLBACK"])."""
    period = PERIODS.get(request.GET.get("period", ""), PERIODS["day"])
    figures = _figures(period)
    series = figures["series"]
    return {
        **context,
        "attention": attention(),
        "steps": first_steps(),
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
    """What an administrator should look at: licence, providers, errors, keys, limits, prices, the log."""
    now = timezone.now()
    return [
        *notices(),
        *_about_providers(failing_providers(gateway())),
        *_about_errors(_figures(PERIODS["hour"])),
        *_about_the_log(gateway().shipper.backlog()),
        *_about_the_store(gateway().state.warning),
        *_about_keys(ApiKey.objects.usable(now).filter(expiry__lt=now + timedelta(days=KEY_DAYS))),
        *_about_limits(_cached("nearly-used-up", _nearly_used_up, FRESH_SECONDS["day"])),
        *_about_prices(_cached("unpriced", unpriced, FRESH_SECONDS["day"])),
    ]


def _about_providers(failing: Mapping[str, Health]) -> Iterator[Notice]:
    for name, health in failing.items():
        error = health.last_error
        last = f" Its last error: {error.exception} of {error.model}, {error.at:%H:%M} UTC." if error else ""
        text = f"The provider {name} fails.{last}"
        yield Notice("error", text, "Open it", _searched("providers_provider", name))


def _about_errors(figures: JsonObject) -> Iterator[Notice]:
    errors, requests = figures["totals"]["errors"], figures["totals"]["requests"]
    if errors > requests * MANY_ERRORS:
        since = f"{figures['since']:%H:%M} UTC"
        text = f"{errors:,} of {requests:,} requests since {since} failed. The log shows them."
        yield Notice("warning", text, "Show them", f"{_list_of('telemetry_logentry')}?outcome__exact={Outcome.FAILED}")


def _about_the_log(backlog: Backlog) -> Iterator[Notice]:
    if backlog.seconds > BEHIND_SECONDS:
        oldest = f"the oldest for {backlog.seconds:.0f} seconds"
        yield Notice("error", f"{backlog.bytes:,} bytes of log entries wait for the database, {oldest}.")


def _about_the_store(warning: str) -> Iterator[Notice]:
    if warning:
        yield Notice("warning", warning)


def _about_keys(keys: QuerySet[ApiKey]) -> Iterator[Notice]:
    names = list(keys.order_by("expiry").values_list("name", flat=True)[: SHOWN + 1])
    if names:
        text = f"These keys expire within {KEY_DAYS} days: {_listed(names)}."
        yield Notice("warning", text, "Open the first", _searched("keys_apikey", names[0]))


def _nearly_used_up() -> list[str]:
    """The daily and monthly limits that are used most: subject, limit and percentage."""
    limits = list(Limit.objects.shown().effective().longer_than_a_minute().order_by("-id")[:LIMITS_LOOKED_AT])
    statuses = zip(limits, limit_statuses(limits), strict=True)
    parts = ((limit, status.used / limit.amount) for limit, status in statuses if status.used is not None)
    fullest = sorted(((part, limit) for limit, part in parts if part > NEARLY), key=lambda entry: -entry[0])
    return [
        f"{limit.subject}, {limit} ({'used up' if part >= 1 else f'{int(100 * part)} %'})"
        for part, limit in fullest[: SHOWN + 1]
    ]


def _about_limits(limits: list[str]) -> Iterator[Notice]:
    if limits:
        text = f"These limits are almost used up: {_listed(limits)}."
        yield Notice("warning", text, "Open the limits", _list_of("licensing_limit"))


def unpriced() -> list[str]:
    """Models that were used within a day and have no price now."""
    rows = services.unpriced(*services.period(timezone.now() - timedelta(days=1), None))
    return sorted({row["model"] for row in rows if row["model"]})


def _about_prices(models: list[str]) -> Iterator[Notice]:
    if models:
        text = f"These models were used and have no price: {_listed(models)}."
        yield Notice("warning", text, f"Set a price for {models[0]}", price_form(models[0]))


def _list_of(table: str) -> str:
    return reverse(f"admin:{table}_changelist")


def _searched(table: str, name: str) -> str:
    return f"{_list_of(table)}?{urlencode({'q': name})}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and others" if len(names) > SHOWN else "")


def _figures(period: Period) -> JsonObject:
    return _cached(f"overview:{period.name}", lambda: overview(period), FRESH_SECONDS[period.name])


def _cached(name: str, calculate: Callable[[], Figures], seconds: int) -> Figures:
    figures = caches["process"].get_or_set(name, calculate, seconds)
    assert figures is not None, "nothing that is cached here can be None"
    return figures


def _cards(totals: JsonObject) -> list[Card]:
    """The figures; the cost says what it does not contain."""
    requests = totals["requests"] or 1
    terms, uses = licensing.current(), licensing.statistics(1)["currentUses"]
    unpriced_count = totals["unknown_cost_requests"]
    return [
        Card("Requests", f"{totals['requests']:,}", f"{totals['denied']:,} denied"),
        Card("Errors", f"{totals['errors']:,}", f"{100 * totals['errors'] / requests:.1f} %"),
        Card("Tokens", short(totals["tokens"]), f"{short(totals['output_tokens'])} output tokens"),
        Card("Cost", _money(totals["cost"]), without_price(unpriced_count), _price_page() if unpriced_count else ""),
        Card(
            "From the cache",
            f"{totals['cache_hits']:,}",
            f"{100 * totals['cache_hits'] / requests:.1f} % of requests",
        ),
        Card("Cache savings", _money(totals["saved"]), f"{short(totals['saved_tokens'])} tokens"),
        Card("Latency", _latency(totals["p50"]), f"p95 {_latency(totals['p95'])}"),
        Card("Active uses", f"{uses:,}", f"of {terms.max_active_uses:,}" if terms.max_active_uses else "unlimited"),
    ]


def _price_page() -> str:
    """The form for a price of the first model that has none, or the list of prices."""
    models = _cached("unpriced", unpriced, FRESH_SECONDS["day"])
    return price_form(models[0]) if models else _list_of("providers_modelprice")


def _top(row: tuple[str, int, int]) -> tuple[str, str, Figure]:
    name, requests, tokens = row
    return name, f"{requests:,}", short(tokens)


def _money(cost: dict[str, Decimal]) -> str:
    return joined([money(amount, currency) for currency, amount in cost.items()]) or "0"


def _latency(ms: float | None) -> str:
    return "none" if ms is None else f"{ms:,.{0 if ms >= 10 else 1}f} ms"
