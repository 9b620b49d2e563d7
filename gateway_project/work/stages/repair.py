"""An answer that a guardrail refuses is asked for once more: the same model gets it back, with what is wrong with it.

Both answers are sendings of the same request, within its time: it is billed for both.
"""

from dataclasses import replace
from decimal import Decimal

from gateway_project.errors import GatewayError
from gateway_project.work.billing import bill_both, bill_of
from gateway_project.work.exchange import Attempts, Exchange, Selection
from gateway_project.work.failover.attempts import note_cost, take_answer
from gateway_project.work.failover.candidates import ask_candidate
from gateway_project.work.failover.provider_call import interruption_error
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.answers import note_repair
from gateway_project.work.guardrails.refusals import Refusal, is_valid_answer, may_repair, refusal_of
from gateway_project.work.snapshot.records import Target
from providers.formats import WorkRequest
from providers.formats.json_values import dump_value
from providers.pricing.prices import KNOWN, Cost
from providers.transport.calls import End, Interrupted

QUESTION = (
    "Your last answer cannot be read by the program that asked for it. {problem}\n"
    "Send the whole answer again: JSON alone, without other text and without a Markdown fence."
)
# The ends of a call after which nobody waits for an answer.
UNAWAITED_ENDS = (End.CLIENT_CLOSED, End.REVOKED, End.STOPPING)


def repair_answer(exchange: Exchange, gateway: Gateway) -> None:
    """Ask for another answer if a guardrail wants that, and take it if it is valid; otherwise the first one stays."""
    guarding, answer, target = exchange.guarding, exchange.attempts.answer, exchange.attempts.target
    side = None if guarding is None else guarding.applicable.answers
    if guarding is None or side is None or answer is None or target is None or not side.repairing:
        return
    refusal = refusal_of(answer, side)
    assert exchange.request is not None
    # A strict limit has room for one answer.
    is_strict = exchange.limits.is_strict
    if refusal is None or is_strict or not may_repair(exchange.request) or not exchange.call.prepare_retry():
        return
    repair = _copy(exchange, _correct_request(exchange.request, refusal), target)
    _ask_again(exchange, repair, gateway, target)
    second = repair.attempts.answer
    is_valid = second is not None and is_valid_answer(second, side)
    if is_valid:
        take_answer(exchange, repair)
    note_repair(guarding, refusal.guardrails, is_valid=is_valid)


def _correct_request(request: WorkRequest, refusal: Refusal) -> WorkRequest:
    """The request with the answer and the next question."""
    member = request.dialect.conversation
    messages = request.body[member]
    question = QUESTION.format(problem=refusal.problem)
    more = [{"role": "assistant", "content": refusal.text}, {"role": "user", "content": question}]
    earlier = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    body = {**request.body, member: [*earlier, *more]}
    return replace(request, body=body, raw=dump_value(body))


def _copy(exchange: Exchange, request: WorkRequest, target: Target) -> Exchange:
    """The exchange of the second question, with a bill of its own; it adds to the same list of sendings."""
    attempts = Attempts(target=target, sendings=exchange.attempts.sendings)
    return replace(exchange, request=request, selection=Selection((target,)), attempts=attempts, bill=None)


def _ask_again(exchange: Exchange, repair: Exchange, gateway: Gateway, target: Target) -> None:
    """Ask, and bill both answers. Raises Interrupted if nobody waits any more; other failures are the attempt's."""
    first = bill_of(exchange, gateway.snapshot)
    note_cost(exchange, first.cost_of_server or first.cost)
    count = exchange.attempts.count
    gateway.watcher.add(exchange.call)
    try:
        ask_candidate(repair, gateway, target)
    except (GatewayError, Interrupted) as error:
        repair.end(interruption_error(error) if isinstance(error, Interrupted) else error)
        if isinstance(error, Interrupted) and error.end in UNAWAITED_ENDS:
            raise
    finally:
        repair.attempts.end_sending()
        if exchange.attempts.count > count:
            second = bill_both(exchange, repair, gateway.snapshot)
            note_cost(exchange, second.cost or Cost(Decimal(0), "", KNOWN))
