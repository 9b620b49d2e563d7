"""The figures of the page as cards, and the tables of those with the most, with links to what they are about."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from django.urls import reverse

from gateway_project.console.dashboard.attention import ModelWithoutPrice, unpriced_since
from gateway_project.console.dashboard.links import list_of, log_of, usage_of
from gateway_project.console.display.money import amounts, in_words, missing_costs, short_count
from gateway_project.console.notices import Link
from gateway_project.console.period import Period, row_page
from gateway_project.json_types import JsonObject
from licensing import services as licensing
from providers.console.currency import usual_currency
from providers.console.model_links import model_page, price_form
from telemetry.log_page.result_filter import DENIED, ERRORS
from telemetry.models import CacheStatus
from telemetry.statistics_page.form import CHARTS
from telemetry.usage.dashboard_sums import TopRow

WORK, HEALTH = ("Requests", "Tokens", "Cost"), ("Attempts", "Failed", "p50, p95", "Cost")  # headings


class Card(NamedTuple):
    """One figure of the page and the page that has more of it, with a note that may be a link."""

    title: str
    text: str
    page: str = ""
    note: str = ""
    address: str = ""
    more: str = ""  # another note, without a link


# The lines of a cell of such a table; a line without an address is no link.
Lines = Sequence[Link]
TableRow = tuple[Link, Sequence[Lines]]


class Top(NamedTuple):
    """A table of those with the most: each row is what it names, with its page, and its figures."""

    title: str
    headings: Sequence[str]
    rows: Sequence[TableRow]


def cards_of(totals: JsonObject, period: Period) -> list[Card]:
    """The figures; the cost says what it does not contain."""
    requests = totals["requests"] or 1
    terms, uses = licensing.current_terms(), licensing.statistics(1)["currentUses"]
    denied = log_of(period, result=DENIED)
    by_day = {name: usage_of(period, by="day", chart=name) for name in CHARTS}
    cached = log_of(period, cache_status__exact=CacheStatus.HIT)
    active = f"of {terms.max_active_uses:,}" if terms.max_active_uses else "unlimited"
    return [
        Card("Requests", f"{totals['requests']:,}", by_day["requests"], f"{totals['denied']:,} denied", denied),
        Card("Errors", f"{totals['errors']:,}", by_day["errors"], _share(totals["errors"], requests),
             log_of(period, result=ERRORS)),
        Card("Tokens", short_count(totals["tokens"]), by_day["output_tokens"],
             in_words("{} output tokens", short_count(totals["output_tokens"]))),
        Card("Cost", _money(totals["cost"]), by_day["cost"], *_missing_of(totals, period)),
        Card("From the cache", f"{totals['cache_hits']:,}", cached,
             f"{_share(totals['cache_hits'], requests)} of requests"),
        Card("Cache savings", _money(totals["saved"]), by_day["saved_tokens"],
             in_words("{} tokens", short_count(totals["saved_tokens"]))),
        Card("Latency", _latency(totals["p50"]), by_day["p50_ms"], f"p95 {_latency(totals['p95'])}", by_day["p95_ms"]),
        Card("Active uses", f"{uses:,}", reverse("admin:licence"), active),
    ]  # fmt: skip


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _missing_of(totals: JsonObject, period: Period) -> tuple[str, str, str]:
    """What the cost does not contain: without a price, where that is set, and of unknown cost."""
    unpriced, unanswered = missing_costs(totals)
    return unpriced, _price_page(period) if unpriced else "", unanswered


def _price_page(period: Period) -> str:
    """The form for a price of the model with the most requests without one in the period, or the list of prices."""
    models = _models_without_price(period)
    return price_form(models[0].name, models[0].provider_id) if models else list_of("providers_modelprice")


def _models_without_price(period: Period) -> list[ModelWithoutPrice]:
    return unpriced_since(period.start) if period.start else []


def tops_of(tops: Mapping[str, list[TopRow]], period: Period) -> list[Top]:
    """The users and models with the most requests, and the providers with the most attempts: how they fare."""
    return [
        Top("Top users", WORK, [_user(row, period) for row in tops["users"]]),
        Top("Top models", WORK, [_model(row, period) for row in tops["models"]]),
        Top("Providers", HEALTH, [_provider(row, period) for row in tops["providers"]]),
    ]


def _user(row: TopRow, period: Period) -> TableRow:
    unpriced = _unpriced_models(period, user=str(row.id))
    return _link("accounts_user", row, period), [*_work(row), _cost(row, unpriced)]


def _model(row: TopRow, period: Period) -> TableRow:
    price_page = _price_page_of(row.id, period) if row.sums["unpriced_requests"] else ""
    return Link(row.name, model_page(row.id, period=period)), [*_work(row), _cost(row, price_page)]


def _price_page_of(name: str, period: Period) -> str:
    """The form for a price of the model, at the provider with the most requests of it without one."""
    provider_ids = (model.provider_id for model in _models_without_price(period) if model.name == name)
    return price_form(name, next(provider_ids, None))


def _provider(row: TopRow, period: Period) -> TableRow:
    unpriced = _unpriced_models(period, provider=str(row.id))
    return _link("providers_provider", row, period), [*_health(row), _cost(row, unpriced)]


def _link(table: str, row: TopRow, period: Period) -> Link:
    return Link(row.name, row_page(table, row.id, period))


def _unpriced_models(period: Period, **whose: str) -> str:
    """The statistics of the models that lack a price, most requests first."""
    return usage_of(period, by="model", sort="-unpriced_requests", **whose)


def _work(row: TopRow) -> list[Lines]:
    return [[Link(f"{row.sums['requests']:,}", "")], [Link(short_count(row.sums["tokens"]), "")]]


def _health(row: TopRow) -> list[Lines]:
    sums = row.sums
    times = f"{_latency(sums['p50'])}, {_latency(sums['p95'])}"
    texts = (f"{sums['attempts']:,}", _share(sums["failed_attempts"], sums["attempts"]), times)
    return [[Link(text, "")] for text in texts]


def _cost(row: TopRow, price_page: str) -> Lines:
    """What it cost; below it what that lacks, with the page that says which models have no price."""
    unpriced, unanswered = missing_costs(row.sums)
    lines = (Link(_money(row.sums["costs"]), ""), Link(unpriced, price_page), Link(unanswered, ""))
    return [line for line in lines if line.title]


def _money(cost: dict[str, Decimal]) -> str:
    return amounts(cost, usual_currency)


def _latency(ms: float | None) -> str:
    return "none" if ms is None else f"{ms:,.{0 if ms >= 10 else 1}f} ms"
