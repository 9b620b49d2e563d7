"""Makes the gateway of a process and starts it once."""

import threading
from collections.abc import Collection, Sequence
from functools import partial

from django.conf import settings

from accounts.refusals.failed_logins import WINDOW_SECONDS, failed_logins
from accounts.sessions import delete_all_expired
from accounts.sso.protocol.metadata import refresh_known_providers
from gateway_project.background import PeriodicTask, PeriodicTasks
from gateway_project.change_feed.cuts import Credential
from gateway_project.revocation.receipts import InForce
from gateway_project.server.bodies import OWNERS_SHARE, SLOW_SHARE, MemoryBudget, UploadPlaces
from gateway_project.work.cache.flights import Flights
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.status import statuses_of
from gateway_project.work.log.entry import write_refusal_counts
from gateway_project.work.log.refusals import Refusals
from gateway_project.work.mirroring import serve_mirrored
from gateway_project.work.ownership.owners import Owners
from gateway_project.work.revocation.acknowledging import Acknowledger
from gateway_project.work.revocation.waiting import wait_until_in_force
from gateway_project.work.routing.alias_preview import preview_alias
from gateway_project.work.routing.full_providers import FullProviders
from gateway_project.work.routing.mirrors import Mirrors
from gateway_project.work.routing.provider_health import health_of
from gateway_project.work.routing.retry_budget import RetryBudget
from gateway_project.work.snapshot.follower import Follower
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.state.prompt_shipping import PromptShipping, wait_for_reports
from gateway_project.work.state.recount import Recounter
from gateway_project.work.state.shared import LocalState, SharedState
from gateway_project.work.streaming.relay import Relay
from gateway_project.work.streaming.watch import Watcher
from gateway_project.work.tasks.grant_ends import GrantEnder
from gateway_project.work.tasks.health_checks import HealthChecker
from gateway_project.work.tasks.issuer_keys import IssuerKeys
from gateway_project.work.tasks.licence_expiry import warn_of_expiry
from gateway_project.work.tasks.licence_uses import peak_recorder, uses_of
from gateway_project.work.tasks.process_tasks import TICK_SECONDS, process_tasks
from gateway_project.work.tasks.releases import UNKNOWN, ReleaseFeed
from gateway_project.work.tasks.what_if import WhatIfStarter
from licensing.models import Limit
from licensing.services import note_time
from licensing.statistics import Uses
from licensing.status import LimitStatus
from providers.health.breakers import Breakers
from providers.health.rests import Rests
from providers.health.status import Health
from providers.models import Provider
from providers.transport.transport import Transport
from rules.aliases.routing import RoutedTarget
from telemetry.journal.files import RESERVE_BYTES, Journal
from telemetry.journal.shipping import Shipper
from telemetry.metrics.counters import own_metrics
from telemetry.retention.housekeeping import Housekeeper

PEAKS_EVERY_SECONDS, EXPIRY_EVERY_SECONDS, TIME_EVERY_SECONDS = 5.0, 10.0, 60.0
SIGNING_KEYS_EVERY_SECONDS = 60.0


_gateway: Gateway | None = None
_lock = threading.Lock()


def gateway() -> Gateway:
    """The gateway of this process, made and started by the first call."""
    global _gateway
    if _gateway is None:
        with _lock:
            if _gateway is None:
                new = make_gateway()
                new.start()
                _gateway = new
    return _gateway


def running_gateway() -> Gateway | None:
    """The gateway of this process, if it has been started."""
    return _gateway


def stop_gateway() -> None:
    """Stop the gateway of this process, if it has been started; the next call of gateway() makes a new one."""
    global _gateway
    with _lock:
        stopped, _gateway = _gateway, None
    if stopped is not None:
        write_refusal_counts(stopped, at_once=True)
        stopped.stop()


def forget_cached_answers(keys: Collection[str]) -> bool:
    """Delete these cached answers; False if that is not certain. A hook of telemetry."""
    state = _state() if _gateway is None else _gateway.state
    return state.forget_answers(keys)


def ship_everything() -> bool:
    """Whether the database has all that any process logged before this call; waits for it."""
    if _gateway is None:
        return wait_for_reports(_state().shipping_requests)
    return _gateway.prompt_shipping.ship_everything()


def await_in_force(change: int, credentials: Collection[Credential], seconds: float) -> InForce:
    """Where a change is in force, after at most so many seconds. A hook of revocation."""
    if _gateway is None:
        return wait_until_in_force(_state(), None, change, credentials, seconds)
    return wait_until_in_force(_gateway.state, _gateway.acknowledger, change, credentials, seconds)


def count_active_uses() -> Uses:
    """The active uses of all processes. A hook of licensing."""
    return uses_of(_state() if _gateway is None else _gateway.state)


def read_limit_statuses(limits: Sequence[Limit]) -> list[LimitStatus]:
    """The status of limits, over all processes. A hook of licensing."""
    return statuses_of(_state() if _gateway is None else _gateway.state, limits)


def read_provider_health(providers: Sequence[Provider], with_usage: bool) -> list[Health]:
    """The health of providers in all processes of this machine; unknown where none serves. A hook of providers."""
    parts = running_gateway()
    if parts is None:
        return [Health(row.enabled) for row in providers]
    return health_of(parts, providers, with_usage=with_usage)


def read_alias_routing(alias_id: int) -> list[RoutedTarget] | None:
    """Which target of an alias would serve now, as this process sees it. A hook of rules."""
    return preview_alias(gateway(), alias_id)


def update_available() -> str:
    """Whether the release feed names a newer version: `true`, `false` or, also without a feed, `unknown`."""
    feed = _gateway.release_feed if _gateway is not None else None
    return UNKNOWN if feed is None else feed.update_available()


def make_gateway() -> Gateway:
    """A gateway as the settings say, not started yet."""
    # The journal reserves room for the end of every open request; a segment has to hold much more than that.
    segment_bytes = max(settings.GATEWAY_JOURNAL_SEGMENT_BYTES, 4 * RESERVE_BYTES * settings.GATEWAY_THREADS)
    journal = Journal(settings.GATEWAY_JOURNAL_DIR, segment_bytes=segment_bytes)
    state = _state()
    transport = Transport(networks=settings.GATEWAY_PROVIDER_NETWORKS, heartbeat_seconds=settings.GATEWAY_HEARTBEAT)
    shipper = Shipper(journal, settings.GATEWAY_JOURNAL_DIR, interval=settings.GATEWAY_LOG_INTERVAL)
    prompt_shipping = PromptShipping(state.shipping_requests, shipper)
    follower = Follower(Snapshot(), interval=settings.GATEWAY_SNAPSHOT_INTERVAL)
    parts = Gateway(
        snapshot=follower.snapshot,
        follower=follower,
        state=state,
        flights=Flights(state),
        transport=transport,
        watcher=Watcher(),
        relay=Relay(heartbeat_seconds=settings.GATEWAY_HEARTBEAT),
        breakers=Breakers(failures=settings.GATEWAY_BREAKER_FAILURES, cooldown=settings.GATEWAY_BREAKER_COOLDOWN),
        rests=Rests(),
        full_providers=FullProviders(),
        recounter=Recounter(state, prompt_shipping, interval=settings.GATEWAY_LOG_INTERVAL),
        retry_budget=RetryBudget(settings.GATEWAY_RETRY_PERCENT),
        owners=Owners(state, follower),
        journal=journal,
        shipper=shipper,
        prompt_shipping=prompt_shipping,
        database_tasks=PeriodicTasks("database-tasks", _database_tasks(state)),
        log_housekeeper=Housekeeper(interval=settings.GATEWAY_HOUSEKEEPING_INTERVAL),
        release_feed=ReleaseFeed(settings.GATEWAY_RELEASE_FEED, transport) if settings.GATEWAY_RELEASE_FEED else None,
        metrics=own_metrics(),
        refusals=Refusals(settings.GATEWAY_REFUSAL_ENTRIES),
        body_memory=_body_memory(),
        upload_places=UploadPlaces(max(2, settings.GATEWAY_THREADS // SLOW_SHARE // OWNERS_SHARE)),
        max_body_bytes=settings.GATEWAY_MAX_BODY_BYTES,
        required_fields=settings.GATEWAY_REQUIRED_FIELDS,
        client_seconds=settings.GATEWAY_CLIENT_TIMEOUT,
        min_body_rate=settings.GATEWAY_MIN_BODY_RATE,
        total_seconds=settings.GATEWAY_TOTAL_TIMEOUT,
    )
    _add_threads(parts)
    return parts


def _add_threads(parts: Gateway) -> None:
    """Add the threads that need the whole gateway, or other parts of it."""
    parts.follower.cut = parts.watcher.cut_calls
    parts.acknowledger = Acknowledger(parts.state.acknowledgements, parts.follower, parts.watcher.cuts)
    parts.health_checker = HealthChecker(parts)
    parts.issuer_keys = IssuerKeys(parts)
    parts.grant_ender = GrantEnder(parts.snapshot)
    parts.what_if_starter = WhatIfStarter()
    parts.housekeeper = PeriodicTasks("housekeeper", process_tasks(parts), every=TICK_SECONDS)
    parts.mirrors = Mirrors(partial(serve_mirrored, gateway=parts))


def _body_memory() -> MemoryBudget:
    largest = settings.GATEWAY_MAX_BODY_BYTES
    total = max(settings.GATEWAY_MAX_BODIES_BYTES, largest)
    return MemoryBudget(total, max(total // OWNERS_SHARE, largest))


def _database_tasks(state: SharedState) -> tuple[PeriodicTask, ...]:
    """The periodic tasks that use the database; every process runs them."""
    return (
        PeriodicTask(peak_recorder(state), every=PEAKS_EVERY_SECONDS, at_end=True),
        PeriodicTask(warn_of_expiry, every=EXPIRY_EVERY_SECONDS),
        PeriodicTask(note_time, every=TIME_EVERY_SECONDS),
        PeriodicTask(failed_logins.write_counts, every=WINDOW_SECONDS, at_end=True),
        PeriodicTask(delete_all_expired, every=settings.GATEWAY_HOUSEKEEPING_INTERVAL),
        PeriodicTask(refresh_known_providers, every=SIGNING_KEYS_EVERY_SECONDS),
    )


def _state() -> SharedState:
    if not settings.REDIS_URL:
        return LocalState(cache_bytes=settings.GATEWAY_CACHE_MAX_BYTES)
    from gateway_project.work.state.process_count import ProcessCount
    from gateway_project.work.state.redis.state import RedisState

    return RedisState(
        prefix=settings.GATEWAY_REDIS_PREFIX,
        secret=settings.SECRET_KEY,
        processes=ProcessCount(local=settings.WEB_CONCURRENCY, fixed=settings.GATEWAY_PROCESSES),
        connections=settings.GATEWAY_REDIS_CONNECTIONS,
        timeout=settings.GATEWAY_REDIS_TIMEOUT,
    )
