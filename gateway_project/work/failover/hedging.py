"""Hedging: if the first target is slower than usual, a second one is asked; the first to begin its answer serves."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from gateway_project.errors import GatewayError, Outpaced, UpstreamError
from gateway_project.work.bill import total_cost
from gateway_project.work.cache.storing import leave_flight
from gateway_project.work.exchange import Attempt, Attempts, Exchange
from gateway_project.work.failover.outcomes import note_outcome
from gateway_project.work.gateway import Gateway
from gateway_project.work.routing.readiness import account_state
from gateway_project.work.routing.strategies import signal_key
from gateway_project.work.snapshot.records import Snapshot, Target
from gateway_project.work.token_estimates import input_tokens
from providers.formats import ClientResponse, Usage
from providers.formats.dialect import COUNT_TOKENS
from providers.pricing.prices import Cost, cost
from providers.transport.calls import Call, End, Interrupted
from telemetry.models import Candidate

Ask = Callable[[Exchange, Gateway, Target], None]


def ask_with_hedge(exchange: Exchange, gateway: Gateway, target: Target, ask: Ask) -> None:
    """Ask a target, and where its alias wants that, a second one too if the first is slow. Raises what `ask` does."""
    alias = exchange.decision.alias
    # A strict limit has room for one answer.
    if alias is None or not alias.hedge or exchange.is_mirror or exchange.limits.is_strict:
        ask(exchange, gateway, target)
        return
    request = exchange.request
    assert request is not None
    seconds = gateway.signals.slow_after(signal_key(target, is_streamed=request.stream))
    rival_target = _rival_target(exchange, gateway) if seconds is not None else None
    if seconds is None or rival_target is None:
        ask(exchange, gateway, target)
    else:
        Race(exchange, gateway, rival_target, ask).run(target, seconds)


def _rival_target(exchange: Exchange, gateway: Gateway) -> Target | None:
    """The next candidate that can serve now and has no limits: limits count one provider for each request."""
    request, (first, *others) = exchange.request, exchange.remaining
    assert request is not None
    if request.operation == COUNT_TOKENS:
        return None
    return next((target for target in others if target.key != first.key and _is_ready(target, exchange, gateway)), None)


def _is_ready(target: Target, exchange: Exchange, gateway: Gateway) -> bool:
    limits = gateway.snapshot.limits
    if target in exchange.limits.full_candidates or account_state(target, gateway) is not None:
        return False
    is_limited = limits.has_provider_limits and bool(limits.for_provider(target.provider).checks)
    return not is_limited


class Race:
    """Two targets that work on one request: the first of them to begin its answer serves, the other is cancelled.

    The request's own thread asks the first target. The rival is asked in a thread of the pool, on a copy of the
    exchange with a call of its own, which only the winner's attempt replaces. A stream begins with its first text:
    while `is_open`, that is, while the other target may still be faster, what only opens it decides nothing.
    """

    def __init__(self, exchange: Exchange, gateway: Gateway, rival_target: Target, ask: Ask) -> None:
        self._exchange, self._gateway, self._ask = exchange, gateway, ask
        self._rival_target = rival_target
        self._lock = threading.Lock()
        self._winner: Exchange | None = None
        self._rival: Exchange | None = None  # once the second target is asked
        self._rival_done = threading.Event()
        self.is_open = True

    def run(self, target: Target, seconds: float) -> None:
        """Ask the target, and the rival after so many seconds without an answer."""
        exchange = self._exchange
        exchange.attempts.race = self
        exchange.call.set_alarm(seconds, self._start)
        try:
            self._ask_first(target)
        except UpstreamError:
            self.is_open = False
            if not self._wait_for_rival():
                self._forget_rival()
                raise
        except BaseException as error:
            if self._has_won(exchange) or not isinstance(error, Interrupted):
                self._cancel_rival()
                raise
        else:
            if self._has_won(exchange):
                self._cancel_rival()
                return
            _close_response(exchange)
        self._adopt_rival(target)

    def _ask_first(self, target: Target) -> None:
        call = self._exchange.call
        try:
            self._ask(self._exchange, self._gateway, target)
        finally:
            call.cancel_alarm()
            self._exchange.attempts.race = None

    def _start(self) -> None:
        """Ask the rival in a thread of its own; the watcher calls this."""
        try:
            self._gateway.hedge_pool.submit(self._ask_rival)
        except RuntimeError:  # the gateway is stopping
            self.is_open = False

    def _ask_rival(self) -> None:
        with self._lock:
            if self._winner is not None or not self._gateway.retry_budget.take():
                self.is_open = False
                return
            self._rival = rival = _copy(self._exchange, self._rival_target)
            rival.attempts.race = self
        self._gateway.watcher.add(rival.call)
        try:
            self._ask(rival, self._gateway, self._rival_target)
            if self._has_won(rival):
                self._exchange.call.interrupt(End.OUTPACED)
            else:
                _close_response(rival)
        except (GatewayError, Interrupted):
            self.is_open = False  # the error is in the rival's attempts
        finally:
            rival.attempts.race = None
            if self._winner is not rival:
                self._gateway.watcher.remove(rival.call)
                rival.attempts.end_sending()
            self._rival_done.set()

    def _has_won(self, racer: Exchange) -> bool:
        """Whether this one has begun to answer first; from then on the other one cannot."""
        with self._lock:
            self._winner = self._winner or racer
            return self._winner is racer

    def _wait_for_rival(self) -> bool:
        """After the first target has failed: whether the rival, if it is asked already, serves."""
        with self._lock:
            if self._rival is None:
                self._winner = self._exchange
        if self._rival is not None:
            self._rival_done.wait()
        return not self._has_won(self._exchange)

    def _cancel_rival(self) -> None:
        """The first target serves, or the request has ended: the rival's call ends, and is booked."""
        rival, exchange = self._rival, self._exchange
        if rival is None:
            return
        rival.call.interrupt(End.OUTPACED)
        self._gateway.watcher.remove(rival.call)
        _book_loser(rival, exchange, self._gateway.snapshot)
        exchange.attempts.sendings[-1:-1] = rival.attempts.sendings
        note_outcome(exchange, self._rival_target, Candidate.INTERRUPTED, Outpaced())
        exchange.attempts.outcomes.update(rival.attempts.outcomes)  # if it has failed

    def _forget_rival(self) -> None:
        """Both have failed: the rival is not asked again."""
        rival, exchange = self._rival, self._exchange
        if rival is None:
            return
        exchange.attempts.sendings[-1:-1] = rival.attempts.sendings
        exchange.attempts.outcomes.update(rival.attempts.outcomes)
        exchange.attempts.targets = tuple(
            target for target in exchange.candidates if target.key != self._rival_target.key
        )

    def _adopt_rival(self, target: Target) -> None:
        """The rival serves: its call and its attempt become the request's. The answer is not cached as the first's."""
        rival, exchange = self._rival, self._exchange
        assert rival is not None
        self._gateway.watcher.remove(exchange.call)
        if exchange.attempts.sendings[-1].error is None:  # even if its whole answer came just too late
            note_outcome(exchange, target, Candidate.INTERRUPTED, Outpaced())
        _book_loser(exchange, exchange, self._gateway.snapshot)
        if exchange.attempts.sending is not None:
            exchange.attempts.sending.note_first_token()  # otherwise slow times would not count
            exchange.attempts.sending.end()
        exchange.call = rival.call
        exchange.add_timings(rival)
        _take_over(exchange.attempts, rival.attempts)
        leave_flight(exchange, self._gateway)


def _copy(exchange: Exchange, target: Target) -> Exchange:
    """The same request for another target, with a call that ends at the same time and for the same client."""
    call = Call(client=exchange.call.client, total_seconds=0)
    call.started, call.total_deadline = exchange.call.started, exchange.call.total_deadline
    call.owner = exchange.call.owner
    attempts = Attempts(position=exchange.attempts.position, target=target)
    return replace(exchange, call=call, attempts=attempts, timings=[], is_rival=True)


def _take_over(attempts: Attempts, winner: Attempts) -> None:
    attempts.sendings += winner.sendings
    attempts.target, attempts.response, attempts.sending = winner.target, None, winner.sending
    attempts.answer, attempts.stream = winner.answer, winner.stream
    attempts.dropped, attempts.added = winner.dropped, winner.added


def _book_loser(loser: Exchange, exchange: Exchange, snapshot: Snapshot) -> None:
    """End the loser's attempt, and book what it has cost."""
    for attempt in loser.attempts.sendings[-1:]:
        if attempt.error is None:
            answer = loser.attempts.answer if attempt.ended_at else None
            attempt.ended_at, attempt.error = attempt.ended_at or perf_counter(), Outpaced()
            attempt.cost = _loser_cost(attempt, answer, exchange, snapshot)
            exchange.attempts.hedge_cost = total_cost(exchange.attempts.hedge_cost, attempt.cost)


def _loser_cost(attempt: Attempt, answer: ClientResponse | None, exchange: Exchange, snapshot: Snapshot) -> Cost:
    """The cost of its whole answer, if that came just too late; otherwise an estimate, since it has read the input."""
    assert exchange.request is not None
    price = snapshot.price(attempt.target, time.time())
    if answer is not None and answer.usage is not None:
        return cost(answer.usage, price)
    return cost(Usage(input=input_tokens(exchange.request), output=0), price, estimated=True)


def _close_response(exchange: Exchange) -> None:
    if exchange.attempts.stream is not None:
        exchange.attempts.stream.provider_response.close()
