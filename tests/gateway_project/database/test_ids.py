"""Ids in addresses."""

import pytest

from gateway_project.database.ids import MAX_ID, id_in


@pytest.mark.parametrize(("text", "row_id"), [("7", 7), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_a_number_is_an_id(text, row_id):
    assert id_in(text) == row_id <= MAX_ID


@pytest.mark.parametrize("text", ["", "-1", "+7", " 7", "7.0", "x", "٣", "²", "1" * 19, "9" * 5000])
def test_what_is_none_is_0(text):
    assert id_in(text) == 0
