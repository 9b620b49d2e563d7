"""What a request may come to, before anybody has worked on it: so much is reserved of limits on tokens and cost."""

from collections.abc import Sequence
from math import ceil
from operator import attrgetter
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings

from gateway_project.work.bill import input_tokens
from gateway_project.work.limit_book import NANO, TOKENS
from gateway_project.work.limits import MAX_AMOUNT, RESERVE, LimitCheck
from providers.formats import Usage, WorkRequest
from providers.formats.base import COUNT_TOKENS
from providers.prices import cost_of

if TYPE_CHECKING:
    from gateway_project.work.snapshot import Snapshot, Target

# Where the dialects of clients and providers say how long an answer may be, and in which objects.
BOUND_FIELDS = (
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens"),
    *("maxTokens", "maxOutputTokens", "num_predict"),
)
NESTED_OBJECTS = ("options", "generationConfig", "generation_config", "inferenceConfig")
MAX_ANSWERS = 128


class Demand(NamedTuple):
    """Tokens of a request: what is sent, and what may come back; `bounded` where the client said how much."""

    input: int
    output: int
    bounded: bool

    @property
    def total(self) -> int:
        return self.input + self.output


def estimate_demand(work: WorkRequest) -> Demand:
    """About how much the request asks for."""
    if work.operation == COUNT_TOKENS:
        return Demand(0, 0, True)
    sent = max(input_tokens(work), 1)
    if work.operation == "embedding":
        return Demand(sent, 0, True)
    bound = _bound(work.body)
    output = settings.GATEWAY_RESERVED_OUTPUT_TOKENS if bound is None else bound * _answers(work.body)
    return Demand(sent, output, bound is not None)


def with_reservations(
    checks: Sequence[LimitCheck], demand: Demand, targets: "Sequence[Target]", snapshot: "Snapshot"
) -> Sequence[LimitCheck]:
    """The checks with what this request has to reserve of them, of cost what it is at the dearest of the targets.

    A client that does not say how long its answer may be gets what there is, as long as its input finds room.
    """
    return [
        _reserving(check, demand, demand if check.limit.measure == TOKENS else _cost(demand, targets, snapshot))
        if check.kind == RESERVE
        else check
        for check in checks
    ]


def _reserving(check: LimitCheck, demand: Demand, amounts: Demand) -> LimitCheck:
    take = min(amounts.total, MAX_AMOUNT)
    return check._replace(take=take, minimum=take if demand.bounded else min(amounts.input, MAX_AMOUNT))


def _cost(demand: Demand, targets: "Sequence[Target]", snapshot: "Snapshot") -> Demand:
    """What it may cost at most, in billionths; nothing where no price is known."""
    most = Demand(0, 0, demand.bounded)
    for target in targets:
        price = snapshot.price(target, time())
        if price is not None:
            whole = ceil(cost_of(Usage(input=demand.input, output=demand.output), price) * NANO)
            alone = ceil(cost_of(Usage(input=demand.input), price) * NANO)
            most = max(most, Demand(alone, whole - alone, demand.bounded), key=attrgetter("total"))
    return most


def _bound(body: dict[str, Any]) -> int | None:
    """The largest of the bounds that the body names, None where it names none."""
    places = [body, *(body[name] for name in NESTED_OBJECTS if isinstance(body.get(name), dict))]
    bounds = [
        place[name] for place in places for name in BOUND_FIELDS if type(place.get(name)) is int and place[name] > 0
    ]
    return max(bounds, default=None)


def _answers(body: dict[str, Any]) -> int:
    """How many answers are asked for at once; a number below one, which providers refuse, takes nothing back."""
    numbers = [body[name] for name in ("n", "best_of") if type(body.get(name)) is int]
    return min(max(1, *numbers), MAX_ANSWERS) if numbers else 1
