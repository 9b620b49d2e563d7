"""The metrics of work: queued by requests without a lock, aggregated in the background, exposed by any process.

A request only appends to a queue. A process with a slot (slots.py) publishes its sums there every second; the process
that is scraped gathers those of all.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter
from typing import Any, TypedDict

import orjson

from gateway_project.background import in_slices
from gateway_project.errors import LIMIT_ERROR_NAMES
from gateway_project.json_types import JsonObject
from telemetry.attempts import LoggedAttempt, Timing
from telemetry.metrics import slots
from telemetry.metrics.attempts import AttemptBook, AttemptFailure, AttemptStart, AttemptSuccess, Pair
from telemetry.metrics.slots import Slots
from telemetry.metrics.sums import OTHER, Labels, Sums, SumsAsJson

log = logging.getLogger("gateway.metrics")

# prometheus_client's multi-process mode costs a request 8.8 µs for two series (this queue: 0.6 µs), does not limit the
# number of series, and keeps a file for each process that ever ran.
TOKENS = ("input", "cache_read", "cache_write", "output", "reasoning")
# The values of an entry that wait in the queue, instead of the whole entry: a thousand requests may end at once.
_entry_values = itemgetter(
    *(
        "provider_name",
        "operation",
        "model",
        "served_model",
        "status",
        "outcome",
        "exception",
        "entry_source",
        "cache_status",
    ),
    *("guardrails", "duration_ms", "first_byte_ms", "cost", "currency", "stages", "provider_calls"),
    *(f"{kind}_tokens" for kind in TOKENS),
)

# The present values of a process: by metric name, pairs of label values and a number.
Gauges = dict[str, list[tuple[Labels, float]]]


class Published(TypedDict):
    """The content of a slot."""

    pid: int
    sums: SumsAsJson
    attempts: list[tuple[Pair, JsonObject]]
    gauges: Gauges


# The values of a log entry, in the order of _entry_values.
EntryValues = tuple[Any, ...]


AttemptEvent = AttemptStart | AttemptSuccess | AttemptFailure


class Metrics:
    """The metrics of one process, and its slot in the shared memory, if it has one."""

    def __init__(self, shared: Slots | None = None, slot: int | None = None) -> None:
        self._queue: deque[EntryValues | AttemptEvent | None] = deque()
        self._lock = threading.Lock()
        self._slots = shared if slot is not None else None
        self._slot = slot
        self._last_read: dict[int, Published] = {}
        self._too_large = False
        self.in_flight = 0
        published = self._read(slot) if slot is not None else None
        self.sums = Sums.from_json(published["sums"]) if published else Sums()
        self.attempts = AttemptBook.from_json(published["attempts"]) if published else AttemptBook()

    # -- On the path of a request -----------------------------------------------------------------------

    def request_started(self) -> None:
        """Count a request as in flight."""
        self._queue.append(None)

    def request_ended(self, entry: JsonObject) -> None:
        """Count a request by its log entry, and as in flight no more."""
        self._queue.append(_entry_values(entry))

    def note_attempt(self, event: AttemptEvent) -> None:
        """Count what happened to an attempt at a provider."""
        self._queue.append(event)

    # -- In the background ------------------------------------------------------------------------------

    def aggregate(self, model_names: Collection[str]) -> None:
        """Aggregate the queue; model names that are not known count as `other`, as clients may invent any."""
        with self._lock:
            for _ in in_slices(range(len(self._queue))):
                item = self._queue.popleft()
                if item is None:
                    self.in_flight += 1
                elif isinstance(item, AttemptEvent):
                    self.attempts.note(item)
                    _count_attempt(self.sums, item)
                else:
                    self.in_flight -= 1
                    _add(self.sums, item, model_names)

    def publish(self, gauges: Gauges) -> None:
        """Write the sums and gauges to this process's slot."""
        if self._slots is None or self._slot is None:
            return
        with self._lock:
            counts = {"sums": self.sums.to_json(), "attempts": self.attempts.to_json()}
            published = orjson.dumps({"pid": os.getpid(), **counts, "gauges": gauges})
        fits = self._slots.write(self._slot, published)
        if not fits and not self._too_large:
            log.warning("There are too many metrics: this process no longer updates its metrics for the others.")
        self._too_large = not fits

    def gather(self, gauges: Gauges) -> tuple[Sums, dict[int, Gauges]]:
        """The sums of all processes (those of others up to a second old), and the gauges by slot of living ones."""
        sums, processes = Sums(), {self._slot or 0: gauges}
        with self._lock:
            sums.add(self.sums)
        for slot, published in self._published_by_others():
            sums.add(Sums.from_json(published["sums"]))
            if _is_alive(published["pid"]):
                processes[slot] = published["gauges"]
        return sums, processes

    def gather_attempts(self) -> AttemptBook:
        """The results of the attempts of all processes (those of others up to a second ago)."""
        book = AttemptBook()
        with self._lock:
            book.add(self.attempts)
        for _, published in self._published_by_others():
            book.add(AttemptBook.from_json(published["attempts"]))
        return book

    def _published_by_others(self) -> Iterator[tuple[int, Published]]:
        for slot in range(self._slots.number if self._slots else 0):
            if slot != self._slot and (published := self._read(slot)):
                yield slot, published

    def _read(self, slot: int) -> Published | None:
        if self._slots is None:
            return None
        payload = self._slots.read(slot)
        if payload is not None:
            self._last_read[slot] = orjson.loads(payload)
        return self._last_read.get(slot)


def own_metrics() -> Metrics:
    """The metrics of this process, with the slot that the server assigned to it."""
    return Metrics(slots.shared, slots.own_slot)


def _add(sums: Sums, values: EntryValues, model_names: Collection[str]) -> None:
    provider, operation, model, served_model, status, outcome, exception, source, cache, *others = values
    guardrails, took, first, cost, currency, stages, calls, *tokens = others
    model = _model_label(served_model or model, model_names)
    sums.count("requests", (operation, provider, model, outcome, f"{(status or 0) // 100}xx"))
    sums.observe("request_duration_seconds", (operation, provider, model), (took or 0) / 1000)
    if first is not None:
        sums.observe("first_byte_seconds", (provider, model), first / 1000)
    _observe_stages(sums, stages, calls)
    if cache:
        sums.count("cache_lookups", (cache.lower(),))
    for guardrail in guardrails or ():
        labels = (guardrail["name"], guardrail["direction"])
        sums.count("guardrail_results", (*labels, guardrail["result"]))
        sums.count("guardrail_seconds", labels, guardrail["milliseconds"] / 1000)
    if exception in LIMIT_ERROR_NAMES:
        sums.count("limit_refusals", (exception,))
    source = "cache" if source == "Cache" else "provider"
    for kind, amount in zip(TOKENS, tokens, strict=True):
        if amount:
            sums.count("tokens", (provider, model, kind, source), amount)
    if cost:
        sums.count("cost", (provider, currency), float(cost))


def _observe_stages(sums: Sums, stages: Iterable[Timing], calls: Iterable[list[Any]] | None) -> None:
    """Observe each stage, and the steps of each attempt with its provider."""
    for name, _, milliseconds in stages:
        sums.observe("stage_duration_seconds", (name, ""), milliseconds / 1000)
    for call in calls or ():
        attempt = LoggedAttempt(*call)
        for name, _, milliseconds in attempt.stages:
            sums.observe("stage_duration_seconds", (name, attempt.provider_name), milliseconds / 1000)


def _count_attempt(sums: Sums, event: AttemptEvent) -> None:
    _, *labels = event.subject
    kind = "checks" if event.is_check else "attempts"
    if isinstance(event, AttemptStart):
        sums.count(f"provider_{kind}", tuple(labels))
    elif isinstance(event, AttemptFailure):
        failures = "failed_checks" if event.is_check else "failures"
        sums.count(f"provider_{failures}", (*labels, event.exception))


def _model_label(model: str, names: Collection[str]) -> str:
    if not model or model in names:
        return model
    bare = model.partition("/")[2]  # provider/model
    return bare if bare in names else OTHER


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
