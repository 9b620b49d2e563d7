"""The parts of a process that serve work: made and started once, passed to every stage."""

import contextlib
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from django.conf import settings

from accounts.sessions import delete_all_expired
from gateway_project.server.bodies import MemoryBudget
from gateway_project.work.cache.flights import Flights
from gateway_project.work.limits.status import statuses_of
from gateway_project.work.routing.full_providers import FullProviders
from gateway_project.work.routing.provider_health import health_of
from gateway_project.work.snapshot.follower import Follower
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.state.recount import Recounter
from gateway_project.work.state.shared import LocalState, SharedState
from gateway_project.work.streaming.relay import Relay
from gateway_project.work.streaming.watch import Watcher
from gateway_project.work.tasks.housekeeping import TICK_SECONDS, housekeeping
from gateway_project.work.tasks.licence_expiry import warn_of_expiry
from gateway_project.work.tasks.licence_uses import peak_recorder, uses_of
from gateway_project.work.tasks.periodic_tasks import PeriodicTask, PeriodicTasks
from gateway_project.work.tasks.releases import UNKNOWN, ReleaseFeed
from licensing.models import Limit
from licensing.services import note_time
from licensing.statistics import Uses
from licensing.status import LimitStatus
from providers.health.breakers import Breakers
from providers.health.rests import Rests
from providers.health.status import Health
from providers.models import Provider
from providers.transport.calls import End
from providers.transport.transport import Transport
from telemetry.journal.files import RESERVE_BYTES, Journal, JournalFull
from telemetry.journal.shipping import Shipper
from telemetry.metrics.counters import Metrics, own_metrics
from telemetry.retention.housekeeping import Housekeeper

PEAKS_EVERY_SECONDS, EXPIRY_EVERY_SECONDS, TIME_EVERY_SECONDS, SESSIONS_EVERY_SECONDS = 5.0, 10.0, 60.0, 300.0


@dataclass(slots=True)
class Gateway:
    """The parts of one process."""

    snapshot: Snapshot
    follower: Follower
    state: SharedState
    flights: Flights
    transport: Transport
    watcher: Watcher
    relay: Relay
    breakers: Breakers
    rests: Rests
    full_providers: FullProviders
    recounter: Recounter
    journal: Journal
    shipper: Shipper
    database_tasks: PeriodicTasks
    log_housekeeper: Housekeeper  # a thread of its own: its tasks take long
    release_feed: ReleaseFeed | None  # None if no feed is configured
    metrics: Metrics
    body_memory: MemoryBudget
    # Settings that every request needs: reading Django's settings is a function call each time.
    max_body_bytes: int
    required_fields: Sequence[str]
    client_seconds: float  # for which a client may be silent
    total_seconds: float
    housekeeper: PeriodicTasks = field(init=False)

    def __post_init__(self) -> None:
        self.housekeeper = PeriodicTasks("housekeeper", housekeeping(self), every=TICK_SECONDS)

    def start(self) -> None:
        """Load the snapshot and start the threads; the database may be down."""
        self.journal.preallocate()
        self.follower.start()
        self.watcher.start()
        self.relay.start()
        self.housekeeper.start()
        self.recounter.start()
        self.shipper.start()
        self.database_tasks.start()
        self.log_housekeeper.start()
        if self.release_feed is not None:
            self.release_feed.start()

    def end_calls(self) -> None:
        """End every call in flight; their clients get the error that the gateway is stopping."""
        self.watcher.interrupt_all(End.STOPPING)

    def stop(self) -> None:
        """Stop the threads and ship what is left in the journal, as far as the database answers."""
        self.watcher.stop()
        self.housekeeper.stop()
        self.follower.stop()
        self.log_housekeeper.stop()
        if self.release_feed is not None:
            self.release_feed.stop()
        self.database_tasks.stop()
        self.recounter.stop()
        self.shipper.stop()

    def note_cached(self, record: bytes) -> None:
        """Log that an answer was cached; the list of cached answers may lack one if the disk is full."""
        with contextlib.suppress(JournalFull):
            self.journal.append_cache_entry(record)


_gateway: Gateway | None = None
_lock = threading.Lock()


def gateway() -> Gateway:
    """The gateway of this process, made and started by the first call."""
    global _gateway
    if _gateway is None:
        with _lock:
            if _gateway is None:
                made = _make()
                made.start()
                _gateway = made
    return _gateway


def running() -> Gateway | None:
    """The gateway of this process, if it has been started."""
    return _gateway


def stop() -> None:
    """Stop the gateway of this process, if it has been started; the next call of gateway() makes a new one."""
    global _gateway
    with _lock:
        stopped, _gateway = _gateway, None
    if stopped is not None:
        stopped.stop()


def forget_answers(keys: Collection[str]) -> bool:
    """Delete these cached answers; False if that is not certain. A hook of telemetry."""
    state = _state() if _gateway is None else _gateway.state
    return state.forget_answers(keys)


def active_uses() -> Uses:
    """The active uses of all processes. A hook of licensing."""
    return uses_of(_state() if _gateway is None else _gateway.state)


def limit_statuses(limits: Sequence[Limit]) -> list[LimitStatus]:
    """The status of limits, over all processes. A hook of licensing."""
    return statuses_of(_state() if _gateway is None else _gateway.state, limits)


def provider_health(providers: Sequence[Provider]) -> list[Health]:
    """The health of providers in all processes of this machine. A hook of providers."""
    return health_of(gateway(), providers)


def update_available() -> str:
    """Whether the release feed names a newer version: `true`, `false` or, also without a feed, `unknown`."""
    feed = _gateway.release_feed if _gateway is not None else None
    return UNKNOWN if feed is None else feed.update_available()


def _make() -> Gateway:
    snapshot = Snapshot()
    # The journal reserves room for the end of every open request; a segment has to hold much more than that.
    segment_bytes = max(settings.GATEWAY_JOURNAL_SEGMENT_BYTES, 4 * RESERVE_BYTES * settings.GATEWAY_THREADS)
    journal = Journal(settings.GATEWAY_JOURNAL_DIR, segment_bytes=segment_bytes)
    state = _state()
    flights = Flights(state)
    transport = Transport(networks=settings.GATEWAY_PROVIDER_NETWORKS, heartbeat_seconds=settings.GATEWAY_HEARTBEAT)
    shipper = Shipper(journal, settings.GATEWAY_JOURNAL_DIR, interval=settings.GATEWAY_LOG_INTERVAL)
    return Gateway(
        snapshot=snapshot,
        follower=Follower(snapshot, interval=settings.GATEWAY_SNAPSHOT_INTERVAL),
        state=state,
        flights=flights,
        transport=transport,
        watcher=Watcher(),
        relay=Relay(heartbeat_seconds=settings.GATEWAY_HEARTBEAT),
        breakers=Breakers(failures=settings.GATEWAY_BREAKER_FAILURES, cooldown=settings.GATEWAY_BREAKER_COOLDOWN),
        rests=Rests(),
        full_providers=FullProviders(),
        recounter=Recounter(state, shipper, interval=settings.GATEWAY_LOG_INTERVAL),
        journal=journal,
        shipper=shipper,
        database_tasks=PeriodicTasks("chores", _database_tasks(state)),
        log_housekeeper=Housekeeper(interval=settings.GATEWAY_HOUSEKEEPING_INTERVAL),
        release_feed=ReleaseFeed(settings.GATEWAY_RELEASE_FEED, transport) if settings.GATEWAY_RELEASE_FEED else None,
        metrics=own_metrics(),
        body_memory=MemoryBudget(max(settings.GATEWAY_MAX_BODIES_BYTES, settings.GATEWAY_MAX_BODY_BYTES)),
        max_body_bytes=settings.GATEWAY_MAX_BODY_BYTES,
        required_fields=settings.GATEWAY_REQUIRED_FIELDS,
        client_seconds=settings.GATEWAY_CLIENT_TIMEOUT,
        total_seconds=settings.GATEWAY_TOTAL_TIMEOUT,
    )


def _database_tasks(state: SharedState) -> tuple[PeriodicTask, ...]:
    """The periodic tasks that use the database; every process runs them."""
    return (
        PeriodicTask(peak_recorder(state), every=PEAKS_EVERY_SECONDS, at_end=True),
        PeriodicTask(warn_of_expiry, every=EXPIRY_EVERY_SECONDS),
        PeriodicTask(note_time, every=TIME_EVERY_SECONDS),
        PeriodicTask(delete_all_expired, every=SESSIONS_EVERY_SECONDS),
    )


def _state() -> SharedState:
    if not settings.REDIS_URL:
        return LocalState(cache_bytes=settings.GATEWAY_CACHE_MAX_BYTES)
    from gateway_project.work.state.process_count import ProcessCount
    from gateway_project.work.state.redis.state import RedisState

    return RedisState(
        prefix=settings.GATEWAY_REDIS_PREFIX,
        processes=ProcessCount(local=settings.WEB_CONCURRENCY, fixed=settings.GATEWAY_PROCESSES),
        connections=settings.GATEWAY_REDIS_CONNECTIONS,
        timeout=settings.GATEWAY_REDIS_TIMEOUT,
    )
