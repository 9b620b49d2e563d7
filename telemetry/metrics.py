"""The metrics of work: noted at the end of a request without a lock, added up in the background, told by any process.

An append to a queue is all that a request pays. A process with a slot (slots.py) puts its sums there every second,
and whichever process is asked gathers those of all.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Collection, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from gateway_project.errors import LIMIT_ERROR_NAMES
from telemetry import slots
from telemetry.slots import Slots
from telemetry.sums import OTHER, Labels, Sums

log = logging.getLogger("gateway.metrics")

TOKENS = ("input", "cache_read", "cache_write", "output", "reasoning")
# What is kept of an entry until it is added up: a thousand requests may end at one moment.
_told = itemgetter(
    *("provider_name", "operation", "model", "status", "outcome", "exception", "entry_source", "cache_status"),
    *("duration_ms", "first_byte_ms", "cost", "currency", *(f"{kind}_tokens" for kind in TOKENS)),
)

# What a process is at the moment: by the name of the metric, label values and a number each.
Gauges = dict[str, list[tuple[Labels, float]]]


class Failure(NamedTuple):
    """An attempt at a provider that failed."""

    provider: str
    exception: str


class Metrics:
    """What one process has counted, and its slot among those of others, if it has one."""

    def __init__(self, others: Slots | None = None, slot: int | None = None) -> None:
        self._noted: deque[Any] = deque()
        self._folding = threading.Lock()
        self._others = others if slot is not None else None
        self._slot = slot
        self._last_read: dict[int, dict[str, Any]] = {}
        self._too_large = False
        self.in_flight = 0
        self.sums = Sums.from_json(told["sums"]) if (told := self._read(slot)) else Sums()

    # -- On the path of a request -----------------------------------------------------------------------

    def begin(self) -> None:
        """A request has come."""
        self._noted.append(None)

    def end(self, entry: dict[str, Any]) -> None:
        """It has ended; `entry` is that of the log."""
        self._noted.append(_told(entry))

    def failed(self, provider: str, exception: str) -> None:
        """One attempt at a provider failed."""
        self._noted.append(Failure(provider, exception))

    # -- In the background ------------------------------------------------------------------------------

    def fold(self, known_models: Collection[str]) -> None:
        """Add up what was noted; a model that is not known counts as another one, whatever clients call it."""
        with self._folding:
            for _ in range(len(self._noted)):
                noted = self._noted.popleft()
                if noted is None:
                    self.in_flight += 1
                elif type(noted) is Failure:
                    self.sums.count("provider_failures", tuple(noted))
                else:
                    self.in_flight -= 1
                    _add(self.sums, noted, known_models)

    def publish(self, gauges: Gauges) -> None:
        """Put all of it where the other processes find it."""
        if self._others is None:
            return
        with self._folding:
            told = orjson.dumps({"pid": os.getpid(), "sums": self.sums.to_json(), "gauges": gauges})
        fits = self._others.write(self._slot, told)
        if not fits and not self._too_large:
            log.warning("There are too many metrics: this process tells no other one of any more.")
        self._too_large = not fits

    def gather(self, gauges: Gauges) -> tuple[Sums, dict[int, Gauges]]:
        """The sums of all processes, our own as they are now and the others' of a second ago, and gauges by slot."""
        sums, processes = Sums(), {self._slot or 0: gauges}
        with self._folding:
            sums.add(self.sums)
        for slot, told in self._told_by_others():
            sums.add(Sums.from_json(told["sums"]))
            if _lives(told["pid"]):
                processes[slot] = told["gauges"]
        return sums, processes

    def _told_by_others(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for slot in range(self._others.number if self._others else 0):
            if slot != self._slot and (told := self._read(slot)):
                yield slot, told

    def _read(self, slot: int | None) -> dict[str, Any] | None:
        if self._others is None:
            return None
        payload = self._others.read(slot)
        if payload is not None:
            self._last_read[slot] = orjson.loads(payload)
        return self._last_read.get(slot)


def own_metrics() -> Metrics:
    """Those of this process, with the slot that the server has given it."""
    return Metrics(slots.shared, slots.own)


def _add(sums: Sums, told: tuple[Any, ...], known_models: Collection[str]) -> None:
    provider, operation, model, status, outcome, exception, source, cache, took, first, cost, currency, *tokens = told
    model = _known(model, known_models)
    sums.count("requests", (operation, provider, model, outcome, f"{(status or 0) // 100}xx"))
    sums.observe("request_duration_seconds", (operation, provider, model), (took or 0) / 1000)
    if first is not None:
        sums.observe("first_byte_seconds", (provider, model), first / 1000)
    if cache:
        sums.count("cache_lookups", (cache.lower(),))
    if exception in LIMIT_ERROR_NAMES:
        sums.count("limit_refusals", (exception,))
    source = "cache" if source == "Cache" else "provider"
    for kind, amount in zip(TOKENS, tokens, strict=True):
        if amount:
            sums.count("tokens", (provider, model, kind, source), amount)
    if cost:
        sums.count("cost", (provider, currency), float(cost))


def _known(model: str, known: Collection[str]) -> str:
    if not model or model in known:
        return model
    bare = model.partition("/")[2]  # provider/model
    return bare if bare in known else OTHER


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
