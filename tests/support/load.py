"""Load with a memory: every request has an id of its own, and what became of it is known afterwards."""

import itertools
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self

import requests

from telemetry.models import LogEntry
from tests.support.pace import patience
from tests.support.provider import ScriptedProvider
from tests.support.world import World

FINAL = {"completed", "aborted", "failed", "truncated", "client_closed", "denied"}


@dataclass
class Sent:
    """One request and its fate: a status and text, or the error of the connection."""

    request_id: str
    began: float
    ended: float = 0.0
    status: int = 0
    text: str = ""
    error: str = ""

    @property
    def served(self) -> bool:
        """A 200 whose stream, if it is one, ended well."""
        return self.status == 200 and not self.error and '"exception"' not in self.text


@dataclass
class Load:
    """Clients that send one request after the other until the block ends; `urls` are taken in turn.

    The prompt is the request's id, by which the provider's view and the client's are compared.
    """

    world: World
    clients: int = 8
    stream: bool = False
    urls: list[str] = field(default_factory=list)
    keep_alive: bool = True
    pause: float = 0.0
    timeout: float = 30.0
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run_id = secrets.token_hex(4)
        self._numbers = itertools.count()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=[place], daemon=True) for place in range(self.clients)]
        self._key = self.world.key
        self._urls = self.urls or [self.world.gateway.url]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        for thread in self._threads:
            thread.join(self.timeout + 5)

    def stop(self) -> None:
        """Send no new requests."""
        self._stop.set()

    def wait(self, good: Callable[[], bool], seconds: float = 30) -> None:
        """Let the load run until this holds."""
        wait_until(good, seconds)

    def served(self) -> int:
        return sum(one.served for one in list(self.sent))

    def _run(self, place: int) -> None:
        session = requests.Session()
        while not self._stop.is_set():
            url = self._urls[place % len(self._urls)]
            one = Sent(f"load-{self.run_id}-{next(self._numbers)}", time.monotonic())
            ask(session, url, self._key, self.world.model, one, stream=self.stream, timeout=self.timeout)
            self.sent.append(one)
            if one.status:
                self.world.answers.append((one.request_id, one.status))
            self.world.unanswered += bool(one.error)
            if one.error or not self.keep_alive:
                session.close()
            self._stop.wait(self.pause or (0.02 if one.error else 0))
        session.close()


def ask(
    session: requests.Session, url: str, key: str, model: str, one: Sent, *, stream: bool = False, timeout: float = 30
) -> Sent:
    """Send one request whose prompt is its id, and write down what became of it."""
    body = {"model": model, "messages": [{"role": "user", "content": one.request_id}]}
    if stream:
        body["stream"] = True
    headers = {"Authorization": f"Bearer {key}", "X-Svc-Request-ID": one.request_id}
    try:
        with session.post(f"{url}/work", json=body, headers=headers, timeout=timeout, stream=stream) as response:
            one.status = response.status_code
            one.text = response.content.decode(errors="replace")
    except requests.RequestException as error:
        one.error = type(error).__name__
    one.ended = time.monotonic()
    return one


def send_many(world: World, count: int, *, at_once: int, stream: bool = False, timeout: float = 30) -> list[Sent]:
    """So many requests, a part of them at once, each over a connection of its own; what became of them."""
    run_id, key = secrets.token_hex(4), world.key
    world.settle()

    def send(number: int) -> Sent:
        one = Sent(f"load-{run_id}-{number}", time.monotonic())
        with requests.Session() as session:
            ask(session, world.gateway.url, key, world.model, one, stream=stream, timeout=timeout)
        if one.status:
            world.answers.append((one.request_id, one.status))
        return one

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(send, range(count)))


def wait_until(good: Callable[[], bool], seconds: float = 10, what: str | Callable[[], str] = "it") -> None:
    """Return as soon as it holds; AssertionError if that takes too long."""
    deadline = time.monotonic() + patience(seconds)
    while not good():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what if isinstance(what, str) else what()} did not come true within {seconds} s")
        time.sleep(0.05)


def seen_ids(provider: ScriptedProvider) -> Counter:
    """The request ids that the provider was asked with, and how often."""
    return Counter(observations.json["messages"][-1]["content"] for observations in list(provider.seen))


def outcomes(ids: set[str]) -> dict[str, list[str]]:
    """The outcomes of the WorkRequest entries of these requests."""
    values: dict[str, list[str]] = {}
    rows = LogEntry.objects.filter(entry_type="WorkRequest", correlation_id__startswith="load-")
    for request_id, outcome in rows.values_list("correlation_id", "outcome"):
        if request_id in ids:
            values.setdefault(request_id, []).append(outcome)
    return values


def check_books(sent: list[Sent], provider: ScriptedProvider, seconds: float = 30) -> dict[str, str]:
    """Every request that the provider saw, or that was served, has exactly one entry that says the truth.

    Hands back the outcome of each request that has an entry.
    """
    ids = {one.request_id for one in sent}
    counts = Counter({request_id: number for request_id, number in seen_ids(provider).items() if request_id in ids})
    answered = {one.request_id for one in sent if one.served}
    refused = {one.request_id for one in sent if one.status and not one.served}
    due = set(counts) | answered | refused
    deadline = time.monotonic() + patience(seconds)
    while missing := due - outcomes(ids).keys():
        assert time.monotonic() < deadline, f"{len(missing)} of {len(due)} have no entry: {sorted(missing)[:5]}"
        time.sleep(0.2)
    matches = outcomes(ids)
    assert {request_id: twice for request_id, twice in matches.items() if len(twice) > 1} == {}
    assert {request_id: number for request_id, number in counts.items() if number > 1} == {}, "asked twice"
    result = {request_id: entries[0] for request_id, entries in matches.items()}
    assert set(result.values()) <= FINAL
    assert {request_id: result[request_id] for request_id in answered if result[request_id] != "completed"} == {}
    return result
