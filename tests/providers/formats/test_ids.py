"""Ids of calls, of whatever length clients write them."""

import re
import tracemalloc

import pytest

from providers.formats.ids import fitting_id

pytestmark = pytest.mark.embedded

SHORT = re.compile(r"[a-z]{1,9}")


def test_ids_without_end_are_not_kept():
    tracemalloc.start()
    try:
        made = {fitting_id(f"{number}" * 100_000, SHORT, 9) for number in range(10)}
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(made) == 10
    assert held < 500_000


def test_the_same_id_is_made_of_the_same_one():
    for call_id in ("Call 1", "Call" * 1000):
        assert fitting_id(call_id, SHORT, 9) == fitting_id(call_id, SHORT, 9)
        assert len(fitting_id(call_id, SHORT, 9)) == 9
    assert fitting_id("call", SHORT, 9) == "call"
