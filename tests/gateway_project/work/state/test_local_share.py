"""One process' share of the limits while Redis is away: what it lets in, and what it tells Redis afterwards."""

import pytest

from gateway_project.work.limits.checks import (
    COUNT,
    DAY,
    MINUTE,
    MONTH,
    RESERVE,
    Admission,
    CheckStatus,
    Hold,
    LimitCheck,
    Settlement,
)
from gateway_project.work.state.local_share import LocalShare
from tests.support.limits.asking import MIDNIGHT, Standstill, admitted, ask, concurrent, use

PROCESSES = 4


@pytest.fixture
def share():
    return LocalShare(share_of=PROCESSES, clock=Standstill())


def requests(amount=40, window=DAY, **fields):
    return LimitCheck("requests", amount, window, COUNT, **fields)


def tokens(amount, take, minimum=None):
    return LimitCheck("tokens", amount, DAY, RESERVE, take, take if minimum is None else minimum)


def heard(share, check, used, at=None, holds=()):
    """Redis has told at a moment (now, unless told) that so much of it is used."""
    admission = Admission([CheckStatus(check, check.amount - used, 0)], holds=list(holds))
    share.observe_admission("t of redis", admission, share.clock.at if at is None else at)
    return check


def let_in(share, check, most=20):
    return sum(admitted(share, check._replace(member=str(number))) for number in range(most))


@pytest.mark.parametrize(
    ("check", "used", "expected"),
    [
        (requests(40), None, 10),
        (requests(40), 20, 5),
        (requests(40), 39, 1),  # never nothing, as long as something is left
        (requests(40), 40, 0),
        (requests(40), 50, 0),
        (requests(2), None, 1),
        (requests(40, MONTH, since=1.0), 30, 2),
        (requests(40, MONTH, since=1.0), 37, 0),  # a quota: all processes together would let in too many
        (concurrent(8), None, 2),
        (concurrent(3), None, 1),
        (use("", 8), None, 2),
        (use("", 3), None, 1),
        (use("", 0), None, 20),  # counted without a limit
    ],
)
def test_a_share_is_a_part_of_what_was_left(share, check, used, expected):
    if used is not None:
        heard(share, check, used)
    assert let_in(share, check) == expected


@pytest.mark.parametrize(("used", "room"), [(None, 25), (60, 10), (97, 0), (100, 0), (300, 0)])
def test_so_it_is_with_what_is_reserved(share, used, room):
    if used is not None:
        heard(share, tokens(100, 1), used)
    assert not admitted(share, tokens(100, room + 1))
    assert admitted(share, tokens(100, room)) == bool(room)
    assert not admitted(share, tokens(100, 1))


def test_what_redis_told_of_an_earlier_window_says_nothing_about_this_one(share):
    heard(share, requests(40, MINUTE), 40, at=Standstill.at - 1)
    assert let_in(share, requests(40, MINUTE)) == 10
    heard(share, requests(40, MINUTE), 40, at=Standstill.at)
    assert let_in(share, requests(40, MINUTE)) == 0


def test_a_share_waits_for_no_count_that_was_lost(share):
    assert not ask(share, requests(40, MONTH, since=Standstill.at))[0].is_rejected


def test_what_a_process_holds_of_redis_is_held_of_its_share(share):
    running, ann = concurrent(8), use("ann", 8)
    heard(share, running, 1, holds=[Hold(running), Hold(ann)])
    assert let_in(share, running) == 1
    assert let_in(share, ann) == 1
    share.observe_settlement(Settlement("t of redis", [Hold(running), Hold(ann)], [0, 0]), counted_in_redis=True)
    assert admitted(share, running)
    assert admitted(share, ann), "her use lives on"


def test_what_is_reserved_here_is_given_back_and_counted_here_unless_redis_was_told(share):
    for counted_in_redis, rest in ((False, 25 - 5), (True, 20), (False, 15)):
        admission = share.admit([tokens(100, 10)], "", "t")
        share.observe_settlement(Settlement("t", admission.holds, [5]), counted_in_redis=counted_in_redis)
        assert share.admit([tokens(100, 0)]).statuses[0].remaining == rest


def test_what_was_reserved_in_redis_gives_nothing_back_here(share):
    hold = Hold(tokens(100, 10), 10, MIDNIGHT, Standstill.at)
    assert admitted(share, tokens(100, 5))
    share.observe_settlement(Settlement("t", [hold], [8]), counted_in_redis=False)
    assert share.admit([tokens(100, 0)]).statuses[0].remaining == 25 - 5 - 8


def test_what_redis_reserved_and_cannot_be_told_is_counted_here_even_if_nothing_else_was(share):
    hold = Hold(tokens(100, 10), 10, MIDNIGHT, Standstill.at)
    share.observe_settlement(Settlement("t", [hold], [8]), counted_in_redis=False)
    assert counted(share) == [("tokens", MIDNIGHT, 8)]


@pytest.mark.parametrize(
    ("take", "begin", "expected"),
    [(1, MIDNIGHT, 10), (0, MIDNIGHT, 9), (0, MIDNIGHT - DAY, 10)],
    ids=["was counted when it was admitted", "nobody has counted it", "belongs to a window that is over"],
)
def test_a_request_that_ends_counts_once(share, take, begin, expected):
    check = requests(44, since=1.0)
    assert admitted(share, check)
    share.observe_settlement(Settlement("t", [Hold(check, take, begin, Standstill.at)], [1]), counted_in_redis=False)
    assert let_in(share, check) == expected


def counted(share):
    return [(count.check.name, count.begin, count.usage) for count in share.hand_over()]


def test_what_was_counted_here_redis_is_told_once_and_it_stays_counted(share):
    heard(share, requests(40), 8)
    assert let_in(share, requests(40)) == 8
    assert counted(share) == [("requests", MIDNIGHT, 8)]
    assert counted(share) == []
    assert let_in(share, requests(40)) == (40 - 8 - 8) // PROCESSES
    assert counted(share) == [("requests", MIDNIGHT, 6)]


def test_what_redis_did_not_hear_it_is_told_again(share):
    heard(share, requests(40), 8)
    assert [admitted(share, requests(40)) for _ in range(3)] == [True] * 3
    share.take_back(share.hand_over())
    assert let_in(share, requests(40)) == 8 - 3
    assert counted(share) == [("requests", MIDNIGHT, 8)]


def test_what_redis_did_not_hear_of_a_window_that_is_over_is_not_counted_in_the_next(share):
    assert admitted(share, requests(40, MINUTE))
    row = share.hand_over()
    share.clock.at += MINUTE
    assert admitted(share, requests(40, MINUTE))
    share.take_back(row)
    assert counted(share) == [("requests", Standstill.at, 1), ("requests", Standstill.at + MINUTE, 1)]


def reported_uses(share, *, again=False):
    return {
        check.member: in_flight for uses in share.changed_uses(include_all=again).values() for check, in_flight in uses
    }


def test_uses_that_no_limit_bounds_are_told_once_they_change_and_again_while_they_are_in_flight(share):
    ann, eve = use("ann", 0), use("eve", 5)
    share.note_use(ann, "t1", share.clock.at)
    share.note_use(use("bob", 0), "", share.clock.at)
    share.observe_admission("t2", Admission([], holds=[Hold(eve)]), share.clock.at)
    assert reported_uses(share) == {"ann": True, "bob": False}
    assert reported_uses(share) == {}
    assert reported_uses(share, again=True) == {"ann": True}
    for token, check in (("t1", ann), ("t2", eve)):
        share.observe_settlement(Settlement(token, [Hold(check)], [0]), counted_in_redis=True)
    assert reported_uses(share) == {"ann": False}
    assert reported_uses(share, again=True) == {}
