"""Numbers that are noted without a lock, added up, and told by any process of a server."""

import math
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from telemetry.journal.records import empty_log_entry
from telemetry.metrics import sums as summing
from telemetry.metrics.attempts import AttemptFailure, AttemptStart, Subject
from telemetry.metrics.counters import Metrics
from telemetry.metrics.exposition import GAUGES, MACHINE, SUMS, render
from telemetry.metrics.slots import SLOT_BYTES, Slots
from telemetry.metrics.sums import BUCKET_BOUNDS, OTHER, Sums
from tests.support.running import ROOT

SERVED = {
    "provider_name": "first",
    "operation": "chat",
    "model": "fast",
    "outcome": "completed",
    "status": 200,
    "duration_ms": 120.0,
    "entry_source": "Worker",
    "cache_status": "MISS",
    "input_tokens": 10,
    "output_tokens": 5,
    "cost": "0.25",
    "currency": "USD",
}


def serve(metrics, **told):
    metrics.request_started()
    metrics.request_ended(empty_log_entry() | SERVED | told)


def samples_of(metrics, **gauges):
    """Every sample that is told: by its name, by its labels sorted and without their names."""
    sums, processes = metrics.gather({name: [((), value)] for name, value in gauges.items()})
    values = {}
    for family in text_string_to_metric_families(render(sums, processes, {"version": "1"}).decode()):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            values[sample.name.removeprefix("gateway_"), labels] = sample.value
    return values


def test_what_a_request_was_is_counted_when_it_ends():
    metrics = Metrics()
    serve(metrics)
    serve(metrics, cache_status="HIT", entry_source="Cache", cost="0", duration_ms=1.0)
    serve(metrics, status=429, outcome="denied", exception="RateLimited", provider_name="", model="", operation="")
    subject = Subject(1, "first", "fast")
    metrics.note_attempt(AttemptStart(subject))
    metrics.note_attempt(AttemptFailure(subject, time.time(), "ProviderTimeout", "too late"))
    metrics.request_started()
    metrics.aggregate({"fast"})
    assert metrics.in_flight == 1
    result = samples_of(metrics)
    assert result["requests_total", ("fast", "chat", "completed", "first", "2xx")] == 2
    assert result["requests_total", ("", "", "denied", "", "4xx")] == 1
    assert result["tokens_total", ("input", "fast", "first", "provider")] == 10
    assert result["tokens_total", ("output", "fast", "first", "cache")] == 5
    assert result["cost_total", ("USD", "first")] == 0.25
    assert result["cache_lookups_total", ("hit",)] == 1
    assert result["limit_refusals_total", ("RateLimited",)] == 1
    assert result["provider_attempts_total", ("fast", "first")] == 1
    assert result["provider_failures_total", ("ProviderTimeout", "fast", "first")] == 1
    assert result["request_duration_seconds_count", ("fast", "chat", "first")] == 2
    assert result["request_duration_seconds_sum", ("fast", "chat", "first")] == pytest.approx(0.121)
    assert result["info", ("1",)] == 1


@pytest.mark.parametrize(
    ("query", "label"),
    [("fast", "fast"), ("first/fast", "fast"), ("a/b", "a/b"), ("first/none", OTHER), ("made up", OTHER), ("", "")],
)
def test_only_models_of_the_configuration_become_labels(query, label):
    metrics = Metrics()
    serve(metrics, model=query)
    metrics.aggregate({"fast", "a/b"})
    assert samples_of(metrics)["requests_total", (label, "chat", "completed", "first", "2xx")] == 1


def test_a_histogram_counts_up_to_each_bound():
    metrics = Metrics()
    for milliseconds in (0, 5, 5.1, 299_999, 300_001):
        serve(metrics, duration_ms=milliseconds, first_byte_ms=milliseconds)
    metrics.aggregate({"fast"})
    result = samples_of(metrics)
    below = {
        bound: result["request_duration_seconds_bucket", (str(bound), "fast", "chat", "first")]
        for bound in BUCKET_BOUNDS
    }
    assert (below[0.005], below[0.01], below[120.0], below[300.0]) == (2, 3, 3, 4)
    assert result["first_byte_seconds_bucket", ("+Inf", "fast", "first")] == 5


def test_labels_may_hold_anything():
    metrics = Metrics()
    name = 'a"b\\c\nd{e="f"} é'
    serve(metrics, provider_name=name)
    metrics.aggregate({"fast"})
    assert samples_of(metrics)["requests_total", ("fast", "chat", "completed", name, "2xx")] == 1


def test_there_are_never_more_series_than_memory_is_meant_for(monkeypatch):
    monkeypatch.setattr(summing, "MAX_SERIES", 3)
    sums = Sums()
    for number in range(10):
        sums.count("requests", (f"p{number}", "m"))
    assert {labels: numbers[0] for labels, numbers in sums.metrics["requests"].items()} == {
        ("p0", "m"): 1,
        ("p1", "m"): 1,
        ("p2", "m"): 1,
        (OTHER, OTHER): 7,
    }


def test_no_request_is_lost_between_threads():
    metrics = Metrics()
    stop = threading.Event()

    def fold():
        while not stop.is_set():
            metrics.aggregate({"fast"})

    folding = [threading.Thread(target=fold) for _ in range(2)]
    for thread in folding:
        thread.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [serve(metrics) for _ in range(500)], range(8)))
    stop.set()
    for thread in folding:
        thread.join()
    metrics.aggregate({"fast"})
    assert metrics.in_flight == 0
    assert samples_of(metrics)["requests_total", ("fast", "chat", "completed", "first", "2xx")] == 4000


class TestSeveralProcesses:
    KEY = "requests_total", ("fast", "chat", "completed", "first", "2xx")

    def process(self, slots, slot, requests=0):
        metrics = Metrics(slots, slot)
        for _ in range(requests):
            serve(metrics)
        metrics.aggregate({"fast"})
        metrics.publish({"process_threads": [((), 7.0)]})
        return metrics

    def test_whoever_is_asked_tells_of_all(self):
        slots = Slots(4)
        first, second = (self.process(slots, slots.take(), requests) for requests in (3, 4))
        for metrics in (first, second):
            result = samples_of(metrics, process_threads=9.0)
            assert result[self.KEY] == 7
        assert (result["process_threads", ("0",)], result["process_threads", ("1",)]) == (7, 9)

    def test_whoever_is_asked_tells_of_all_series(self, monkeypatch):
        monkeypatch.setattr(summing, "MAX_SERIES", 2)
        slots = Slots(2)
        first, second = (Metrics(slots, slots.take()) for _ in range(2))
        for metrics, names in ((first, "ab"), (second, "cde")):
            for name in names:
                metrics.sums.count("requests", (name,))
            metrics.publish({})
        counts = {("a",): [1], ("b",): [1], ("c",): [1], ("d",): [1], (OTHER,): [1]}
        assert first.gather({})[0].metrics == second.gather({})[0].metrics == {"requests": counts}

    def test_a_process_goes_on_from_the_numbers_of_the_one_before_it(self):
        slots = Slots(4)
        self.process(slots, slots.take(), 3)
        other = self.process(slots, slots.take(), 4)
        slots.release(0)
        assert samples_of(other)[self.KEY] == 7
        assert slots.take() == 0
        self.process(slots, 0, 2)
        assert samples_of(other)[self.KEY] == 9

    def test_who_is_dead_has_no_gauges_any_more_and_keeps_its_sums(self):
        slots = Slots(2)
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        metrics = self.process(slots, 1)
        slots.write(0, b'{"pid":%d,"sums":{"requests":[[["chat","first","fast","completed","2xx"],[5]]]},'
                       b'"gauges":{"process_threads":[[[],7.0]]}}' % dead.pid)  # fmt: skip
        result = samples_of(metrics, process_threads=9.0)
        assert result[self.KEY] == 5
        assert ("process_threads", ("0",)) not in result

    def test_without_a_slot_a_process_tells_of_itself(self):
        assert samples_of(self.process(Slots(1), None, 2))[self.KEY] == 2

    def test_slots_are_handed_out_from_the_lowest_on(self):
        slots = Slots(2)
        assert [slots.take() for _ in range(3)] == [0, 1, None]
        slots.release(1)
        slots.release(None)
        assert [slots.take() for _ in range(2)] == [1, None]

    def test_a_slot_holds_what_was_written_last_and_nothing_at_first(self):
        slots = Slots(2)
        assert slots.read(0) is None
        assert slots.write(0, b"long " * 1000)
        assert slots.write(0, b"short")
        assert (slots.read(0), slots.read(1)) == (b"short", None)
        assert not slots.write(0, os.urandom(SLOT_BYTES))
        assert slots.read(0) == b"short"

    def test_what_is_read_was_written_as_a_whole(self):
        slots = Slots(1)
        slots.write(0, b"a" * 20_000)

        def write():
            for number in range(600):
                slots.write(0, b"ab"[number % 2 :][:1] * 20_000)

        writer = threading.Thread(target=write)
        writer.start()
        read = []
        while writer.is_alive():
            read.append(slots.read(0))
        assert {len(set(payload)) for payload in read if payload} == {1}


def test_sums_survive_being_written():
    sums = Sums()
    sums.count("tokens", ("a", "b"), 3)
    sums.observe("seconds", ("a",), 0.2)
    again = Sums.from_json(sums.to_json())
    again.add(sums)
    assert again.metrics["tokens"] == {("a", "b"): [6]}
    assert math.fsum(again.metrics["seconds"]["a",][:-1]) == 2


def test_the_documentation_names_every_metric_with_its_labels():
    lines = (ROOT / "docs/operations.md").read_text().splitlines()
    listed = {
        cells[1].strip(" `"): cells[2].strip()
        for line in lines
        if (cells := line.split("|"))[1:] and "`gateway_" in cells[1]
    }
    values = {}
    for family, own in [
        *((family, ()) for family in (*SUMS, *MACHINE)),
        *((family, ("process",)) for family in GAUGES),
    ]:
        total = "_total" if family.kind is CounterMetricFamily else ""
        values[f"gateway_{family.name}{total}"] = ", ".join((*own, *family.labels))
    assert listed == values | {"gateway_info": "version, git, branch"}
