"""What needs attention, each with links to what it is about or to its remedy."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from gateway_project.console.dashboard.figures import FRESH_SECONDS, cached_figures, figures_of, period_of_page
from gateway_project.console.dashboard.links import MAX_SHOWN, first_links, list_of, log_of, search_page
from gateway_project.console.display.names import Name
from gateway_project.console.notices import Link, Notice, notices
from gateway_project.console.period import ANY_TIME, row_page, with_query
from gateway_project.json_types import JsonObject
from gateway_project.wording import plural
from gateway_project.work.routing.provider_health import failing_providers
from gateway_project.work.runtime import gateway
from keys.models import ApiKey
from licensing.models import Limit
from licensing.status import limit_statuses
from providers.console.model_links import model_page, price_form
from providers.health.status import Health
from telemetry import services
from telemetry.journal.shipping import Backlog
from telemetry.log_page.result_filter import ERRORS
from telemetry.usage.dashboard_sums import PERIODS

KEY_DAYS, BEHIND_SECONDS = 7, 30
MANY_ERRORS = 0.05  # of all requests; a client's own mistakes are among them
NEARLY, LIMITS_LOOKED_AT = Decimal("0.9"), 500  # the newest ones: the page reads no more counters


class ModelWithoutPrice(NamedTuple):
    """A model as a provider serves it; the provider has no name if it was deleted meanwhile."""

    name: str
    provider_id: int
    provider_name: str | None

    def __str__(self) -> str:
        return f"{self.provider_name}/{self.name}" if self.provider_name else self.name


def attention() -> list[Notice]:
    """What an administrator should look at: licence, providers, errors, keys, limits, prices, the log."""
    now = timezone.now()
    return [
        *notices(),
        *_about_providers(failing_providers(gateway()), _provider_ids()),
        *_about_errors(figures_of(PERIODS["hour"])),
        *_about_the_log(gateway().shipper.backlog()),
        *_about_the_store(gateway().state.warning),
        *_about_keys(ApiKey.objects.usable(now).filter(expiry__lt=now + timedelta(days=KEY_DAYS))),
        *_about_limits(cached_figures("nearly-used-up", _nearly_used_up, FRESH_SECONDS["day"])),
        *_about_prices(unpriced_since(PERIODS["day"].start(now))),
    ]


def _provider_ids() -> dict[str, int]:
    return {provider.name: provider.id for provider in gateway().snapshot.providers.values()}


def _about_providers(failing: Mapping[str, Health], ids: Mapping[str, int]) -> Iterator[Notice]:
    for name, health in failing.items():
        error = health.last_error
        last = f" Its last error: {error.exception} of {error.model}, {error.at:%H:%M} UTC." if error else ""
        attempts = with_query(list_of("telemetry_logentry"), {"attempted": name})
        models = [Name("model", error.model, model_page(error.model, ids.get(name)))] if error else []
        names = [Name("provider", name, _provider_page(name, ids.get(name))), *models]
        yield Notice("error", f"The provider {name} fails.{last}", [Link("Show its attempts", attempts)], names)


def _provider_page(name: str, row_id: int | None) -> str:
    """The page of the provider, or the list of those with its name if it was deleted meanwhile."""
    return row_page("providers_provider", row_id, ANY_TIME) or search_page("providers_provider", name)


def _about_errors(figures: JsonObject) -> Iterator[Notice]:
    errors, requests = figures["totals"]["errors"], figures["totals"]["requests"]
    if errors > requests * MANY_ERRORS:
        since = f"{figures['since']:%H:%M} UTC"
        text = f"{errors:,} of {plural(requests, 'request')} since {since} failed."
        yield Notice("warning", text, [Link("Show them", log_of(period_of_page(figures), result=ERRORS))])


def _about_the_log(backlog: Backlog) -> Iterator[Notice]:
    if backlog.seconds > BEHIND_SECONDS:
        oldest = f"the oldest for {backlog.seconds:.0f} seconds"
        yield Notice("error", f"{backlog.bytes:,} bytes of log entries wait for the database, {oldest}.", _system())


def _about_the_store(warning: str) -> Iterator[Notice]:
    if warning:
        yield Notice("warning", warning, _system())


def _system() -> list[Link]:
    """The page that shows the journal and the shared store."""
    return [Link("Show the system", reverse("admin:system"))]


def _about_keys(keys: QuerySet[ApiKey]) -> Iterator[Notice]:
    rows = list(keys.order_by("expiry").values_list("name", "pk")[: MAX_SHOWN + 1])
    if rows:
        links = [Link(name, reverse("admin:keys_apikey_change", args=[number])) for name, number in rows]
        text = f"These keys expire within {KEY_DAYS} days:"
        yield Notice("warning", text, first_links(links, list_of("keys_apikey")))


def _nearly_used_up() -> list[Link]:
    """The daily and monthly limits that are used most: subject, limit and percentage."""
    limits = list(Limit.objects.shown().effective().longer_than_a_minute().order_by("-id")[:LIMITS_LOOKED_AT])
    statuses = zip(limits, limit_statuses(limits), strict=True)
    parts = ((limit, status.used / limit.amount) for limit, status in statuses if status.used is not None)
    fullest = sorted(((part, limit) for limit, part in parts if part > NEARLY), key=lambda entry: -entry[0])
    return [_limit_link(limit, part) for part, limit in fullest[: MAX_SHOWN + 1]]


def _limit_link(limit: Limit, part: Decimal) -> Link:
    state = "used up" if part >= 1 else f"{int(100 * part)} %"
    return Link(f"{limit.subject}, {limit} ({state})", reverse("admin:licensing_limit_change", args=[limit.pk]))


def _about_limits(limits: list[Link]) -> Iterator[Notice]:
    if limits:
        links = first_links(limits, list_of("licensing_limit"))
        yield Notice("warning", "These limits are used up, or almost:", links)


def unpriced_models(start: datetime) -> list[ModelWithoutPrice]:
    """Models that were used since then and have no price now, the most requests first."""
    rows = services.list_models_without_price(*services.period(start, None))
    return [ModelWithoutPrice(row["model"], row["provider_id"], row["provider_name"]) for row in rows if row["model"]]


def unpriced_since(start: datetime) -> list[ModelWithoutPrice]:
    """The same, read once for a while."""
    return cached_figures(f"unpriced:{start:%Y-%m-%dT%H}", lambda: unpriced_models(start), FRESH_SECONDS["day"])


def _about_prices(models: Sequence[ModelWithoutPrice]) -> Iterator[Notice]:
    if models:
        offers = Counter(model.name for model in models)
        links = [
            Link(str(model) if offers[model.name] > 1 else model.name, price_form(model.name, model.provider_id))
            for model in models
        ]
        text = "These models were used and have no price. Set a price for"
        yield Notice("warning", text, first_links(links, list_of("providers_modelprice")))
