"""The estimated tokens and cost of a request before it is served; its limits reserve them."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import ceil
from operator import attrgetter
from time import time
from typing import TYPE_CHECKING, NamedTuple

from django.conf import settings

from gateway_project.json_types import JsonObject
from gateway_project.work.limits.checks import MAX_AMOUNT, RESERVE, LimitCheck
from gateway_project.work.limits.kinds import COUNT_UNPRICED, NANO, TOKENS, LimitDescription, unpriced_units
from gateway_project.work.limits.messages import strict_error
from gateway_project.work.limits.output_bound import bounds_in, number_of_answers
from gateway_project.work.limits.unseen_input import unseen_input
from gateway_project.work.token_estimates import input_tokens
from providers.formats import Usage, WorkRequest
from providers.formats.dialect import COUNT_TOKENS
from providers.formats.usage import MOST_TOKENS
from providers.pricing.prices import Price, cost_of

if TYPE_CHECKING:
    from gateway_project.work.snapshot.records import Snapshot, Target

# The fields in which dialects bound the length of an answer, and the objects that may contain them.
BOUND_FIELDS = (
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens"),
    *("maxTokens", "maxOutputTokens", "num_predict"),
)
COUNTED_PARAMETERS = frozenset(
    {"max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "background"}
)
NESTED_OBJECTS = ("options", "generationConfig", "generation_config", "inferenceConfig")
NUMBERS_OF_ANSWERS = ("n", "best_of")
# What providers explain to the model with a prompt of their own, of some hundred tokens.
PROMPTED_PARAMETERS = ("tools", "functions", "response_format", "text", "output_config", "output_format")
PROVIDERS_PROMPT = 1024


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
    output = settings.GATEWAY_RESERVED_OUTPUT_TOKENS
    if bound is not None:
        output = min(bound * _answers(work.body), MOST_TOKENS)  # no request can have more
    return Demand(input_estimate, output, bound is not None)


def largest_demand(work: WorkRequest, targets: "Sequence[Target]", limit: LimitDescription) -> Demand:
    """The most tokens that a request can use under a strict limit.

    Without a parameter of the request's own dialect the answer has no bound: a provider ignores those of others.
    Raises ValidationError if the input or the answer has no bound.
    """
    if work.operation == COUNT_TOKENS:
        return Demand(0, 0, True)
    most_input = _most_input(work, targets, limit)
    if work.operation == "embedding" and have_known_shapes(targets):
        return Demand(most_input, 0, True)
    answers = number_of_answers(work.body)
    return Demand(most_input, min(_longest_answer(work, targets, limit) * answers, MOST_TOKENS), True)


def _longest_answer(work: WorkRequest, targets: "Sequence[Target]", limit: LimitDescription) -> int:
    """The most tokens of one answer: a bound in a provider's own words replaces the greatest one of the dialect."""
    if _greatest_bound([work.body], work.dialect.output_bounds) is not None:
        return max(bounds_in(work.body))
    bounds = [target.provider.max_output_tokens.get(target.model) for target in targets]
    longest = max((bound for bound in bounds if bound is not None), default=0)
    if None in bounds or not longest:
        raise strict_error(limit, "set max_tokens, so that the largest possible use is known.", "max_tokens")
    return longest


def have_known_shapes(targets: "Sequence[Target]") -> bool:
    """Whether their services do what the operation says; what one of an unknown shape does is not known."""
    formats = [target.provider.format for target in targets]
    return all(format is not None and format.has_known_shape for format in formats)


def _most_input(work: WorkRequest, targets: "Sequence[Target]", limit: LimitDescription) -> int:
    """The most tokens that the provider reads: no token of a text is shorter than a byte."""
    unseen = unseen_input(work, [target.provider.format for target in targets])
    size = len(work.raw) + (PROVIDERS_PROMPT if any(map(work.body.get, PROMPTED_PARAMETERS)) else 0)
    if unseen is None:
        return size
    # Of many inputs to embed, each may be as long as the context.
    if not unseen.fits_context or work.operation == "embedding":
        problem = f"leave out {unseen.field}: with it the provider reads more than this request contains."
        raise strict_error(limit, problem, unseen.field)
    facts = [target.provider.facts.get(target.model) for target in targets]
    lengths = [one.context_length for one in facts if one is not None and one.context_length is not None]
    if len(lengths) < len(targets):
        problem = f"leave out {unseen.field}, or ask an administrator to set the context length of the model."
        raise strict_error(limit, problem, unseen.field)
    return max(size, *lengths)


def with_reservations(
    checks: Sequence[LimitCheck],
    demand: Demand,
    targets: "Sequence[Target]",
    snapshot: "Snapshot",
    find_largest: Callable[[LimitDescription], Demand] | None = None,
) -> Sequence[LimitCheck]:
    """The checks with the amounts that this request reserves; its cost is that at the dearest target.

    If the client did not bound the output, what is left of a limit is enough, as long as the input fits. A strict limit
    reserves the most that the request can use, which `find_largest` tells, once for all limits; so it raises what that
    does.
    """
    reservations, largest = list(checks), None
    for place, check in enumerate(checks):
        if check.kind != RESERVE:
            continue
        if check.limit.is_strict and find_largest is not None:
            largest = largest or find_largest(check.limit)
            reservations[place] = _with_reservation(check, largest, targets, snapshot)
        else:
            reservations[place] = _with_reservation(check, demand, targets, snapshot)
    return reservations


def _with_reservation(
    check: LimitCheck, demand: Demand, targets: "Sequence[Target]", snapshot: "Snapshot"
) -> LimitCheck:
    amounts = demand if check.limit.measure == TOKENS else _cost(demand, targets, snapshot, check.limit)
    take = min(amounts.total, MAX_AMOUNT)
    return check._replace(take=take, minimum=take if demand.bounded else min(amounts.input, MAX_AMOUNT))


def _cost(demand: Demand, targets: "Sequence[Target]", snapshot: "Snapshot", limit: LimitDescription) -> Demand:
    """The greatest cost at any target, in billionths; 0 where no price is known and the limit has none for that."""
    greatest = Demand(0, 0, demand.bounded)
    tokens_cost = _dearest_cost if limit.is_strict else _plain_cost
    for target in targets:
        price = snapshot.price(target, time())
        if price is not None:
            cost = ceil(tokens_cost(demand.input, demand.output, price) * NANO)
            input_cost = ceil(tokens_cost(demand.input, 0, price) * NANO)
        elif limit.unpriced == COUNT_UNPRICED:
            cost, input_cost = unpriced_units(demand.total, limit), unpriced_units(demand.input, limit)
        else:
            continue
        greatest = max(greatest, Demand(input_cost, cost - input_cost, demand.bounded), key=attrgetter("total"))
    return greatest


def _plain_cost(input_tokens: int, output: int, price: Price) -> Decimal:
    return cost_of(Usage(input=input_tokens, output=output), price)


def _dearest_cost(input_tokens: int, output: int, price: Price) -> Decimal:
    """The cost if all tokens are of the dearest kind: written into a cache, or of reasoning."""
    inputs = (
        Usage(input=input_tokens),
        Usage(cache_read=input_tokens),
        Usage(cache_write=input_tokens),
        Usage(cache_write=input_tokens, cache_write_hour=input_tokens),
    )
    return max(
        cost_of(usage._replace(output=output, reasoning=reasoning), price)
        for usage in inputs
        for reasoning in (0, output)
    )


def _bound(body: JsonObject) -> int | None:
    """The largest bound in the body, None if there is none."""
    places = [body, *(body[name] for name in NESTED_OBJECTS if isinstance(body.get(name), dict))]
    return _greatest_bound(places, BOUND_FIELDS)


def _greatest_bound(places: Sequence[JsonObject], names: Sequence[str]) -> int | None:
    bounds = [place[name] for place in places for name in names if type(place.get(name)) is int and place[name] > 0]
    return max(bounds, default=None)


def misspelled_parameter(body: JsonObject) -> str:
    """A parameter that differs from one that limits read only in upper and lower case; '' if there is none."""
    return next((name for name in body if name not in COUNTED_PARAMETERS and name.casefold() in COUNTED_PARAMETERS), "")


def _answers(body: JsonObject) -> int:
    """The number of answers that the client wants; values below one, which providers refuse, count as one.

    Each prompt of a list gets so many.
    """
    numbers = [body[name] for name in NUMBERS_OF_ANSWERS if type(body.get(name)) is int]
    prompts = body.get("prompt")
    # A list of numbers is the tokens of a single prompt.
    count = len(prompts) if isinstance(prompts, list) and not all(type(prompt) is int for prompt in prompts) else 1
    most: int = max([1, *numbers])
    return most * count
