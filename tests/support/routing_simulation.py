"""One simulated hour of requests for each strategy, in virtual time, with the code that routes real ones.

`make routing-table` prints the table of docs/routing.md, and with TABLE=--update writes it. The same seed gives the
same figures.
"""

import argparse
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from heapq import heappop, heappush
from itertools import count
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import NamedTuple

from gateway_project.work.routing.signals import Signals
from gateway_project.work.routing.strategies import Strategy, Weighted, order_targets, signal_key
from providers.health.breakers import Breakers
from providers.health.rests import Rests

PAGE = Path(__file__).resolve().parents[2] / "docs/routing.md"
BEGIN, END = "<!-- simulation: begin -->\n", "<!-- simulation: end -->"
SECONDS, REQUESTS_A_SECOND, WORKERS, SHARE_EVERY_SECONDS = 3600, 60, 4, 1.0
SESSIONS, TURNS, CACHE_SECONDS = 3000, 12, 300
ROUND_ROBIN = "round robin"
STRATEGIES = (ROUND_ROBIN, *Strategy)
MINUTE = 60
MILLION = 1_000_000


@dataclass(eq=False)
class Server:
    """A provider's servers: how fast they are, how often they fail and how much they take on, by virtual time."""

    id: int
    name: str
    first_token_seconds: Callable[[float], float]
    tokens_a_second: int
    input_price: float  # per million tokens
    output_price: float
    capacity: int  # requests in flight at which the time to the first token has doubled
    failure_rate: Callable[[float], float] = lambda _: 0.0
    most_requests_a_second: float = math.inf
    models: tuple[str, ...] = ("model",)
    url: str = ""
    credential: str = ""
    in_flight: int = 0
    room: float = 0.0
    room_at: float = 0.0
    cached: dict[int, tuple[float, int]] = field(default_factory=dict)

    @property
    def account(self) -> tuple[int, int]:
        return self.id, 0

    def has_room(self, now: float) -> bool:
        """Whether its rate limit admits one more request: a bucket of two seconds."""
        rate = self.most_requests_a_second
        if rate == math.inf:
            return True
        self.room = min(self.room + (now - self.room_at) * rate, 2 * rate)
        self.room_at = now
        self.room -= self.room >= 1
        return self.room >= 1

    def cached_tokens(self, session: int, now: float) -> int:
        """The tokens of the conversation that its prompt cache has."""
        at, tokens = self.cached.get(session, (-math.inf, 0))
        return tokens if now - at < CACHE_SECONDS else 0


class Target(NamedTuple):
    provider: Server
    model: str = "model"


def servers() -> list[Server]:
    """Four providers with the troubles of their hour."""
    return [
        Server(1, "swift", lambda now: 2.5 if 20 <= now / MINUTE < 35 else 0.35, 100, 3, 15, 150),
        Server(2, "steady", lambda _: 0.6, 80, 2.5, 10, 200),
        Server(3, "cheap", lambda _: 1.1, 60, 0.5, 1.5, 200,
               failure_rate=lambda now: 0.2 if 45 <= now / MINUTE < 50 else 0.005, most_requests_a_second=25),
        Server(4, "dear", lambda _: 0.5, 100, 5, 25, 150,
               failure_rate=lambda now: 1.0 if 10 <= now / MINUTE < 15 else 0.02),
    ]  # fmt: skip


@dataclass
class Request:
    at: float
    session: int
    input_tokens: int
    output_tokens: int
    worker: "Worker"
    remaining: list[Target] = field(default_factory=list)


class Worker:
    """One process of the gateway."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.signals = Signals(clock)
        self.breakers = Breakers(failures=5, cooldown=15, clock=clock)
        self.rests = Rests(clock)
        self.turn = 0

    def ready(self, targets: list[Target]) -> list[Target]:
        return self.breakers.with_closed_breakers(self.rests.without_resting(targets))


class Result(NamedTuple):
    """What a strategy did with the requests of the hour."""

    requests: int
    failures: int
    calls: int
    shares: dict[str, float]  # of the answers, by provider
    mean_seconds: float
    slow_seconds: float  # the 95th percentile
    cost: float  # of a thousand requests
    cached_share: float  # of the input tokens


class Simulation:
    """The hour with one strategy."""

    def __init__(self, strategy: str, seconds: int = SECONDS, seed: int = 23) -> None:
        self.strategy, self.seconds, self.random = strategy, seconds, Random(seed)
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._numbers = count()
        self.servers = servers()
        self.targets = [Weighted(Target(server), 1) for server in self.servers]
        self.workers = [Worker(self.clock) for _ in range(WORKERS)]
        self.turns = [self.random.randrange(TURNS) for _ in range(SESSIONS)]
        self.sessions = list(range(SESSIONS))
        self.next_session = count(SESSIONS)
        self.answers: Counter[str] = Counter()
        self.times: list[float] = []
        self.failures = self.calls = 0
        self.cost = 0.0
        self.input_tokens = self.cached_tokens = 0

    def clock(self) -> float:
        return 1000.0 + self.now

    def run(self) -> Result:
        self._at(0.0, self._arrive)
        self._at(SHARE_EVERY_SECONDS, self._share)
        while self._events:
            self.now, _, step, arguments = heappop(self._events)
            step(*arguments)
        served = len(self.times)
        return Result(
            served + self.failures, self.failures, self.calls,
            {server.name: self.answers[server.name] / served for server in self.servers},
            sum(self.times) / served, sorted(self.times)[int(served * 0.95)],
            self.cost / served * 1000, self.cached_tokens / self.input_tokens,
        )  # fmt: skip

    def _at(self, at: float, step: Callable[..., None], *arguments: object) -> None:
        heappush(self._events, (at, next(self._numbers), step, arguments))

    def _share(self) -> None:
        exports = [(str(number), worker.signals.export()) for number, worker in enumerate(self.workers)]
        for number, worker in enumerate(self.workers):
            worker.signals.merge(one for one in exports if one[0] != str(number))
        if self.now < self.seconds:
            self._at(self.now + SHARE_EVERY_SECONDS, self._share)

    def _arrive(self) -> None:
        random = self.random
        place = random.randrange(SESSIONS)
        self.turns[place] += 1
        if self.turns[place] > TURNS:
            self.turns[place], self.sessions[place] = 1, next(self.next_session)
        request = Request(
            self.now, self.sessions[place], 400 + 450 * self.turns[place],
            int(random.lognormvariate(5.5, 0.6)), random.choice(self.workers),
        )  # fmt: skip
        request.remaining = request.worker.ready(self._order(request))
        self._try(request)
        if (next_at := self.now + random.expovariate(REQUESTS_A_SECOND)) < self.seconds:
            self._at(next_at, self._arrive)

    def _order(self, request: Request) -> list[Target]:
        worker = request.worker
        if self.strategy == ROUND_ROBIN:
            worker.turn += 1
            targets = [one.target for one in self.targets]
            return [targets[(worker.turn + place) % len(targets)] for place in range(len(targets))]
        seed = request.session.to_bytes(8, "big") if self.strategy == Strategy.STICKY else self.random.randbytes(8)
        return order_targets(
            Strategy(self.strategy), self.targets, seed, worker.signals,
            cost=lambda target: Decimal(self._estimate(request, target.provider)), is_streamed=True,
        )  # fmt: skip

    @staticmethod
    def _estimate(request: Request, server: Server) -> float:
        return (request.input_tokens * server.input_price + 300 * server.output_price) / MILLION

    def _try(self, request: Request) -> None:
        """Ask the next target; the request has failed if there is none."""
        if not request.remaining:
            self.failures += 1
            return
        target = request.remaining.pop(0)
        worker, server = request.worker, target.provider
        if worker.rests.current(target) or (request.remaining and not worker.breakers.admits(server)):
            self._try(request)
            return
        self.calls += 1
        sending = worker.signals.begin(signal_key(target, is_streamed=True))
        if not server.has_room(self.clock()):
            self._at(self.now + 0.03, self._limited, request, server, sending)
        elif self.random.random() < server.failure_rate(self.now):
            self._at(self.now + self.random.uniform(0.05, 0.5), self._fail, request, server, sending)
        else:
            self._serve(request, server, sending)

    def _limited(self, request, server, sending) -> None:
        sending.end()
        request.worker.rests.begin(Target(server), 429, 1.0)
        request.worker.breakers.record_success(server)
        self._try(request)

    def _fail(self, request, server, sending) -> None:
        sending.note_failure()
        sending.end()
        request.worker.breakers.record_failure(server)
        self._try(request)

    def _serve(self, request, server, sending) -> None:
        cached = min(server.cached_tokens(request.session, self.now), request.input_tokens)
        self.cached_tokens, self.input_tokens = self.cached_tokens + cached, self.input_tokens + request.input_tokens
        fresh = request.input_tokens - 0.9 * cached
        self.cost += (fresh * server.input_price + request.output_tokens * server.output_price) / MILLION
        load = 1 + (server.in_flight / server.capacity) ** 2
        reading = 0.5 + 0.5 * fresh / request.input_tokens  # a cached prompt is not read again
        seconds = server.first_token_seconds(self.now) * load * reading * self.random.lognormvariate(0, 0.3)
        server.in_flight += 1
        self._at(self.now + seconds, self._first_token, request, server, sending)
        self._at(self.now + seconds + request.output_tokens / server.tokens_a_second, self._end, server, sending)

    def _first_token(self, request, server, sending) -> None:
        sending.note_first_token()
        request.worker.breakers.record_success(server)
        server.cached[request.session] = self.now, request.input_tokens
        self.answers[server.name] += 1
        self.times.append(self.now - request.at)

    @staticmethod
    def _end(server, sending) -> None:
        server.in_flight -= 1
        sending.end()


def result_of(strategy: str) -> Result:
    return Simulation(strategy).run()


HEAD = (
    "| Strategy | Not answered | Calls a request | "
    + " | ".join(server.name for server in servers())
    + " | First token, mean | p95 | Beside round robin | Cost of 1,000 | Beside round robin | From prompt caches |\n|"
    + "---|" * (len(servers()) + 9)
    + "\n"
)


def row(strategy: str, result: Result, base: Result) -> str:
    """A line of the table; `base` is the result of round robin."""
    cells = (
        strategy,
        f"{result.failures / result.requests:.2%}",
        f"{result.calls / result.requests:.3f}",
        *(f"{share:.0%}" for share in result.shares.values()),
        f"{result.mean_seconds:.2f} s",
        f"{result.slow_seconds:.2f} s",
        beside(result.mean_seconds, base.mean_seconds),
        f"${result.cost:.2f}",
        beside(result.cost, base.cost),
        f"{result.cached_share:.0%}",
    )
    return f"| {' | '.join(cells)} |\n"


def beside(value: float, base: float) -> str:
    return f"{value / base - 1:+.0%}"


def table() -> str:
    with Pool(min(2, os.cpu_count() or 1)) as pool:
        results = dict(zip(STRATEGIES, pool.map(result_of, STRATEGIES, chunksize=1), strict=True))
    return HEAD + "".join(row(strategy, result, results[ROUND_ROBIN]) for strategy, result in results.items())


def rows_of_page() -> Iterator[str]:
    """The lines of the table as docs/routing.md has them."""
    yield from PAGE.read_text().split(BEGIN)[1].split(END)[0].splitlines(keepends=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the table into docs/routing.md")
    wants_update, text = parser.parse_args().update, table()
    print(text)
    if wants_update:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
