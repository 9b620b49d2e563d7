"""JSON that came from a provider: what is read, what is not, and that numbers stay what they were."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.formats import FORMATS
from providers.formats.json_values import MAX_CONTAINERS, MAX_DEPTH, MAX_VALUES, dump_value, read_json
from tests.support.formats.samples import request
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

EDGES = [10**18, 10**19, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30]
INTEGERS = st.integers() | st.sampled_from([sign * edge for sign in (1, -1) for edge in EDGES])
VALUES = st.recursive(INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text(), st.lists, max_leaves=20)


def nested(levels):
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b"\xff", b'{"a": ' + b"9" * 5000 + b"}"])
def test_what_is_no_json_is_nothing(body):
    assert read_json(body) is None


def test_it_may_be_nested_so_deep_that_it_can_be_written_again_and_no_deeper():
    assert dump_value({"around": read_json(nested(MAX_DEPTH))})
    assert read_json(nested(MAX_DEPTH + 1)) is None
    assert read_json(b"[" * 1000 + b"12345678901234567890" + b"]" * 1000) is None


def test_many_siblings_and_brackets_in_a_text_are_no_nesting():
    assert read_json(b"[" + b"[]," * 500 + b"[]]") == [[]] * 501
    assert read_json(json.dumps(["[{" * 500]).encode()) == ["[{" * 500]


@pytest.mark.parametrize(("part", "most"), [(b"{}", MAX_CONTAINERS), (b"[]", MAX_CONTAINERS), (b"0", MAX_VALUES)])
def test_what_would_take_many_times_its_size_in_memory_is_not_read(part, most):
    assert read_json(b'{"a":[' + (part + b",") * (most + 1) + part + b"]}") is None


@pytest.mark.long
@given(st.dictionaries(st.text(), VALUES))
@settings(max_examples=number_of(200), deadline=None)
def test_numbers_are_what_they_were(value):
    assert read_json(json.dumps(value).encode()) == value
    assert read_json(json.dumps(value, separators=(",", ":")).encode()) == value


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
def test_a_clients_tool_gets_the_integer_that_the_model_gave(number):
    call = {"type": "tool_use", "id": "a", "name": "pay", "input": {"cents": number}}
    work = request({"model": "m", "messages": [{"role": "user", "content": "Pay!"}]}, door=True)
    answer = FORMATS["anthropic"].answer(work, json.dumps({"content": [call], "stop_reason": "tool_use"}).encode())
    function = json.loads(answer.body)["choices"][0]["message"]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {"cents": number}
