"""The metrics of work: noted at the end of a request without a lock, added up in the background, told by any process.

An append to a queue is all that a request pays. A process with a slot (slots.py) puts its sums there every second,
and whichever process is asked gathers those of all.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

import orjson

from telemetry import slots
from telemetry.slots import Slots
from telemetry.sums import OTHER, Labels, Sums

log = logging.getLogger("gateway.metrics")

TOKENS = ("input", "cache_read", "cache_write", "output", "reasoning")
REFUSALS = ("RateLimited", "QuotaExceeded", "ActiveUseLimitReached")

# What a process is at the moment: by the name of the metric, label values and a number each.
Gauges = dict[str, list[tuple[Labels, float]]]


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
        """It has ended; `entry` is that of the log, and is not changed any more."""
        self._noted.append(entry)

    def failed(self, provider: str, exception: str) -> None:
        """One attempt at a provider failed."""
        self._noted.append((provider, exception))

    # -- In the background ------------------------------------------------------------------------------

    def fold(self, known_models: Collection[str]) -> None:
        """Add up what was noted; a model that is not known counts as another one, whatever clients call it."""
        with self._folding:
            for _ in range(len(self._noted)):
                noted = self._noted.popleft()
                if noted is None:
                    self.in_flight += 1
                elif type(noted) is tuple:
                    self.sums.count("provider_failures", noted)
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


def _add(sums: Sums, entry: dict[str, Any], known_models: Collection[str]) -> None:
    provider, operation = entry["provider_name"], entry["operation"]
    model = _known(entry["model"], known_models)
    status = f"{(entry['status'] or 0) // 100}xx"
    sums.count("requests", (operation, provider, model, entry["outcome"], status))
    sums.observe("request_duration_seconds", (operation, provider, model), (entry["duration_ms"] or 0) / 1000)
    if entry["first_byte_ms"] is not None:
        sums.observe("first_byte_seconds", (provider, model), entry["first_byte_ms"] / 1000)
    if entry["cache_status"]:
        sums.count("cache_lookups", (entry["cache_status"].lower(),))
    if entry["exception"] in REFUSALS:
        sums.count("limit_refusals", (entry["exception"],))
    source = "cache" if entry["entry_source"] == "Cache" else "provider"
    for kind in TOKENS:
        if amount := entry[f"{kind}_tokens"]:
            sums.count("tokens", (provider, model, kind, source), amount)
    if entry["cost"]:
        sums.count("cost", (provider, entry["currency"]), float(entry["cost"]))


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
