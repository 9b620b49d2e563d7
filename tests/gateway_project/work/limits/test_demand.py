"""How much a request asks for before anybody has worked on it, and what is reserved for that."""

from decimal import Decimal
from types import SimpleNamespace

import pytest

from gateway_project.errors import ValidationError
from gateway_project.work.limits.book import LimitBook, LimitRow
from gateway_project.work.limits.checks import MAX_AMOUNT
from gateway_project.work.limits.demand import (
    BOUND_FIELDS,
    NESTED_OBJECTS,
    Demand,
    estimate_demand,
    largest_demand,
    with_reservations,
)
from gateway_project.work.limits.kinds import LimitDescription, Subject
from providers.formats import WorkRequest
from providers.formats.usage import MOST_TOKENS
from providers.pricing.prices import Price
from tests.support.recorded_samples import request

ASKED = {"messages": [{"role": "user", "content": "x" * 800}]}
SENT = 101  # with the four characters of "user"
UNBOUNDED = 1024


def demand(body, operation="chat"):
    return estimate_demand(WorkRequest(operation, "m", body, b""))


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ({}, None),
        *(({name: 30}, 30) for name in BOUND_FIELDS),
        *(({place: {"maxTokens": 30}}, 30) for place in NESTED_OBJECTS),
        ({"max_tokens": 30, "max_completion_tokens": 50, "options": {"num_predict": 40}}, 50),
        ({"max_tokens": 30, "n": 4}, 120),
        ({"max_tokens": 30, "n": 2, "best_of": 5}, 150),
        ({"max_tokens": 30, "n": 0}, 30),
        ({"max_tokens": 30, "n": -7, "best_of": -1}, 30),
        ({"max_tokens": 30, "n": 1000}, 30_000),  # some servers allow thousands
        # The log has no room for more than any request can have.
        ({"max_tokens": 2**62, "n": 100}, MOST_TOKENS),
        ({"max_tokens": 10**4000}, MOST_TOKENS),
        ({"max_tokens": 30, "n": 10**4000}, MOST_TOKENS),
        ({"max_tokens": 30, "n": 4.0}, 30),
        ({"max_tokens": 1}, 1),
        # What bounds nothing, or is no bound at all:
        ({"max_tokens": 0}, None),
        ({"max_tokens": -1}, None),
        ({"max_tokens": "30"}, None),
        ({"max_tokens": True}, None),
        ({"max_tokens": None}, None),
        ({"options": [30]}, None),
        ({"elsewhere": {"max_tokens": 30}}, None),
        ({"n": 3}, None),
    ],
)
def test_what_may_come_back_is_what_the_client_says(settings, text, output):
    settings.GATEWAY_RESERVED_OUTPUT_TOKENS = UNBOUNDED
    expected = Demand(SENT, UNBOUNDED, False) if output is None else Demand(SENT, output, True)
    assert demand(ASKED | text) == expected
    assert demand(ASKED | text).total == SENT + expected.output


def test_an_embedding_brings_no_tokens_back_and_a_count_takes_none():
    assert demand({"input": ["x" * 800, [1, 2, 3]], "max_tokens": 30}, "embedding") == Demand(103, 0, True)
    assert demand(ASKED | {"max_tokens": 30}, "count_tokens") == Demand(0, 0, True)


def test_nothing_is_a_token_too():
    assert demand({"messages": []}).input == 1
    assert demand({}, "embedding").input == 1


SUBJECT = Subject("key", 5)
AMOUNTS = {"requests": 9, "tokens": 10**6, "cost": 10**3}
CHECKS = LimitBook(
    LimitRow(SUBJECT, "it", name, "day", Decimal(amount)) for name, amount in AMOUNTS.items()
).checks_for(SUBJECT)
CHEAP, DEAR = Price("USD", Decimal(1), Decimal(2)), Price("USD", Decimal(3), Decimal(30))
# A model may be dearer in what it reads and cheaper in what it writes.
READS = Price("USD", Decimal(9), Decimal(1))


def reserved(demand, *prices):
    """What is taken of each, and the least of it; the targets are their prices."""
    snapshot = SimpleNamespace(price=lambda target, at: target)
    checks = with_reservations(CHECKS, demand, prices, snapshot)
    return {check.limit.measure: (check.take, check.minimum) for check in checks}


@pytest.mark.parametrize(
    ("prices", "bounded", "cost", "minimum"),
    [
        ((), True, 0, 0),
        ((None,), True, 0, 0),
        ((CHEAP,), True, (100 + 2 * 50) * 1000, (100 + 2 * 50) * 1000),
        ((CHEAP,), False, (100 + 2 * 50) * 1000, 100 * 1000),
        ((CHEAP, None, DEAR), False, (3 * 100 + 30 * 50) * 1000, 3 * 100 * 1000),
        ((DEAR, CHEAP), False, (3 * 100 + 30 * 50) * 1000, 3 * 100 * 1000),
        ((DEAR, READS), False, (3 * 100 + 30 * 50) * 1000, 3 * 100 * 1000),
    ],
)
def test_of_tokens_all_is_reserved_and_of_cost_what_it_is_at_the_dearest(prices, bounded, cost, minimum):
    result = reserved(Demand(100, 50, bounded), *prices)
    assert result == {"requests": (1, 1), "tokens": (150, 150 if bounded else 100), "cost": (cost, minimum)}


def test_a_part_of_a_billionth_is_a_whole_one():
    assert reserved(Demand(1, 1, True), Price("USD", Decimal("0.0001"), Decimal("0.0001")))["cost"] == (1, 1)


def test_nothing_beyond_all_counting_is_reserved():
    assert reserved(Demand(10**17, 10**17, True), DEAR) == {
        "requests": (1, 1),
        "tokens": (MAX_AMOUNT,) * 2,
        "cost": (MAX_AMOUNT,) * 2,
    }
    assert reserved(Demand(10**17, 1, False))["tokens"] == (MAX_AMOUNT, MAX_AMOUNT)


STRICT = LimitDescription(SUBJECT, "it", "tokens", "day", is_strict=True)


def longest(**body):
    """The most tokens of the answers to this under a strict limit, at a model that gives no more than 5000."""
    work = request({"model": "m", "messages": []} | body)
    provider = SimpleNamespace(format=None, max_output_tokens={"m": 5000}, facts={})
    return largest_demand(work, [SimpleNamespace(provider=provider, model="m")], STRICT).output


@pytest.mark.parametrize(
    ("native", "output"),
    [
        ({"options": {"num_predict": 900}}, 900),
        ({"generationConfig": {"maxOutputTokens": 900}}, 900),
        ({"generationConfig": {"candidateCount": 8}}, 80),
        ({"generationConfig": {"candidateCount": 8, "max_output_tokens": 900}}, 7200),
        ({"inferenceConfig": {"maxTokens": 900}}, 900),
        ({"inferenceConfig": {"maxTokens": 5}}, 10),
        ({"num_generations": 3}, 30),
        ({"n": 1000}, 10_000),
    ],
)
def test_a_providers_own_words_for_a_longer_answer_count_under_a_strict_limit(native, output):
    """They replace the bound that the gateway translates from the client's."""
    assert longest(max_tokens=10, **native) == output


@pytest.mark.parametrize("endless", [-1, "900", 900.0, True])
def test_what_may_be_no_bound_is_refused_under_a_strict_limit(endless):
    for native in ({"options": {"num_predict": endless}}, {"generationConfig": {"candidateCount": endless}}):
        with pytest.raises(ValidationError, match="must be a whole number above 0"):
            longest(max_tokens=10, **native)


def test_a_model_bounds_what_the_request_does_not():
    assert longest(options={"num_predict": -1}) == 5000
    assert longest(n=2) == 10_000
