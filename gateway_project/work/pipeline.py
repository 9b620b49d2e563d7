"""The pipeline of a work request. Read this first.

The stages in order, with the numbers of the specification's nine; those without a number are our own. A stage reads
what earlier ones wrote into the exchange and writes its own part of it (exchange.py); when something is wrong it raises
an error. Each stands in stages/, apart from read_request() and call_candidates(), which are the packages reading/ and
failover/. The limits belong to stage 1, but depend on the candidates: they are checked once these are chosen.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import NamedTuple

from gateway_project.errors import GatewayError, InternalError, LimitError, ServiceUnavailable
from gateway_project.server.http_delivery import Delivery
from gateway_project.work.cache.flights import FlightPending
from gateway_project.work.cache.storing import end_flight, wait_until_stored
from gateway_project.work.exchange import Exchange
from gateway_project.work.failover.candidates import call_candidates
from gateway_project.work.failover.provider_call import interruption_error
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.admission import count_request
from gateway_project.work.limits.settlement import uncount_request
from gateway_project.work.log.entry import CANNOT_BE_LOGGED, write_log
from gateway_project.work.reading.request import read_request
from gateway_project.work.routing.mirrors import MirroredBody
from gateway_project.work.stages.authentication import authenticate
from gateway_project.work.stages.cache import look_up_cache, store_answer
from gateway_project.work.stages.candidates import choose_candidates
from gateway_project.work.stages.guardrails import guard_answer, guard_request
from gateway_project.work.stages.limits import reserve_limits
from gateway_project.work.stages.ownership import check_references, record_kept
from gateway_project.work.stages.repair import repair_answer
from gateway_project.work.stages.rules import apply_rules
from gateway_project.work.streaming.delivery import deliver_later, deliver_response
from providers.transport.calls import End, Interrupted
from telemetry.journal.files import JournalFull

log = logging.getLogger("gateway.work")

Step = Callable[[Exchange, Gateway], None]


class Stage(NamedTuple):
    """A stage with its name in Server-Timing and the log.

    Stages that most requests pass untouched have no name. call_candidates() names its steps itself: provider, response,
    limits, cache. Guardrails are named when they search.
    """

    run: Step
    name: str = ""


STAGES = (
    Stage(authenticate, "auth"),  # 1. whose request is this?
    Stage(read_request, "request"),  # 2. what is asked for?
    Stage(apply_rules, "rules"),  # 3. may they ask this model of one of these providers?
    Stage(guard_request),  # do guardrails redact or block it?
    Stage(choose_candidates, "select"),  # 4. which of them, best first?
    Stage(check_references),  # does the state that it refers to belong to this user?
    Stage(reserve_limits, "limits"),  # part of 1.: is there room in the limits? Reserve it
    Stage(look_up_cache, "cache"),  # 5. with a cached answer no provider is called
    Stage(call_candidates),  # 6. and 7. one after the other is called, until one has begun to answer
    Stage(repair_answer),  # does a guardrail want a second answer?
    Stage(record_kept),  # note that this user owns the state that the provider stores
    Stage(guard_answer),  # which part of the answer does this client get?
    Stage(store_answer, "store"),  # 8. cache a new answer
)  # 9. delivery: deliver_response(); and the log: write_log()


def position_of(step: Step) -> int:
    """The position of its stage among all of them."""
    return [stage.run for stage in STAGES].index(step)


def serve_request(exchange: Exchange, gateway: Gateway) -> Delivery:
    """Run the stages, write the log entry, and return what the client gets."""
    gateway.metrics.request_started()
    run_stages(exchange, gateway, STAGES)
    waits = exchange.cache.wait is not None
    delivery = (
        deliver_later(exchange, partial(_resume, exchange, gateway)) if waits else finish_request(exchange, gateway)
    )
    alias = exchange.decision.alias
    if alias is not None and alias.mirror is not None:
        delivery.body = MirroredBody(delivery.body, partial(gateway.mirrors.offer, exchange, alias, alias.mirror))
    return delivery


def _resume(exchange: Exchange, gateway: Gateway) -> Delivery | None:
    """Go on with a request that waits for another one's answer; None if it still waits."""
    step = call_candidates if exchange.attempts.position else look_up_cache
    run_stages(exchange, gateway, STAGES[position_of(step) :])
    return None if exchange.cache.wait else finish_request(exchange, gateway)


def finish_request(exchange: Exchange, gateway: Gateway) -> Delivery:
    """The response to a request whose stages have run. Its entry is written, that of a stream once it has ended."""
    if (exchange.attempts.stream or exchange.cache.subscription) and exchange.error is None:
        return deliver_response(exchange, gateway)  # the entry is written when the stream has ended
    gateway.watcher.remove(exchange.call)
    end_flight(exchange, gateway, exchange.error if exchange.outcome != "client_closed" else None)
    if isinstance(exchange.error, LimitError):  # of a provider, or while it was to take over from another request
        uncount_request(exchange, gateway)
    if not _write_log(exchange, gateway):
        uncount_request(exchange, gateway)
        exchange.end(ServiceUnavailable(CANNOT_BE_LOGGED), exchange.outcome)
    return deliver_response(exchange, gateway)


def _write_log(exchange: Exchange, gateway: Gateway) -> bool:
    """Write the entry while the shared state stores the answer; False if the journal has no room for it.

    Where the entry waits for guardrail services, the answer is stored first: until then Redis' connection is taken.
    """
    if exchange.guarding is not None:
        wait_until_stored(exchange)
    try:
        write_log(exchange, gateway)
        return True
    except JournalFull:
        return False
    finally:
        if exchange.cache.storing is not None:
            wait_until_stored(exchange)


def run_stages(exchange: Exchange, gateway: Gateway, stages: Sequence[Stage]) -> None:
    """Run the stages; an error ends the run and becomes the exchange's."""
    try:
        _run_stages(exchange, gateway, stages)
    except FlightPending:
        pass  # exchange.cache.wait is set
    except GatewayError as error:
        exchange.end(_limit_error_first(error, exchange, gateway))
    except Interrupted as interrupted:
        outcome = "client_closed" if interrupted.end is End.CLIENT_CLOSED else ""
        exchange.end(interruption_error(interrupted), outcome)
    except Exception as cause:
        log.exception("Request %s failed.", exchange.request_id)
        internal_error = InternalError()
        internal_error.__cause__ = cause
        exchange.end(internal_error)


def _run_stages(exchange: Exchange, gateway: Gateway, stages: Sequence[Stage]) -> None:
    name, started_at = "", 0.0
    try:
        for step, name in stages:
            started_at = perf_counter()
            step(exchange, gateway)
            if name:
                exchange.record_timing(name, started_at)
    except BaseException:
        if name:
            exchange.record_timing(name, started_at)
        raise


def _limit_error_first(error: GatewayError, exchange: Exchange, gateway: Gateway) -> GatewayError:
    """Count a request that failed before its limits were; an error of a limit takes precedence."""
    if isinstance(error, LimitError):
        return error
    try:
        count_request(exchange, gateway)
    except GatewayError as limit_error:
        return limit_error
    return error
