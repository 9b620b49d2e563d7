"""The estimated tokens and cost of a request before it is served; its limits reserve them."""

from collections.abc import Sequence
from math import ceil
from operator import attrgetter
from time import time
from typing import TYPE_CHECKING, NamedTuple

from django.conf import settings

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.work.limits.checks import MAX_AMOUNT, RESERVE, LimitCheck
from gateway_project.work.limits.kinds import COUNT_UNPRICED, NANO, TOKENS, LimitDescription, unpriced_units
from gateway_project.work.token_estimates import input_tokens
from providers.formats import Usage, WorkRequest
from providers.formats.dialect import COUNT_TOKENS
from providers.pricing.prices import cost_of

if TYPE_CHECKING:
    from gateway_project.work.snapshot.records import Snapshot, Target

# The fields in which dialects bound the length of an answer, and the objects that may contain them.
BOUND_FIELDS = (
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens"),
    *("maxTokens", "maxOutputTokens", "num_predict"),
)
PASSTHROUGH = "passthrough"  # the format of services whose shape is unknown
NESTED_OBJECTS = ("options", "generationConfig", "generation_config", "inferenceConfig")
MAX_ANSWERS = 128


class Demand(NamedTuple):
    """Tokens (or cost) of a request: its input and its greatest output; `bounded` if the client bounded the output."""

    input: int
    output: int
    bounded: bool

    @property
    def total(self) -> int:
        return self.input + self.output


def estimate_demand(work: WorkRequest) -> Demand:
    """The estimated tokens of a request."""
    if work.operation == COUNT_TOKENS:
        return Demand(0, 0, True)
    input_estimate = max(input_tokens(work), 1)
    if work.operation == "embedding":
        return Demand(input_estimate, 0, True)
    bound = _bound(work.body)
    output = settings.GATEWAY_RESERVED_OUTPUT_TOKENS if bound is None else bound * _answers(work.body)
    return Demand(input_estimate, output, bound is not None)


def largest_demand(work: WorkRequest, targets: "Sequence[Target]", limit: LimitDescription) -> Demand:
    """The most tokens that a request can use: no token is shorter than a byte, and the answer has a bound.

    Only the parameters of the request's own dialect bound it: a provider ignores those of others.
    Raises ValidationError if neither the client nor the models of the targets bound the answer.
    """
    if work.operation == COUNT_TOKENS:
        return Demand(0, 0, True)
    # What a service of an unknown shape does with a request is not known from its operation.
    if work.operation == "embedding" and not any(target.provider.format_name == PASSTHROUGH for target in targets):
        return Demand(len(work.raw), 0, True)
    bound = _greatest([work.body], work.dialect.output_bounds)
    bounds = [target.provider.max_output_tokens.get(target.model) for target in targets]
    longest = max((bound for bound in bounds if bound is not None), default=0)
    if bound is None and (None in bounds or not longest):
        raise ValidationError(
            f"The {limit.measure} limit of {limit.subject.kind} {limit.name} is strict: say how long the answer may "
            "be, in max_tokens.",
            field="max_tokens",
        )
    return Demand(len(work.raw), (bound or longest) * _answers(work.body), True)


def with_reservations(
    checks: Sequence[LimitCheck],
    demand: Demand,
    targets: "Sequence[Target]",
    snapshot: "Snapshot",
    work: WorkRequest | None = None,
) -> Sequence[LimitCheck]:
    """The checks with the amounts that this request reserves; its cost is that at the dearest target.

    If the client did not bound the output, what is left of a limit is enough, as long as the input fits. A strict limit
    reserves the most that `work` can use. Raises ValidationError if that has no bound.
    """
    return [_reserving(check, demand, targets, snapshot, work) if check.kind == RESERVE else check for check in checks]


def _reserving(
    check: LimitCheck,
    demand: Demand,
    targets: "Sequence[Target]",
    snapshot: "Snapshot",
    work: WorkRequest | None,
) -> LimitCheck:
    if check.limit.is_strict and work is not None:
        demand = largest_demand(work, targets, check.limit)
    amounts = demand if check.limit.measure == TOKENS else _cost(demand, targets, snapshot, check.limit)
    take = min(amounts.total, MAX_AMOUNT)
    return check._replace(take=take, minimum=take if demand.bounded else min(amounts.input, MAX_AMOUNT))


def _cost(demand: Demand, targets: "Sequence[Target]", snapshot: "Snapshot", limit: LimitDescription) -> Demand:
    """The greatest cost at any target, in billionths; 0 where no price is known and the limit has none for that."""
    greatest = Demand(0, 0, demand.bounded)
    for target in targets:
        price = snapshot.price(target, time())
        if price is not None:
            whole = ceil(cost_of(Usage(input=demand.input, output=demand.output), price) * NANO)
            alone = ceil(cost_of(Usage(input=demand.input), price) * NANO)
        elif limit.unpriced == COUNT_UNPRICED:
            whole, alone = unpriced_units(demand.total, limit), unpriced_units(demand.input, limit)
        else:
            continue
        greatest = max(greatest, Demand(alone, whole - alone, demand.bounded), key=attrgetter("total"))
    return greatest


def _bound(body: JsonObject) -> int | None:
    """The largest bound in the body, None if there is none."""
    places = [body, *(body[name] for name in NESTED_OBJECTS if isinstance(body.get(name), dict))]
    return _greatest(places, BOUND_FIELDS)


def _greatest(places: Sequence[JsonObject], names: Sequence[str]) -> int | None:
    bounds = [place[name] for place in places for name in names if type(place.get(name)) is int and place[name] > 0]
    return max(bounds, default=None)


def _answers(body: JsonObject) -> int:
    """The number of answers that the client wants; values below one, which providers refuse, count as one."""
    numbers = [body[name] for name in ("n", "best_of") if type(body.get(name)) is int]
    return min(max(1, *numbers), MAX_ANSWERS) if numbers else 1
