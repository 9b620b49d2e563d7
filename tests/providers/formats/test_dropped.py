"""How the names of what was left out are told."""

from providers.formats.dropped import LONGEST_LIST, comment_of, listed, named
from providers.formats.sse import data_of, events_in


def test_each_name_stands_once():
    assert named(["a", "b", "a"]) == ("answer.a", "answer.b")


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
