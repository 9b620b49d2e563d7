"""Guardrails that ask a service and only record: they neither hold up nor lose a request."""

import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from gateway_project.errors import ProviderError
from gateway_project.work.guardrails.book import Applicable, Audience, GuardrailSnapshot
from gateway_project.work.guardrails.remote.asking import (
    MAX_CALLS,
    MAX_MONITORS,
    MAX_QUESTION_BYTES,
    LateAnswer,
    RemoteGuardrails,
    ServiceClients,
)
from gateway_project.work.guardrails.remote.judging import LateAnswers
from gateway_project.work.guardrails.remote.services import Question, Service
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.log.pending import PendingEntries
from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.guardrail_path import body_for, row_of
from tests.support.provider import ScriptedProvider

HALF_A_PAIR = {"function": {"name": "f", "arguments": '{"a": "\\ud800"}'}, "id": "c", "type": "function"}


@pytest.fixture
def service():
    with ScriptedProvider() as running:
        running.default.body = {"action": "block", "reason": "weapons"}
        yield running


@pytest.fixture
def guard(world, service, request):
    def make(action="monitor", **options):
        own = {"type": "http", "parameters": {"url": f"{service.url}/check", "timeoutSeconds": 2}} | options
        row = create_guardrail(
            name=world.name("guardrail"), action=action, applies_to={"users": [world.user.pk]}, **own
        )
        request.addfinalizer(lambda: delete_guardrail(row))
        world._settled = False
        return row

    world.allow()
    return make


def snapshot_of(number, action="monitor", seconds=5.0):
    service = Service((number, 0), f"http://{number}.example", "", seconds)
    return GuardrailSnapshot(number, f"g{number}", 1, action, "", None, Audience(everyone=True), service=service)


@pytest.mark.either_store
@pytest.mark.parametrize("action", ["monitor", "block"])
def test_half_a_surrogate_pair_is_asked_about_as_it_is_written(world, guard, service, action):
    world.provider()
    guard(action, direction="request")
    body = body_for("/work", "Some words.", world.model)
    body["messages"].append({"role": "assistant", "content": "", "tool_calls": [HALF_A_PAIR]})
    response = world.post(body)
    assert response.status_code == (200 if action == "monitor" else 400)
    assert row_of(world, response)["counts"] == {"weapons": 1}
    assert HALF_A_PAIR["function"]["arguments"] in service.wait_for(1)[0].json["texts"]


@pytest.mark.embedded
def test_whatever_a_monitor_raises_the_entry_is_written():
    guardrail = snapshot_of(1)
    future = Future()
    future.set_exception(MemoryError())
    search = Search(Applicable([guardrail]).answers)
    search.late.append(SimpleNamespace(note=lambda: 1 / 0))
    search.late.append(LateAnswers(search, ["Some words."], [LateAnswer(guardrail, time.perf_counter(), future)]))
    search.note_late()
    assert search.tallies[1].result == "failed"


class SlowService:
    """In the place of the transport: it answers nobody until all are let go."""

    def __init__(self):
        self.hosts, self.fails_at_once, self.release = [], "", threading.Event()

    def send(self, request, *_, **__):
        self.hosts.append(request.url)
        if request.url != self.fails_at_once:
            self.release.wait(10)
        raise ProviderError("no answer")


@pytest.fixture
def slow():
    service = SlowService()
    yield service
    service.release.set()


@pytest.fixture
def services():
    running = RemoteGuardrails()
    yield running
    running.stop()


def means_of(transport):
    return ServiceClients(transport, SimpleNamespace(watch_call=lambda call: nullcontext()), None)


def question_of(text="Some words."):
    return Question("request", [text], "m", 1, None, "r")


def wait_until(condition):
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


@pytest.mark.embedded
def test_monitors_neither_queue_nor_keep_those_from_asking_that_decide(slow, services):
    means = means_of(slow)
    monitors = [snapshot_of(number) for number in range(2 * MAX_MONITORS)]
    late = services.ask_late(means, monitors, question_of())
    assert [one.future.done() for one in late] == [False] * MAX_MONITORS + [True] * MAX_MONITORS
    assert all(one.result().verdict.has_failed for one in late[MAX_MONITORS:])
    wait_until(lambda: len(slow.hosts) == MAX_MONITORS)
    deciding = [snapshot_of(number, "block") for number in (1000, 1001, 1002)]
    answers = []
    asking = threading.Thread(target=lambda: answers.extend(services.ask(means, deciding, question_of())))
    asking.start()
    wait_until(lambda: len(slow.hosts) == MAX_MONITORS + len(deciding))
    slow.release.set()
    asking.join()
    assert [answer.guardrail for answer in answers] == deciding
    wait_until(lambda: all(one.future.done() for one in late))
    services.ask_late(means, [snapshot_of(2000)], question_of())
    wait_until(lambda: len(slow.hosts) == MAX_MONITORS + len(deciding) + 1)


@pytest.mark.long
@pytest.mark.embedded
def test_the_others_of_a_request_are_waited_for_no_longer_than_their_own_time(slow, services):
    """The first one is asked in the thread of the request: here it fails at once."""
    slow.fails_at_once = "http://1.example"
    begun = time.monotonic()
    answers = services.ask(means_of(slow), [snapshot_of(1, "block"), snapshot_of(2, "block", 0.3)], question_of())
    assert time.monotonic() - begun < 3
    assert [answer.verdict.has_failed for answer in answers] == [True, True]


@pytest.mark.embedded
def test_nobody_is_asked_in_other_threads_while_the_process_stops(slow, services):
    services.stop()
    for _ in range(MAX_MONITORS + 1):
        (late,) = services.ask_late(means_of(slow), [snapshot_of(1)], question_of())
        assert late.result().verdict.has_failed
    slow.release.set()
    answers = services.ask(means_of(slow), [snapshot_of(2, "block"), snapshot_of(3, "block")], question_of())
    assert [answer.verdict.has_failed for answer in answers] == [True, True]
    assert slow.hosts == ["http://2.example"]


@pytest.mark.embedded
def test_nobody_is_asked_once_the_time_is_over(slow, services):
    inquiry = services._inquiry(snapshot_of(1), question_of(), time.perf_counter() - 6)
    assert services._ask(means_of(slow), inquiry).verdict.has_failed
    assert slow.hosts == []


@pytest.mark.embedded
@pytest.mark.parametrize("text", ["x" * (MAX_QUESTION_BYTES + 1), "\0" * (MAX_QUESTION_BYTES // 4)])
def test_what_is_too_long_takes_no_slot(slow, services, text):
    late = services.ask_late(means_of(slow), [snapshot_of(number) for number in range(MAX_CALLS)], question_of(text))
    assert all(one.future.done() and one.result().verdict.has_failed for one in late)
    assert not services.ask_late(means_of(slow), [snapshot_of(1)], question_of())[0].future.done()


@pytest.mark.servers
@pytest.mark.long
def test_a_request_that_waits_for_a_monitor_keeps_no_connection_to_redis(own_gateway, service, request):
    world = own_gateway(GATEWAY_REDIS_CONNECTIONS="1")
    world.provider()
    other = world.new_user()
    world.allow(), world.allow(user=other)
    url, users = f"{service.url}/check", [world.user.pk]
    values = {"parameters": {"url": url, "timeoutSeconds": 10}, "applies_to": {"users": users}}
    row = create_guardrail(name=world.name("guardrail"), type="http", action="monitor", **values)
    request.addfinalizer(lambda: delete_guardrail(row))
    service.default.delay = 4
    key = world.new_key(owner=other).text
    world.settle()
    guarded = threading.Thread(target=world.ask)
    guarded.start()
    service.wait_for(1)
    time.sleep(1)  # until the provider has answered
    assert world.ask("Another one.", key=key).status_code == 200
    assert guarded.is_alive()
    guarded.join()
    assert "Redis does not answer" not in world.gateway.output.read_text()


WORDS = ("one ", "two ", "three ", "four.")


def stream_of(provider, *words, **script):
    provider.default.stream = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
    for name, value in script.items():
        setattr(provider.default, name, value)


def asked_text(service):
    (request,) = service.wait_for(1)
    return request.json["texts"][0]


@pytest.mark.either_store
def test_who_leaves_a_stream_early_does_not_evade_a_monitor(world, guard, service):
    stream_of(world.provider(), *WORDS, silent_after=3)
    guard(direction="response")
    with world.stream("Count.") as response:
        next(piece for piece in response.iter_content(None) if b"three " in piece)
    row = row_of(world, response, "response")
    assert (row["result"], row["counts"]) == ("monitored", {"weapons": 1})
    assert asked_text(service) == "one two three "
    assert world.entry(response).outcome == "client_closed"


@pytest.mark.either_store
def test_nor_does_a_stream_that_its_provider_cuts_off(world, guard, service):
    stream_of(world.provider(), *WORDS, silent_after=3, silent_limit=0.2)
    guard(direction="response")
    response = world.post(body_for("/work", "Count.", world.model, stream=True))
    assert row_of(world, response, "response")["counts"] == {"weapons": 1}
    assert asked_text(service).startswith("one two ")


@pytest.mark.either_store
def test_nor_one_that_another_guardrail_blocks(world, guard, service):
    stream_of(world.provider(), *WORDS)
    guard("block", direction="response", type="words", parameters={"words": ["three"]})
    monitor = guard(direction="response")
    response = world.post(body_for("/work", "Count.", world.model, stream=True))
    assert b"GuardrailBlocked" in response.content
    counts = {row["id"]: row["counts"] for row in world.entry(response).guardrails}
    assert counts[monitor.pk] == {"weapons": 1}
    assert asked_text(service).startswith("one two ")


@pytest.mark.either_store
def test_those_who_follow_a_stream_do_not_wait_for_the_monitors_of_a_client_that_left(world, guard, service):
    provider = world.provider()
    stream_of(provider, *WORDS, *WORDS, pace=0.4)
    service.default.silent = True
    other = world.new_user()
    world.allow(user=other)
    key = world.new_key(owner=other).text
    guard(direction="both", fail_mode="closed", parameters={"url": f"{service.url}/check", "timeoutSeconds": 8})
    body = body_for("/work", "Count.", world.model, stream=True)
    world.settle()
    first = world.post(body, stream=True)
    own_pieces = first.iter_content(None)
    assert b"one " in next(own_pieces)
    pieces = world.post(body, key=key, stream=True).iter_content(None)
    assert b"one " in next(pieces)
    first.close()
    start = time.monotonic()
    assert b"four." in b"".join(pieces)
    assert len(provider.seen) == 1
    assert time.monotonic() - start < 6
    assert row_of(world, first, "response")["counts"] == {"unavailable": 1}


@pytest.mark.long
@pytest.mark.embedded
def test_a_process_stops_once_all_entries_are_written():
    entries, stopped = PendingEntries(), threading.Event()
    with entries.track():
        stop = threading.Thread(target=lambda: (entries.stop(), stopped.set()))
        stop.start()
        assert not stopped.wait(0.2)
    assert stopped.wait(5)
    stop.join()
