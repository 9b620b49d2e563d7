"""Identical streams at the same time: one call of the provider, and each client gets every chunk as it comes."""

import http.client
import json
import queue
import signal
import socket
import threading
import time
from contextlib import suppress

import pytest

from gateway_project.errors import ServiceUnavailable
from gateway_project.work.streaming import broadcast
from gateway_project.work.streaming.broadcast import Broadcast, Result
from gateway_project.work.streaming.live_chunks import USAGE_BYTES
from providers.transport.calls import Call, End, Interrupted
from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.provider import read_headers
from tests.support.streaming import DONE, datas, error_in, event, part, text

pytestmark = pytest.mark.either_store

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
CUT = b""
PATIENT = {"first_byte_timeout_seconds": 60, "idle_timeout_seconds": 60, "total_timeout_seconds": 60}


class SteppedProvider:
    """Answers each request with a stream that goes on when the test says so."""

    def __init__(self) -> None:
        self.streams: list[SteppedStream] = []
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def stream(self, number: int = 0) -> "SteppedStream":
        """The stream of the first request, or of a later one, once it has come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.streams) > number, patience(5)), "no request came"
            return self.streams[number]

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self.streams:
            one.send(CUT)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader, suppress(OSError):
            reader.readline()
            headers = {name.lower(): value for name, value in read_headers(reader)}
            reader.read(int(headers["content-length"]))
            stream = SteppedStream()
            with self._changed:
                self.streams.append(stream)
                self._changed.notify_all()
            stream.serve(connection)


class SteppedStream:
    """One stream; `gone` is set when the gateway has hung up on it."""

    def __init__(self) -> None:
        self._steps: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.gone = threading.Event()

    def send(self, *chunks) -> None:
        """Send these chunks, one after the other; CUT ends the connection."""
        for chunk in chunks:
            self._steps.put(chunk if isinstance(chunk, bytes) else event(chunk))

    def finish(self) -> None:
        """Send the end of a good answer."""
        self.send(part("", "stop"), USAGE, DONE.encode())

    def serve(self, connection: socket.socket) -> None:
        connection.sendall(HEAD)
        threading.Thread(target=self._watch, args=[connection], daemon=True).start()
        while chunk := self._steps.get():
            connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            if chunk == DONE.encode():
                connection.sendall(b"0\r\n\r\n")
                return
        connection.shutdown(socket.SHUT_RDWR)

    def _watch(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if connection.recv(1):
                return
        self.gone.set()


class Client:
    """A client of a stream that reads when the test says so."""

    def __init__(self, world, body=None, *, path="/work", head=(), version="1.1", key=None):
        self.id = world.name("live")
        request = {"model": world.model, "stream": True, "max_tokens": 50} | (body or {})
        request.setdefault("messages", [{"role": "user", "content": "Hello!"}])
        data = json.dumps(request).encode()
        lines = [
            f"POST {path} HTTP/{version}", "Host: gateway", f"Authorization: Bearer {key or world.key}",
            "Content-Type: application/json", f"X-Svc-Request-ID: {self.id}", f"Content-Length: {len(data)}", *head,
        ]  # fmt: skip
        self.sock = socket.create_connection(("127.0.0.1", world.gateway.port), timeout=20)
        self.sock.sendall("\r\n".join([*lines, "\r\n"]).encode() + data)
        self.response = http.client.HTTPResponse(self.sock, method="POST")
        self.body = b""

    def begin(self) -> "Client":
        self.response.begin()
        return self

    def read_until(self, words: bytes) -> bytes:
        """What has come, as soon as it has these words."""
        if not self.response.headers:
            self.begin()
        while words not in self.body:
            more = self.response.read1(65536)
            assert more, self.body[-500:]
            self.body += more
        return self.body

    def read(self) -> bytes:
        """All of it, without heartbeats."""
        if not self.response.headers:
            self.begin()
        while more := self.response.read1(1_000_000):
            self.body += more
        return self.body.replace(b": heartbeat\n\n", b"")

    def leave(self) -> None:
        self.response.close()
        self.sock.close()


@pytest.fixture
def stepped(world):
    provider = SteppedProvider()
    world.allow()
    world.provider(url=provider.url, **PATIENT)
    assert world.key
    world.settle()
    yield provider
    provider.close()


def followed(world, stepped, number=1, **options):
    """A leader that has got the first word, its stream, and so many followers that have got it too."""
    leader = Client(world, **options)
    stream = stepped.stream()
    stream.send(part("one "))
    leader.read_until(b"one")
    followers = [Client(world, **options) for _ in range(number)]
    for follower in followers:
        follower.read_until(b"one")
    return leader, stream, followers


def test_followers_get_the_beginning_at_once_and_the_rest_as_it_comes(world, stepped):
    leader, stream, (follower,) = followed(world, stepped)
    assert follower.response.headers["X-Svc-Cache"] == "HIT"
    assert follower.response.headers["Content-Type"] == "text/event-stream"
    for word in (b"two", b"three"):
        stream.send(part(f"{word.decode()} "))
        leader.read_until(word)
        follower.read_until(word)
    late = Client(world)
    assert text(late.read_until(b"three")) == "one two three "
    stream.finish()
    bodies = {one.read() for one in (leader, follower, late)}
    assert len(bodies) == 1
    assert text(bodies.pop()) == "one two three "
    assert len(stepped.streams) == 1
    assert Client(world).read() == follower.body


def test_the_entries_are_those_of_one_call_and_of_cached_answers(world, stepped):
    world.price(amount=100_000, output=100_000)
    world.settle()
    leader, stream, followers = followed(world, stepped, 2)
    stream.finish()
    for one in (leader, *followers):
        one.read()
    entry = world.entry(leader.id)
    assert (entry.outcome, entry.entry_source, entry.cache_status, entry.attempts) == ("completed", "Worker", "MISS", 1)
    assert (entry.input_tokens, entry.output_tokens, entry.cost) == (7, 3, 1)
    for follower in followers:
        entry = world.entry(follower.id)
        assert (entry.outcome, entry.entry_source, entry.cache_status) == ("completed", "Cache", "HIT")
        assert (entry.input_tokens, entry.output_tokens, entry.cost, entry.saved_cost) == (7, 3, 0, 1)
        assert (entry.attempts, entry.status, entry.finish_reason) == (0, 200, "stop")
        assert "one " in entry.payload


def test_who_waits_for_the_first_chunk_gets_it_with_the_first_one(world, stepped):
    leader = Client(world)
    stream = stepped.stream()
    followers = [Client(world) for _ in range(3)]
    for follower in followers:
        follower.read_until(b": heartbeat")
    stream.send(part("one "))
    for one in (leader, *followers):
        assert b"one" in one.read_until(b"one")
    stream.finish()
    assert len({one.read() for one in (leader, *followers)}) == 1
    assert len(stepped.streams) == 1


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_followers_keep_their_stream_when_the_first_client_leaves(world, stepped, version):
    world.price(amount=100_000, output=100_000)
    world.settle()
    leader, stream, followers = followed(world, stepped, 2, version=version)
    leader.leave()
    for word in (b"two", b"three"):  # the first of them may be what shows that it has gone
        stream.send(part(f"{word.decode()} "))
        for follower in followers:
            follower.read_until(word)
    late = Client(world)
    late.read_until(b"three")
    assert not stream.gone.is_set()
    stream.finish()
    assert {text(one.read()) for one in (*followers, late)} == {"one two three "}
    assert len(stepped.streams) == 1
    entry = world.entry(leader.id)
    assert (entry.outcome, entry.attempts, entry.cache_status) == ("client_closed", 1, "MISS")
    assert (entry.input_tokens, entry.output_tokens, entry.usage_estimated, entry.cost) == (7, 3, False, 1)
    assert {world.entry(one.id).cost for one in (*followers, late)} == {0}


def test_the_provider_is_hung_up_on_when_all_have_left(world, stepped):
    leader, stream, followers = followed(world, stepped, 2)
    for one in (*followers, leader):
        assert not stream.gone.is_set()
        one.leave()
    assert stream.gone.wait(patience(2))
    for one in (leader, *followers):
        assert world.entry(one.id).outcome == "client_closed"
    assert world.entry(leader.id).usage_estimated
    assert world.entry(followers[0].id).input_tokens is None
    again = Client(world)
    stepped.stream(1).send(part("again"))
    again.read_until(b"again")


FLOODS = {
    "events": b'data: {"choices": [], "x": "' + b"y" * 8000 + b'"}\n\n',
    "comments": b": " + b"y" * 8000 + b"\n\n",
}


@promise(
    "What is read for its usage after its clients have left is bounded",
    target="64 kB read; up to 96 kB sent, some of which is on its way",
    suite="attack",
)
@pytest.mark.parametrize("noise", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("number", [0, 2])
def test_a_flood_after_the_finish_reason_is_cut_when_all_have_left(world, stepped, number, noise, figure):
    leader, stream, followers = followed(world, stepped, number)
    stream.send(part("", "stop"))
    for one in (leader, *followers):
        one.read_until(b'"stop"')
        one.leave()
    flood_bytes = 0
    while not stream.gone.wait(0.05) and flood_bytes < 20 * USAGE_BYTES:
        stream.send(noise)
        flood_bytes += len(noise)
    figure({"bytes sent at most": flood_bytes})
    assert USAGE_BYTES < flood_bytes <= USAGE_BYTES + 4 * len(noise)
    assert world.entry(leader.id).outcome == "client_closed"


def test_a_follower_may_leave(world, stepped):
    leader, stream, followers = followed(world, stepped, 2)
    followers[0].leave()
    assert world.entry(followers[0].id).outcome == "client_closed"
    stream.finish()
    assert leader.read() == followers[1].read()
    assert world.entry(leader.id).outcome == world.entry(followers[1].id).outcome == "completed"


def test_the_time_of_the_first_request_is_its_own(world, stepped):
    leader = Client(world, head=["X-Svc-Timeout: 1.5"])
    stream = stepped.stream()
    stream.send(part("one "))
    follower = Client(world)
    follower.read_until(b"one")
    assert error_in(leader.read())["code"] == 504
    stream.send(part("two "))
    follower.read_until(b"two")
    stream.finish()
    assert text(follower.read()) == "one two "
    entry = world.entry(leader.id)
    assert (entry.outcome, entry.exception, entry.output_tokens) == ("truncated", "ProviderTimeout", 3)
    assert world.entry(follower.id).outcome == "completed"


def test_a_followers_own_time_ends_it_alone(world, stepped):
    leader = Client(world)
    stream = stepped.stream()
    stream.send(part("one "))
    leader.read_until(b"one")
    hurried = Client(world, head=["X-Svc-Timeout: 1"])
    assert error_in(hurried.read())["code"] == 504
    stream.finish()
    assert text(leader.read()) == "one "
    entry = world.entry(hurried.id)
    assert (entry.outcome, entry.exception, entry.cost_status, entry.status) == (
        "truncated",
        "ProviderTimeout",
        "",
        200,
    )
    assert "one " in entry.payload


def test_a_silence_is_bridged_for_each(world, stepped):
    leader, stream, (follower,) = followed(world, stepped)
    leader.read_until(b": heartbeat")
    follower.read_until(b": heartbeat")
    stream.finish()
    assert leader.read() == follower.read()


def test_who_does_not_read_slows_nobody_and_misses_nothing(world, stepped):
    leader, stream, (slow, quick) = followed(world, stepped, 2)
    for _ in range(60):
        stream.send(part("x" * 100_000))
    stream.finish()
    begun = time.monotonic()
    assert len(quick.read()) > 6_000_000
    assert leader.read() == quick.read()
    assert time.monotonic() - begun < patience(3)
    assert slow.read() == quick.read()
    assert world.entry(slow.id).outcome == "completed"


def test_a_first_client_that_does_not_read_slows_nobody(world, stepped):
    leader = Client(world)
    stream = stepped.stream()
    stream.send(part("one "))
    follower = Client(world)
    follower.read_until(b"one")
    for _ in range(60):
        stream.send(part("x" * 100_000))
    stream.finish()
    begun = time.monotonic()
    assert len(follower.read()) > 6_000_000
    assert time.monotonic() - begun < patience(3)
    assert leader.read() == follower.read()
    assert len(stepped.streams) == 1
    assert world.entry(leader.id).outcome == "completed"


def test_fifty_followers_get_the_same_bytes_of_one_call(world, stepped):
    leader, stream, followers = followed(world, stepped, 50)
    for number in range(20):
        stream.send(part(f"word{number} "))
    followers[0].leave()
    stream.finish()
    with_leader = [leader, *followers[1:]]
    assert len({one.read() for one in with_leader}) == 1
    assert len(stepped.streams) == 1
    outcomes = [world.entry(one.id).outcome for one in with_leader]
    assert outcomes == ["completed"] * 50


DOORS = {
    "/work": lambda body, follower: error_in(body)["exception"] == "ProviderError",
    "/v1/chat/completions": lambda body, follower: json.loads(datas(body)[-1])["error"]["code"] == "provider_error",
    "/v1/messages": lambda body, follower: json.loads(datas(body)[-1])["request_id"] == follower.id,
}


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_an_error_in_the_middle_goes_to_each_in_its_own_shape(world, stepped, path, version):
    leader, stream, followers = followed(world, stepped, 2, path=path, version=version)
    stream.send(part("two "), CUT)
    for one in (leader, *followers):
        body = one.read()
        assert b"two" in body
        assert DOORS[path](body, one), body
        entry = world.entry(one.id)
        assert (entry.outcome, entry.exception, entry.status) == ("truncated", "ProviderError", 200)
    assert world.entry(followers[0].id).cost_status == ""
    again = Client(world, path=path)
    stepped.stream(1).finish()
    assert again.begin().response.status == 200
    again.leave()


@pytest.mark.parametrize("path", list(DOORS)[1:])
def test_doors_are_followed_live(world, stepped, path):
    leader, stream, followers = followed(world, stepped, 2, path=path)
    stream.send(part("two "))
    for one in (leader, *followers):
        one.read_until(b"two")
    stream.finish()
    assert len({one.read() for one in (leader, *followers)}) == 1
    assert len(stepped.streams) == 1
    assert {world.entry(one.id).entry_source for one in followers} == {"Cache"}


def test_followers_learn_what_the_provider_got_besides(world):
    stepped = SteppedProvider()
    world.allow()
    world.provider(url=stepped.url, format_name="anthropic", **PATIENT)
    body, start = {"max_tokens": None}, {"type": "message_start", "message": {"id": "1", "usage": {"input_tokens": 1}}}
    leader = Client(world, body)
    stepped.stream().send(start, {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "one"}})
    leader.read_until(b"one")
    follower = Client(world, body)
    follower.read_until(b"one")
    for client in (leader, follower):
        assert client.response.headers["X-Svc-Added"] == "max_tokens=8192"
    assert (len(stepped.streams), follower.response.headers["X-Svc-Cache"]) == (1, "HIT")
    stepped.close()


def test_a_stop_of_the_server_ends_all_of_them_in_good_order(own_gateway):
    world = own_gateway(GATEWAY_GRACEFUL_TIMEOUT="4")
    stepped = SteppedProvider()
    world.allow()
    world.provider(url=stepped.url, **PATIENT)
    leader, _, followers = followed(world, stepped, 3)
    leader.leave()
    world.gateway.process.send_signal(signal.SIGTERM)
    for follower in followers:
        assert error_in(follower.read())["code"] == 503
    assert world.gateway.process.wait(10) == 0
    assert world.entry(leader.id).outcome == "client_closed"
    assert {world.entry(one.id).outcome for one in followers} == {"truncated"}
    stepped.close()


def test_an_answer_too_long_to_be_kept_is_for_those_who_follow_already(own_gateway):
    world = own_gateway(GATEWAY_CACHE_MAX_ENTRY_BYTES="65536", GATEWAY_LOG_PAYLOAD="redacted")
    stepped = SteppedProvider()
    world.allow()
    world.provider(url=stepped.url, **PATIENT)
    leader, stream, (follower,) = followed(world, stepped)
    for number in range(10):
        stream.send(part(f"{number}" * 20_000))
    stream.send(part("last "))
    for one in (leader, follower):
        one.read_until(b"last")
    late = Client(world)
    stepped.stream(1).send(part("own"))
    late.read_until(b"own")
    stream.finish()
    assert leader.read() == follower.read()
    assert len(text(follower.read())) > 200_000
    entries = [world.entry(one.id) for one in (leader, follower)]
    assert {(entry.outcome, entry.output_tokens) for entry in entries} == {("completed", 3)}
    payloads = [json.loads(entry.payload)["response"] for entry in entries]
    assert payloads[0] == payloads[1]
    stepped.stream(1).finish()
    assert text(late.read()) == "own"
    stepped.close()


class TestBroadcast:
    """What is beyond the kept chunks: the fastest is waited for, and others miss what leaves the window."""

    @pytest.fixture
    def call(self):
        return Call(client=None, total_seconds=60)

    def subscribed(self, call, number):
        one = Broadcast(None, [], call, "")
        return one, [one.subscribe(Call(client=None, total_seconds=60)) for _ in range(number)]

    def next(self, subscription, seconds=0.0):
        return subscription.broadcast.next_data(subscription, time.monotonic() + seconds)

    def test_a_slow_one_misses_what_left_the_window(self, call):
        one, (quick, slow) = self.subscribed(call, 2)
        chunk = b"x" * 1_000_000
        for _ in range(broadcast.WINDOW_BYTES // len(chunk) + 3):
            one.publish(chunk)
            assert self.next(quick) == chunk
        with pytest.raises(ServiceUnavailable):
            self.next(slow)

    @pytest.mark.long
    def test_the_provider_waits_for_the_fastest_and_for_nobody_who_has_left(self, call):
        call.idle_seconds = 0.1
        call.received()
        one, (quick, _) = self.subscribed(call, 2)
        chunk = b"x" * (broadcast.WINDOW_BYTES // 2)
        writer = threading.Thread(target=lambda: [one.publish(chunk) for _ in range(4)], daemon=True)
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        assert call.overdue(time.monotonic()) is None  # the provider's time does not run
        for _ in range(3):
            assert self.next(quick, 5) == chunk
        writer.join(patience(5))
        assert not writer.is_alive()

    @pytest.mark.parametrize("end", ["all leave", "the call ends"])
    def test_it_does_not_wait_for_ever(self, call, end):
        one, (only,) = self.subscribed(call, 1)
        chunk = b"x" * broadcast.WINDOW_BYTES

        def write():
            for _ in range(3):
                one.publish(chunk)
            one.end(Result())

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        if end == "all leave":
            only.leave()
        else:
            call.interrupt(End.STOPPING)
        writer.join(patience(5))
        assert not writer.is_alive()

    def test_one_whose_call_ends_wakes_at_once(self, call):
        _, (one,) = self.subscribed(call, 1)
        timer = threading.Timer(0.2, one.call.interrupt, [End.TOTAL])
        timer.start()
        with pytest.raises(Interrupted):
            self.next(one, 60)
