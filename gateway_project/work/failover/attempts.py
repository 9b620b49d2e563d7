"""Each sending of a request to a provider: when it began and how it ended, for the log, the metrics and the health."""

from time import perf_counter, time

from gateway_project.errors import GatewayError, ProviderOverloaded, UpstreamError, drop_frames
from gateway_project.work.bill import Bill
from gateway_project.work.exchange import Attempt, Exchange
from gateway_project.work.failover.causes import cause_of
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.content import loggable_message
from gateway_project.work.log.secret_masking import mask_secrets_in_message
from gateway_project.work.log.timestamps import as_timings, milliseconds
from gateway_project.work.snapshot.records import Snapshot, Target
from providers.pricing.prices import NOT_KNOWN, Cost, cost
from providers.transport.calls import AttemptTimes, End
from providers.transport.provider_response import NotReceived
from telemetry.attempts import ANSWERED, INTERRUPTED, REJECTED, LoggedAttempt, Timing
from telemetry.metrics.attempts import AttemptFailure, AttemptStart, AttemptSuccess, Subject
from telemetry.metrics.sums import OTHER

MAX_LOGGED, MESSAGE_LENGTH = 20, 300
NO_COST = Cost(None, "", "")  # nothing was bought
STEPS = ("connect", "tls", "first_byte", "first_token", "last_token")


def begin_attempt(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """Note that the request is being sent."""
    exchange.attempts.sendings.append(attempt := Attempt(target, perf_counter()))
    exchange.call.times = attempt.times
    gateway.metrics.note_attempt(AttemptStart(subject_of(target)))


def note_answer(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """Note that the provider answers; a stream goes on, so its attempt ends with the request."""
    if exchange.attempts.stream is None:
        _end(exchange, None)
    gateway.metrics.note_attempt(AttemptSuccess(subject_of(target), time()))


def note_failure(exchange: Exchange, gateway: Gateway, target: Target, error: GatewayError) -> None:
    """Note that the last attempt failed; a provider that refuses the request for what it asks works."""
    sendings = exchange.attempts.sendings
    if not sendings or sendings[-1].target is not target or sendings[-1].error is not None:  # nothing was sent
        return
    _end(exchange, error)
    if not is_failure(error):
        gateway.metrics.note_attempt(AttemptSuccess(subject_of(target), time()))
        return
    is_broken = exchange.call.end is not End.TOTAL and _is_broken(error)
    gateway.metrics.note_attempt(failure_event(target, error, loggable_message(error, exchange), is_broken=is_broken))


def note_cost(exchange: Exchange, cost: Cost | None) -> None:
    """Note what the last attempt has cost of a request whose bill is for several answers."""
    exchange.attempts.sendings[-1].cost = cost


def take_answer(exchange: Exchange, repair: Exchange) -> None:
    """Answer the request with that of a copy, which has asked the same target once more."""
    exchange.attempts.answer, exchange.attempts.dropped = repair.attempts.answer, repair.attempts.dropped


def failure_event(
    target: Target, error: GatewayError, message: str, *, is_broken: bool, is_check: bool = False
) -> AttemptFailure:
    """The event of a failure. Its message, which may name internal addresses, is for administrators."""
    cause = error.__cause__
    context = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    text = mask_secrets_in_message(target.provider.redact(f"{message}{context}"))[:MESSAGE_LENGTH]
    return AttemptFailure(subject_of(target), time(), error.exception, text, is_broken, is_check)


def subject_of(target: Target) -> Subject:
    """Whom an attempt asks. A linked key may name any model: those that the provider does not have are `other`."""
    provider, model = target
    return Subject(provider.id, provider.name, model if model in provider.models else OTHER)


def logged_attempts(exchange: Exchange, bill: Bill, snapshot: Snapshot) -> list[LoggedAttempt]:
    """The attempts of a request that has ended, as its log entry has them."""
    sendings = exchange.attempts.sendings
    if sendings and exchange.error is not None and sendings[-1].error is None and not exchange.is_from_others:
        sendings[-1].error = exchange.error
    return [_attempt_record(attempt, exchange, bill, snapshot) for attempt in sendings[:MAX_LOGGED]]


def failure_count(exchange: Exchange) -> int:
    """How many attempts failed."""
    return sum(is_failure(attempt.error) for attempt in exchange.attempts.sendings)


def is_failure(error: GatewayError | None) -> bool:
    """Whether this is the end of an attempt that failed, and not one whose request was refused or whose client left."""
    return isinstance(error, UpstreamError) and error.allows_failover


def _attempt_record(attempt: Attempt, exchange: Exchange, bill: Bill, snapshot: Snapshot) -> LoggedAttempt:
    provider, error = attempt.target.provider, attempt.error
    ended = attempt.ended_at or perf_counter()
    status, cause, exception = (200, ANSWERED, "") if error is None else (error.code, _cause(error), error.exception)
    amount, currency, cost_status = _cost(attempt, exchange, bill, snapshot) or NO_COST
    return LoggedAttempt(
        provider.id,
        provider.name,
        provider.credential_id,
        attempt.target.model,
        status,
        cause,
        exception,
        milliseconds(attempt.started_at - exchange.started),
        milliseconds(ended - attempt.started_at),
        None if amount is None else f"{amount:f}",
        currency,
        cost_status,
        _steps(attempt.times, attempt.started_at, exchange.started),
    )


def _steps(times: AttemptTimes, started_at: float, zero: float) -> list[Timing]:
    """The steps that the attempt came to, one after the other."""
    steps, connected = [], times.connected if times.connect_begun else 0.0
    ends = (connected, times.tls_ended, times.first_byte, times.first_token, times.last_token)
    for name, moment in zip(STEPS, ends, strict=True):
        if moment:
            end = max(moment, started_at)  # the first text may be noticed after the last piece has come
            steps.append((name, started_at, end))
            started_at = end
    return as_timings(steps, zero)


def _cost(attempt: Attempt, exchange: Exchange, bill: Bill, snapshot: Snapshot) -> Cost | None:
    """The cost of the attempt; of the attempt that served, that of the bill."""
    if attempt.cost is not None:
        return attempt.cost
    is_billed = attempt is exchange.attempts.sendings[-1] and exchange.target is attempt.target
    if is_billed and not exchange.is_from_others:
        return bill.cost_of_server or bill.cost
    error = attempt.error
    if not isinstance(error, UpstreamError) or not error.may_have_worked:
        return None
    return cost(error.usage, snapshot.price(attempt.target, time())) if error.usage else NOT_KNOWN


def _cause(error: GatewayError) -> str:
    """Why an attempt failed, in one word."""
    if not isinstance(error, UpstreamError):
        return INTERRUPTED
    return cause_of(error) or REJECTED


def _is_broken(error: GatewayError) -> bool:
    """Whether it is a failure of the provider: not if the provider asks for a pause, or closed an idle connection."""
    has_asked_for_pause = isinstance(error, ProviderOverloaded) and error.retry_after is not None
    return not has_asked_for_pause and not isinstance(error, NotReceived)


def _end(exchange: Exchange, error: GatewayError | None) -> None:
    drop_frames(error)
    attempt = exchange.attempts.sendings[-1]
    attempt.ended_at, attempt.error = perf_counter(), error
