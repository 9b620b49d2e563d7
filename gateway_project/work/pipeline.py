"""The pipeline of a work request. Read this first.

The nine stages of the specification, in order. A stage reads what earlier ones wrote into the exchange and writes its
own fields; when something is wrong it raises an error.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

from gateway_project.errors import GatewayError, InternalError, ServiceUnavailable
from gateway_project.server.client_response import Delivery
from gateway_project.work.cache.flights import FlightPending
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.entry import CANNOT_BE_LOGGED, write_log
from gateway_project.work.stages.admission import admit
from gateway_project.work.stages.authentication import authenticate
from gateway_project.work.stages.cache import end_flight, look_up_cache, update_cache
from gateway_project.work.stages.counting import count_tokens
from gateway_project.work.stages.provider_call import call_provider, each_candidate, interruption_error
from gateway_project.work.stages.reading import read_request
from gateway_project.work.stages.response import read_response
from gateway_project.work.stages.routing import select_provider
from gateway_project.work.stages.rules import apply_rules
from gateway_project.work.streaming.delivery import deliver, deliver_later
from providers.transport.calls import End, Interrupted
from telemetry.journal.files import JournalFull

log = logging.getLogger("gateway.work")

Stage = Callable[[Exchange, Gateway], None]

STAGES: tuple[tuple[str, Stage], ...] = (
    ("auth", authenticate),  # 1. whose request is this, and within which limits?
    ("request", read_request),  # 2. what is asked for?
    ("rules", apply_rules),  # 3. may they ask this model of one of these providers?
    ("select", select_provider),  # 4. which of them, best first?
    ("cache", look_up_cache),  # 5. with a cached answer no provider is called
    ("", count_tokens),  # nor with an estimate, if only a number of tokens was asked for
    (
        "",
        each_candidate(  # one after the other, until one has begun to answer
            ("provider", call_provider),  # 6. call the provider
            ("response", read_response),  # 7. check and read its response
        ),
    ),
    ("store", update_cache),  # 8. cache a new answer
)  # 9. delivery: deliver(); and the log: write_log()
STAGES_FROM_CACHE = STAGES[4:]


def serve(exchange: Exchange, gateway: Gateway) -> Delivery:
    """Run the stages, write the log entry, and return what the client gets."""
    gateway.metrics.request_started()
    run(exchange, gateway, STAGES)
    if exchange.flight_wait:
        return deliver_later(exchange, partial(_resume, exchange, gateway))
    return _finish(exchange, gateway)


def _resume(exchange: Exchange, gateway: Gateway) -> Delivery | None:
    """Go on with a request that waits for another one's answer; None if it still waits."""
    run(exchange, gateway, STAGES_FROM_CACHE)
    return None if exchange.flight_wait else _finish(exchange, gateway)


def _finish(exchange: Exchange, gateway: Gateway) -> Delivery:
    if (exchange.stream or exchange.subscription) and exchange.error is None:
        return deliver(exchange, gateway)  # the entry is written when the stream has ended
    gateway.watcher.remove(exchange.call)
    end_flight(exchange, gateway, exchange.error if exchange.outcome != "client_closed" else None)
    try:
        write_log(exchange, gateway)
    except JournalFull:
        exchange.error = ServiceUnavailable(CANNOT_BE_LOGGED)
    return deliver(exchange, gateway)


def run(exchange: Exchange, gateway: Gateway, stages: Sequence[tuple[str, Stage]]) -> None:
    """Run the stages; an error ends the run and becomes the exchange's."""
    try:
        begun = perf_counter()
        for name, stage in stages:
            try:
                stage(exchange, gateway)
            finally:
                ended = perf_counter()
                if name:
                    exchange.timings.append((name, begun, ended))
            begun = ended
    except FlightPending:
        pass  # exchange.flight_wait is set
    except GatewayError as error:
        exchange.error = _limit_error_first(error, exchange, gateway)
    except Interrupted as interrupted:
        exchange.error = interruption_error(interrupted)
        exchange.outcome = "client_closed" if interrupted.end is End.CLIENT_CLOSED else ""
    except Exception as error:
        log.exception("Request %s failed.", exchange.request_id)
        exchange.error = InternalError()
        exchange.error.__cause__ = error


def _limit_error_first(error: GatewayError, exchange: Exchange, gateway: Gateway) -> GatewayError:
    """Count a request that failed before its limits were; an error of a limit takes precedence."""
    if exchange.limit_statuses is None and exchange.limits.checks:
        try:
            admit(exchange, gateway, calls_provider=False)
        except GatewayError as limited:
            return limited
    return error
