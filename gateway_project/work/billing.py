"""The usage and cost of a request that has ended: reported by the provider, or estimated and marked as such."""

from time import time

from gateway_project.errors import UpstreamError
from gateway_project.work.bill import COST_UNKNOWN, NOTHING_BOUGHT, Bill
from gateway_project.work.exchange import Exchange
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.token_estimates import input_tokens, tokens_of
from providers.formats import Answer, Usage, WorkRequest
from providers.formats.base import COUNT_TOKENS
from providers.pricing.prices import KNOWN, NOT_KNOWN, NOTHING, Cost, cost
from providers.transport.calls import End

# The ends of a call after which its provider has read the request and may have worked on it.
WORKED_ON = {End.CLIENT_CLOSED, End.FIRST_BYTE, End.IDLE, End.ATTEMPT, End.TOTAL, End.STOPPING}


def bill_of(exchange: Exchange, snapshot: Snapshot) -> Bill:
    """The bill of a request that has ended, at the price when this is first called."""
    if exchange.bill is None:
        exchange.bill = _bill(exchange, snapshot)
    return exchange.bill


def _bill(exchange: Exchange, snapshot: Snapshot) -> Bill:
    answer = exchange.answer
    if exchange.cached_answer is not None:
        assert exchange.target is not None
        assert answer is not None
        price = snapshot.price(exchange.target, time())
        nothing = Cost(NOTHING, price.currency if price else "", KNOWN)
        return Bill(answer.usage, exchange.cached_answer.estimated, nothing, cost(answer.usage, price).amount)
    request = exchange.request
    if not exchange.attempts or exchange.target is None or request is None or request.operation == COUNT_TOKENS:
        return NOTHING_BOUGHT
    if exchange.subscription is not None:  # of a stream that it did not get to its end; its leader pays
        return NOTHING_BOUGHT
    counted = exchange.error.usage if isinstance(exchange.error, UpstreamError) else None
    if counted:
        usage, estimated = counted, False
    elif answer is None:
        return _unanswered(exchange, request)
    else:
        usage = _complete_usage(exchange, request, answer)
        estimated = usage is not answer.usage
    return Bill(usage, estimated, cost(usage, snapshot.price(exchange.target, time()), estimated=estimated))


def _unanswered(exchange: Exchange, request: WorkRequest) -> Bill:
    """The cost is unknown; the input tokens count, so that leaving before the first byte does not evade limits."""
    if isinstance(exchange.error, UpstreamError) and not exchange.error.may_have_worked:
        return NOTHING_BOUGHT
    if exchange.call.end in WORKED_ON:
        return Bill(Usage(input_tokens(request)), estimated=True, cost=NOT_KNOWN)
    return COST_UNKNOWN


def _complete_usage(exchange: Exchange, request: WorkRequest, answer: Answer) -> Usage:
    """The reported usage, with estimates for the parts that were not reported."""
    usage = answer.usage or Usage()
    if usage.input is None:
        # Without tokens that were reported as cached.
        usage = usage._replace(input=max(input_tokens(request) - usage.all_input, 0))
    if usage.output is None or _was_cut_off(exchange):
        written = tokens_of(_written_characters(exchange, answer))
        if written or request.operation != "embedding":  # on /work the operation is only a guess
            # A stream that was cut off has at most reported the count at its beginning.
            usage = usage._replace(output=max(usage.output or 0, written))
    return usage


def _was_cut_off(exchange: Exchange) -> bool:
    return exchange.stream is not None and not exchange.stream.reader.done


def _written_characters(exchange: Exchange, answer: Answer) -> int:
    """How many characters the model wrote, including tool calls; extrapolated for a stream of which a part is kept."""
    if exchange.stream is None:
        return len(answer.text or (answer.body if answer.finish_reason == "tool" else ""))
    characters = len(exchange.stream.reader.generated_text(answer.body))
    return characters * exchange.sent_bytes // max(len(answer.body), 1)
