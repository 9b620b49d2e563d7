"""The usage and cost of a request that has ended: reported by the provider, or estimated and marked as such."""

from math import ceil
from time import time

from gateway_project.errors import UnusableAnswer, UpstreamError
from gateway_project.work.bill import COST_UNKNOWN, NOTHING_BOUGHT, Bill, total_cost
from gateway_project.work.exchange import Exchange
from gateway_project.work.limits.demand import estimate_demand
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.token_estimates import input_tokens, tokens_in
from providers.formats import ClientResponse, Usage, WorkRequest
from providers.formats.dialect import COUNT_TOKENS
from providers.pricing.prices import KNOWN, NOT_KNOWN, NOTHING, Cost, cost
from providers.transport.calls import End

# The ends of a call after which its provider has read the request and may have worked on it.
CLIENT_ENDS = {End.CLIENT_CLOSED, End.TOTAL, End.REVOKED}  # ended by the client, who may revoke a key of their own, too
ENDS_AFTER_WORK = {*CLIENT_ENDS, End.FIRST_BYTE, End.IDLE, End.ATTEMPT, End.STOPPING}


def bill_of(exchange: Exchange, snapshot: Snapshot) -> Bill:
    """The bill of a request that has ended, at the price when this is first called."""
    if exchange.bill is None:
        bill, hedge_cost = _bill(exchange, snapshot), exchange.attempts.hedge_cost
        exchange.bill = bill if hedge_cost is None else _with_hedge(bill, hedge_cost)
    return exchange.bill


def bill_both(exchange: Exchange, repair: Exchange, snapshot: Snapshot) -> Bill:
    """Bill the request for the answer of a copy as well, whose own bill this returns."""
    other = bill_of(repair, snapshot)
    exchange.bill = bill_of(exchange, snapshot).with_other(other)
    return other


def _with_hedge(bill: Bill, hedge_cost: Cost) -> Bill:
    """The bill with what a second target has cost that worked in vain.

    If that is not known, or in another currency, the bill says that it is estimated.
    """
    own = bill.cost
    if own is not None and own.amount is None:
        return bill
    return bill._replace(
        cost=total_cost(own, hedge_cost), cost_of_server=own or Cost(NOTHING, hedge_cost.currency, KNOWN)
    )


def _bill(exchange: Exchange, snapshot: Snapshot) -> Bill:
    answer, target = exchange.answer, exchange.target
    if exchange.cache.hit is not None:
        assert target is not None
        assert answer is not None
        price = snapshot.price(target, time())
        nothing = Cost(NOTHING, price.currency if price else "", KNOWN)
        return Bill(answer.usage, exchange.cache.hit.estimated, nothing, cost(answer.usage, price).amount)
    request = exchange.request
    if not exchange.attempts.sendings or target is None or request is None or request.operation == COUNT_TOKENS:
        return NOTHING_BOUGHT
    if exchange.cache.subscription is not None:  # it left a stream that its leader pays for
        return NOTHING_BOUGHT
    error_usage = exchange.error.usage if isinstance(exchange.error, UpstreamError) else None
    if error_usage:
        usage, estimated = error_usage, False
    elif answer is None:
        return _bill_without_answer(exchange, request, snapshot)
    else:
        usage = _complete_usage(exchange, request, answer)
        estimated = usage is not answer.usage
    return Bill(usage, estimated, cost(usage, snapshot.price(target, time()), estimated=estimated))


def _bill_without_answer(exchange: Exchange, request: WorkRequest, snapshot: Snapshot) -> Bill:
    """The cost is unknown. The input tokens count, so that nobody evades limits by leaving before the first byte.

    Under a limit of tokens or cost, a client that leaves or sets a deadline pays what was reserved. So does one whose
    whole answer came but cannot be passed on; of an embedding the input is all there is to pay.
    """
    if isinstance(exchange.error, UpstreamError) and not exchange.error.may_have_worked:
        return NOTHING_BOUGHT
    reserved_output, end = exchange.limits.reserved_output, exchange.call.end
    is_here = isinstance(exchange.error, UnusableAnswer)
    if (reserved_output and (is_here or end in CLIENT_ENDS)) or (is_here and request.operation == "embedding"):
        return _estimate_bill(exchange, Usage(_input_estimate(exchange, request), output=reserved_output), snapshot)
    if is_here or end in ENDS_AFTER_WORK:
        return Bill(Usage(_input_estimate(exchange, request)), estimated=True, cost=NOT_KNOWN)
    return COST_UNKNOWN


def _estimate_bill(exchange: Exchange, usage: Usage, snapshot: Snapshot) -> Bill:
    assert exchange.target is not None
    return Bill(usage, estimated=True, cost=cost(usage, snapshot.price(exchange.target, time()), estimated=True))


def _complete_usage(exchange: Exchange, request: WorkRequest, answer: ClientResponse) -> Usage:
    """The reported usage, with estimates for the parts that were not reported."""
    usage = answer.usage or Usage()
    if usage.input is None:
        # Without tokens that were reported as cached.
        usage = usage._replace(input=max(_input_estimate(exchange, request) - usage.all_input, 0))
    if usage.output is None or _was_cut_off(exchange):
        output = max(_written_tokens(exchange, answer), _unseen_tokens(exchange, request))
        if output or request.operation != "embedding":  # on /work the operation is only a guess
            # A stream that was cut off has at most reported the count at its beginning.
            usage = usage._replace(output=max(usage.output or 0, output))
    return usage


def _input_estimate(exchange: Exchange, request: WorkRequest) -> int:
    """The estimated input, or what a strict limit has reserved for it if that is more."""
    return max(input_tokens(request), exchange.limits.reserved_input)


def _was_cut_off(exchange: Exchange) -> bool:
    """Whether the answer is a stream that neither reached its end nor reported all of its usage."""
    stream = exchange.attempts.stream
    if stream is None or stream.reader.done:
        return False
    usage = stream.reader.usage
    return not stream.reader.finish_reason or usage is None or usage.output is None


def _unseen_tokens(exchange: Exchange, request: WorkRequest) -> int:
    """The reserved tokens of an answer whose usage is unknown: nobody sees how much a model reasoned.

    A stream may lack its usage because the client did not ask for it.
    """
    if request.runs_in_background:  # the provider goes on with it
        return estimate_demand(request).output
    return exchange.limits.reserved_output


def _written_tokens(exchange: Exchange, answer: ClientResponse) -> int:
    """What the model wrote, including tool calls; extrapolated for a stream of which a part is kept."""
    stream = exchange.attempts.stream
    if stream is None:
        text = answer.text or (answer.body if answer.finish_reason == "tool" else b"")
        return tokens_in([text if isinstance(text, str) else text.decode(errors="replace")])
    tokens = tokens_in([stream.reader.generated_text(answer.body)])
    return ceil(tokens * exchange.delivery.size / max(len(answer.body), 1))
