"""How the names of what was left out are told."""

from itertools import count

import pytest

from providers.formats.dropped import (
    MAX_DROPPED_KINDS,
    MAX_HEADER_LENGTH,
    answer_names,
    dropped_comment,
    dropped_header,
)
from providers.formats.sse import data_of, events_in

pytestmark = pytest.mark.embedded


def test_each_name_stands_once():
    assert answer_names(["a", "b", "a"]) == ("answer.a", "answer.b")


def test_a_kind_without_a_name_is_not_told_and_of_very_many_the_first_are():
    assert answer_names(["", "a", ""]) == ("answer.a",)
    assert answer_names(map(str, range(MAX_DROPPED_KINDS + 9))) == tuple(
        f"answer.{kind}" for kind in range(MAX_DROPPED_KINDS)
    )


def test_no_more_names_are_read_than_fit():
    told = dropped_header("n" * 2000 for _ in count())
    assert (told[-6:], len(told)) == ("n, ...", MAX_HEADER_LENGTH)
    exact = dropped_header(["a" * 999, "b" * 999])
    assert exact == f"{'a' * 999}, {'b' * 999}"
    assert dropped_header(["a" * 999, "b" * 999, "c"]) == dropped_header(["c"], after=exact) == f"{exact[:-5]}, ..."


def test_a_list_goes_on_behind_another_one_and_is_never_too_long():
    assert dropped_header(["ä", "b"]) == "%C3%A4, b"
    assert dropped_header(["c"], after="a, b") == "a, b, c"
    assert dropped_header([], after="a, b") == "a, b"
    long = dropped_header(map(str, range(10_000)), after="x" * 1500)
    assert (long[1500:1503], long[-5:], len(long)) == (", 0", ", ...", MAX_HEADER_LENGTH)


def test_a_comment_is_one_line_whatever_it_tells_of():
    told = dropped_comment(("answer.a\r\ndata: b\n\n", "answer.\u2028"))
    assert (told.count(b"\n"), told.endswith(b"\n\n"), b"\r" in told) == (2, True, False)
    assert [data_of(event) for event in events_in(told)] == [b""]
    assert dropped_comment(()) == b""
