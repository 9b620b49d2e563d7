"""What a request used and cost, once it has ended: reported by the provider, or estimated and marked so."""

import re
from decimal import Decimal
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway_project.errors import UpstreamError
from providers.calls import End
from providers.formats import Usage, WorkRequest
from providers.formats.base import COUNT_TOKENS
from providers.prices import KNOWN, NOT_KNOWN, NOTHING, Cost, cost

if TYPE_CHECKING:
    from gateway_project.work.exchange import Exchange
    from gateway_project.work.snapshot import Snapshot

# Where the text of a request stands; the rest of its body are numbers and switches.
TEXTS = ("messages", "prompt", "input", "system", "instructions", "tools", "functions", "texts", "contents")
CHARACTERS_A_TOKEN = 4
FILE = re.compile(r"data:[^,\s]{0,200};base64,")
# How a call ends that its provider was at work on: it has read the request, and is not heard any more.
WORKED_ON = {End.CLIENT_CLOSED, End.FIRST_BYTE, End.IDLE, End.ATTEMPT, End.TOTAL, End.STOPPING}


class Bill(NamedTuple):
    """Tokens and money of one request; `cost` is None where nothing was bought: no provider did any work."""

    usage: Usage | None = None
    estimated: bool = False  # whether the usage, or a part of it, was not reported
    cost: Cost | None = None
    saved: Decimal | None = None  # what a stored answer would have cost, in the same currency; None: nobody knows


NOTHING_BOUGHT = Bill()
NOBODY_KNOWS = Bill(cost=NOT_KNOWN)


def bill_of(exchange: "Exchange", snapshot: "Snapshot") -> Bill:
    """The bill of a request that has ended, at the price of the moment when this is first asked."""
    if exchange.bill is None:
        exchange.bill = _bill(exchange, snapshot)
    return exchange.bill


def input_tokens(work: WorkRequest) -> int:
    """About how many tokens a request has: its texts, without what stands around them and without images."""
    return _tokens(sum(_characters(work.body[name]) for name in TEXTS if name in work.body))


def _bill(exchange: "Exchange", snapshot: "Snapshot") -> Bill:
    answer = exchange.answer
    if exchange.cached_answer is not None:
        price = snapshot.price(exchange.target, time())
        nothing = Cost(NOTHING, price.currency if price else "", KNOWN)
        return Bill(answer.usage, exchange.cached_answer.estimated, nothing, cost(answer.usage, price).amount)
    if not exchange.attempts or exchange.target is None or exchange.request.operation == COUNT_TOKENS:
        return NOTHING_BOUGHT
    counted = exchange.error.usage if isinstance(exchange.error, UpstreamError) else None
    if answer is None and counted is None:
        return _unanswered(exchange)
    usage = counted or _whole(exchange)
    estimated = not counted and usage is not answer.usage
    return Bill(usage, estimated, cost(usage, snapshot.price(exchange.target, time()), estimated=estimated))


def _unanswered(exchange: "Exchange") -> Bill:
    """Nobody knows the cost; but limits of tokens could be evaded by whoever leaves before the first byte."""
    if isinstance(exchange.error, UpstreamError) and not exchange.error.may_have_worked:
        return NOTHING_BOUGHT
    if exchange.call.end in WORKED_ON:
        return Bill(Usage(input_tokens(exchange.request)), estimated=True, cost=NOT_KNOWN)
    return NOBODY_KNOWS


def _whole(exchange: "Exchange") -> Usage:
    """The usage as it was reported, where all of it was; else what was reported with the missing parts estimated."""
    usage, request = exchange.answer.usage or Usage(), exchange.request
    missing = {}
    if usage.input is None:
        missing["input"] = max(input_tokens(request) - usage.all_input, 0)  # without what a cache had a part in
    if usage.output is None or _was_cut(exchange):
        written = _tokens(_written(exchange))
        if written or request.operation != "embedding":  # which it may only be called, where nobody knows the shape
            # A stream that was cut has said at most what it had counted when it began.
            missing["output"] = max(usage.output or 0, written)
    return usage._replace(**missing) if missing else usage


def _was_cut(exchange: "Exchange") -> bool:
    return exchange.stream is not None and not exchange.stream.reader.done


def _written(exchange: "Exchange") -> int:
    """How many characters the model wrote; calls of tools count as they stand in the answer.

    Of a stream that is longer than what is kept of it, the rest counts as what is kept does.
    """
    answer = exchange.answer
    if exchange.stream is None:
        return len(answer.text or (answer.body if answer.finish_reason == "tool" else ""))
    characters = len(exchange.stream.reader.generated_text(answer.body))
    return characters * exchange.sent_bytes // max(len(answer.body), 1)


def _tokens(characters: int) -> int:
    """About how many tokens these are: four characters each, as in the languages and tokenisers in common use."""
    return -(-characters // CHARACTERS_A_TOKEN)


def _characters(value: Any) -> int:
    """The characters of all texts in a JSON value; a file inside of it, base64 of a picture, is no text."""
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            total += 0 if FILE.match(one) else len(one)
        elif isinstance(one, dict):
            waiting += [inner for name, inner in one.items() if name not in ("data", "file_data")]
        elif isinstance(one, list):
            waiting += one
        elif type(one) is int:  # a text that came as tokens
            total += CHARACTERS_A_TOKEN
    return total
