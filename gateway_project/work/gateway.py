"""The parts of a process that serve work; every stage gets them. `runtime.py` makes them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from gateway_project.background import BackgroundThread, PeriodicTasks
from gateway_project.errors import ValidationError
from gateway_project.server.bodies import MemoryBudget, Read, UploadPlaces, too_slow
from gateway_project.work.cache.flights import Flights
from gateway_project.work.guardrails.remote.asking import RemoteGuardrails
from gateway_project.work.log.pending import PendingEntries
from gateway_project.work.log.refusals import Refusals
from gateway_project.work.ownership.owners import Owners
from gateway_project.work.revocation.acknowledging import Acknowledger
from gateway_project.work.routing.full_providers import FullProviders
from gateway_project.work.routing.mirrors import Mirrors
from gateway_project.work.routing.retry_budget import RetryBudget
from gateway_project.work.routing.signals import Signals
from gateway_project.work.snapshot.follower import Follower
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.state.prompt_shipping import PromptShipping
from gateway_project.work.state.recount import Recounter
from gateway_project.work.state.shared import SharedState
from gateway_project.work.streaming.relay import Relay
from gateway_project.work.streaming.watch import Watcher
from gateway_project.work.tasks.releases import ReleaseFeed
from providers.health.breakers import Breakers
from providers.health.rests import Rests
from providers.transport.calls import Call, End
from providers.transport.transport import Transport
from telemetry.journal.files import Journal, JournalFull
from telemetry.journal.shipping import Shipper
from telemetry.metrics.counters import Metrics
from telemetry.retention.housekeeping import Housekeeper

HEDGE_THREADS = 64  # the second targets that are asked at once


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
    retry_budget: RetryBudget
    recounter: Recounter
    owners: Owners
    journal: Journal
    shipper: Shipper
    prompt_shipping: PromptShipping
    database_tasks: PeriodicTasks
    log_housekeeper: Housekeeper  # a thread of its own: its tasks take long
    release_feed: ReleaseFeed | None  # None if no feed is configured
    metrics: Metrics
    refusals: Refusals
    body_memory: MemoryBudget
    upload_places: UploadPlaces
    # Settings that every request needs: reading Django's settings is a function call each time.
    max_body_bytes: int
    required_fields: Sequence[str]
    client_seconds: float  # for which a client may be silent
    min_body_rate: int  # bytes a second at which a body has to arrive
    total_seconds: float
    mirrors: Mirrors = field(init=False)  # set by the factory, too
    hedge_pool: ThreadPoolExecutor = field(
        init=False, default_factory=lambda: ThreadPoolExecutor(HEDGE_THREADS, "hedge")
    )
    remote_guardrails: RemoteGuardrails = field(init=False, default_factory=RemoteGuardrails)
    pending_entries: PendingEntries = field(init=False, default_factory=PendingEntries)
    signals: Signals = field(init=False, default_factory=Signals)
    housekeeper: PeriodicTasks = field(init=False)  # set by the factory: its tasks need the gateway
    health_checker: BackgroundThread = field(init=False)  # likewise
    issuer_keys: BackgroundThread = field(init=False)  # likewise
    grant_ender: BackgroundThread = field(init=False)  # likewise
    acknowledger: Acknowledger = field(init=False)  # likewise
    what_if_starter: BackgroundThread = field(init=False)  # set by the factory, too

    def start(self) -> None:
        """Load the snapshot and start the threads; the database may be down."""
        self.journal.preallocate()
        self.state.probe()  # so that the other processes know of this one before it serves work
        self.follower.start()
        self.watcher.start()
        self.relay.start()
        self.housekeeper.start()
        self.recounter.start()
        self.owners.start()
        self.shipper.start()
        self.database_tasks.start()
        self.log_housekeeper.start()
        self.health_checker.start()
        self.issuer_keys.start()
        self.grant_ender.start()
        self.what_if_starter.start()
        if self.release_feed is not None:
            self.release_feed.start()

    def read_in_time(self, call: Call, seconds: float, read: Read) -> bytes:
        """What is read of a client in so many seconds.

        Raises ValidationError, which says how fast a body must be, and Interrupted if its credential is revoked.
        """
        try:
            piece = self.watcher.watch_arrival(call, seconds, read)
        except ValidationError:
            if call.end not in (End.BODY, End.REVOKED):
                raise
        if call.end is End.BODY:
            raise too_slow(self.min_body_rate) from None
        if call.end is End.REVOKED:
            call.check()
        return piece

    def end_calls(self) -> None:
        """End every call in flight; their clients get the error that the gateway is stopping."""
        self.watcher.interrupt_all(End.STOPPING)

    def stop(self) -> None:
        """Stop the threads and ship what is left in the journal, as far as the database answers."""
        self.mirrors.stop()
        self.pending_entries.stop()
        self.hedge_pool.shutdown(wait=False, cancel_futures=True)
        self.remote_guardrails.stop()
        self.watcher.stop()
        self.housekeeper.stop()
        self.follower.stop()
        self.log_housekeeper.stop()
        self.health_checker.stop()
        self.issuer_keys.stop()
        self.grant_ender.stop()
        self.what_if_starter.stop()
        if self.release_feed is not None:
            self.release_feed.stop()
        self.database_tasks.stop()
        self.recounter.stop()
        self.owners.stop()
        self.shipper.stop()
        self.state.shipping_requests.leave()

    def note_cached(self, record: bytes) -> None:
        """Log that an answer was cached; the list of cached answers may lack one if the disk is full."""
        try:  # faster than suppress()
            self.journal.append_cache_entry(record)
        except JournalFull:
            pass

    def note_owner(self, record: bytes) -> None:
        """Log whose something is; if the disk is full, it is nobody's once the shared state has forgotten it."""
        try:
            self.journal.append_owner(record)
        except JournalFull:
            pass
