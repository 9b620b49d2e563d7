"""How the names of what was left out are told."""

from itertools import count

from providers.formats.dropped import LONGEST_LIST, MOST_KINDS, comment_of, listed, named
from providers.formats.sse import data_of, events_in


def test_each_name_stands_once():
    assert named(["a", "b", "a"]) == ("answer.a", "answer.b")


def test_a_kind_without_a_name_is_not_told_and_of_very_many_the_first_are():
    assert named(["", "a", ""]) == ("answer.a",)
    assert named(map(str, range(MOST_KINDS + 9))) == tuple(f"answer.{kind}" for kind in range(MOST_KINDS))


def test_no_more_names_are_read_than_fit():
    told = listed("n" * 2000 for _ in count())
    assert (told[-6:], len(told)) == ("n, ...", LONGEST_LIST)
    exact = listed(["a" * 999, "b" * 999])
    assert exact == f"{'a' * 999}, {'b' * 999}"
    assert listed(["a" * 999, "b" * 999, "c"]) == listed(["c"], behind=exact) == f"{exact[:-5]}, ..."


def test_a_list_goes_on_behind_another_one_and_is_never_too_long():
    assert listed(["ä", "b"]) == "%C3%A4, b"
    assert listed(["c"], behind="a, b") == "a, b, c"
    assert listed([], behind="a, b") == "a, b"
    long = listed(map(str, range(10_000)), behind="x" * 1500)
    assert (long[1500:1503], long[-5:], len(long)) == (", 0", ", ...", LONGEST_LIST)


def test_a_comment_is_one_line_whatever_it_tells_of():
    told = comment_of(("answer.a\r\ndata: b\n\n", "answer.\u2028"))
    assert (told.count(b"\n"), told.endswith(b"\n\n"), b"\r" in told) == (2, True, False)
    assert [data_of(event) for event in events_in(told)] == [b""]
    assert comment_of(()) == b""
