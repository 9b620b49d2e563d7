"""The bound of an answer's tokens that a key sets: larger ones are refused, and it is added where there is none."""

import json
import math

import pytest

from gateway_project.errors import ValidationError
from gateway_project.work.doors import DIALECTS
from gateway_project.work.exchange import Identity
from gateway_project.work.limits.demand import BOUND_FIELDS
from gateway_project.work.limits.output_bound import bound_output, bound_unknown_output
from gateway_project.work.snapshot.records import KeySnapshot
from keys.restrictions import KeyRestrictions
from providers.formats import WorkRequest

pytestmark = pytest.mark.embedded

CHAT = ("max_tokens", "max_completion_tokens")
KEY = KeySnapshot(
    1, "k", b"", 1, None, math.inf, locked=False, permissions=frozenset(), restrictions=KeyRestrictions(max_tokens=50)
)


@pytest.mark.parametrize("names", [CHAT, ("max_output_tokens",), ("max_tokens",)])
def test_the_bound_is_added_under_the_first_name_of_the_dialect(names):
    body = {"model": "m"}
    assert bound_output(body, names, 50) == names[0]
    assert body == {"model": "m", names[0]: 50}


@pytest.mark.parametrize(
    "body", [{"max_tokens": 50}, {"max_completion_tokens": 1}, {"max_tokens": None, "max_completion_tokens": 2}]
)
def test_a_bound_within_the_keys_stays_as_it_is(body):
    before = dict(body)
    assert bound_output(body, CHAT, 50) == ""
    assert body == before


def test_null_is_no_bound():
    body = {"max_tokens": None}
    assert bound_output(body, CHAT, 50) == "max_tokens"
    assert body == {"max_tokens": 50}


@pytest.mark.parametrize("name", [*BOUND_FIELDS, "n_predict", "maxNewTokens", "MAX_TOKENS", "max-tokens"])
@pytest.mark.parametrize("value", [51, 0, -1, "51", "7", 7.0, True, [7], 10**30])
@pytest.mark.parametrize("inside", [None, "options", "generationConfig", "extra_body"])
def test_a_larger_one_or_none_that_is_a_number_is_refused_wherever_it_stands(name, value, inside):
    body = {name: value} if inside is None else {"max_tokens": 5, inside: {name: value}}
    with pytest.raises(ValidationError, match="from 1 to 50: this key allows 50 tokens") as refusal:
        bound_output(body, CHAT, 50)
    assert refusal.value.field == (name if inside is None else f"{inside}.{name}")


def test_a_bound_of_another_format_does_not_replace_that_of_the_dialect():
    body = {"options": {"num_predict": 5}, "max_output_tokens": 5}
    assert bound_output(body, CHAT, 50) == "max_tokens"
    assert body["max_tokens"] == 50


def test_several_answers_share_the_bound():
    body = {"n": 4}
    assert bound_output(body, CHAT, 50) == "max_tokens"
    assert body["max_tokens"] == 12
    with pytest.raises(ValidationError, match="12 in each of 4 answers"):
        bound_output({"n": 4, "max_tokens": 13}, CHAT, 50)
    with pytest.raises(
        ValidationError, match="at most 50 tokens per request. That is less than one for each of the 51 answers"
    ):
        bound_output({"best_of": 51}, CHAT, 50)


@pytest.mark.parametrize("number", ["8", 8.0, 0, -1, True])
def test_a_number_of_answers_that_a_provider_may_read_otherwise_is_refused(number):
    with pytest.raises(ValidationError, match="n must be a whole number above 0"):
        bound_output({"n": number}, CHAT, 50)


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": ["a", "b", "c", "d"]},
        {"prompt": ["a", "b"], "n": 2},
        {"generationConfig": {"candidateCount": 4}},
        {"candidate_count": 4},
        {"num_generations": 4},
        {"parameters": {"num_return_sequences": 4}},
    ],
)
def test_every_kind_of_several_answers_shares_the_bound(body):
    assert bound_output(body, CHAT, 50) == "max_tokens"
    assert body["max_tokens"] == 12
    with pytest.raises(ValidationError, match="12 in each of 4 answers"):
        bound_output(body | {"max_tokens": 13}, CHAT, 50)


def test_the_tokens_of_one_prompt_are_one_prompt():
    body = {"prompt": [5, 6, 7]}
    assert bound_output(body, CHAT, 50) == "max_tokens"
    assert body["max_tokens"] == 50


def test_bedrocks_titan_is_bounded():
    with pytest.raises(ValidationError, match="textGenerationConfig.maxTokenCount must be a whole number"):
        bound_output({"textGenerationConfig": {"maxTokenCount": 51}}, CHAT, 50)


@pytest.mark.parametrize(
    ("body", "added_bound"),
    [
        ({"input": "Hello!"}, "max_tokens"),
        ({"input": "Hello!", "max_output_tokens": 20}, ""),
        ({"messages": [], "max_output_tokens": 20}, "max_tokens"),  # which is no bound of a conversation in messages
        ({"prompt": "Hello!", "max_completion_tokens": 20}, "max_tokens"),
    ],
)
def test_a_service_of_an_unknown_shape_gets_the_bound_that_the_body_calls_for(body, added_bound):
    work = WorkRequest("embedding", "m", body, b"{}", dialect=DIALECTS["embedding"])
    bounded = bound_unknown_output(work, Identity(key=KEY))
    assert bounded.added_bound == added_bound
    assert bounded.body == (body | {"max_tokens": 50} if added_bound else body)
    assert json.loads(bounded.raw) == (bounded.body if added_bound else {})


def test_without_a_key_nothing_is_bounded():
    work = WorkRequest("embedding", "m", {"max_tokens": 51}, b"{}", dialect=DIALECTS["embedding"])
    assert bound_unknown_output(work, Identity()) is work


def test_free_texts_of_the_client_are_no_parameters():
    body = {"metadata": {"max_tokens": "many"}, "max_tokens": 5}
    assert bound_output(body, CHAT, 50) == ""


def test_every_dialect_of_conversations_names_its_bounds():
    assert {operation: bool(dialect.output_bounds) for operation, dialect in DIALECTS.items()} == {
        "chat": True,
        "completion": True,
        "embedding": False,
    }
