"""A sealed answer opens under its own name and secret alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.work.state.redis.seals import SEAL_BYTES, Seals
from tests.support.thoroughness import number_of

SEALS = Seals("s" * 40)
NAME = "gateway:answer:" + "a" * 64
VALUE = b'[3,"application/json"]\n{"a": 1}'
SEALED = SEALS.seal(NAME, VALUE)


@given(st.text(max_size=40), st.binary(max_size=300))
@settings(max_examples=number_of(100), deadline=None)
def test_it_opens_as_it_was(name, value):
    assert SEALS.open(name, Seals("s" * 40).seal(name, value)) == value


@pytest.mark.parametrize("secret", ["t" * 40, "s" * 39, "s" * 41, "S" * 40])
def test_another_secret_opens_nothing(secret):
    assert Seals(secret).open(NAME, SEALED) == b""


def test_under_another_name_it_does_not_open():
    assert SEALS.open(NAME[:-1] + "b", SEALED) == b""
    # The end of the name moved into the value.
    assert SEALS.open(NAME[:-1], SEALED[:SEAL_BYTES] + NAME[-1:].encode() + VALUE) == b""


def test_a_value_that_is_cut_or_has_another_byte_does_not_open():
    assert [size for size in range(len(SEALED)) if SEALS.open(NAME, SEALED[:size])] == []
    assert SEALS.open(NAME, SEALED + b"x") == b""
    for place in range(len(SEALED)):
        changed = bytearray(SEALED)
        changed[place] ^= 1
        assert SEALS.open(NAME, bytes(changed)) == b""


@pytest.mark.parametrize("value", [b"", b"x", VALUE, bytes(SEAL_BYTES), bytes(SEAL_BYTES) + VALUE])
def test_a_value_without_a_seal_does_not_open(value):
    assert SEALS.open(NAME, value) == b""
