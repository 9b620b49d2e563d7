"""The table of what an admission does: the Lua script and the class for one process have to agree on every row."""

from typing import NamedTuple

import pytest

from gateway_project.work.exchange import RequestLimits
from gateway_project.work.limits.checks import DAY, MINUTE, LimitCheck
from gateway_project.work.limits.records import record_limits
from tests.support.limits.asking import ask, concurrent, tokens_of, use


def requests(amount, take=1, window=MINUTE, name="requests"):
    return LimitCheck(name, amount, window, take=take)


class Case(NamedTuple):
    """Requests that came `before` and are still in flight; then one with `checks`, and what becomes of it.

    `refused` is the name of the limit that refuses it, `used` what is used and held of each limit afterwards.
    """

    before: tuple
    checks: tuple
    used: dict
    refused: str = ""
    remaining: tuple = ()
    holds: tuple = ()
    options: dict = {}
    leads: bool = False
    choice: int = 0
    full: tuple = ()
    answer: bytes | None = None


KEY = {"key": "k", "read": True}
CASES = {
    # Requests per minute: the commonest case, which the script answers early
    "the first request": Case((), (requests(2),), {"requests": 1}, remaining=(1,)),
    "the last request": Case(((requests(2),),), (requests(2),), {"requests": 2}, remaining=(0,)),
    "one request too many": Case(((requests(1),),), (requests(1),), {"requests": 1}, "requests", (0,)),
    "no request at all": Case((), (requests(0),), {"requests": 0}, "requests", (0,)),
    "a request that counts twice": Case((), (requests(3, take=2),), {"requests": 2}, remaining=(1,)),
    "two limits, the second is full": Case(
        ((requests(1, name="b"),),), (requests(9, name="a"), requests(1, name="b")), {"a": 0, "b": 1}, "b", (9, 0)
    ),
    "two limits, the first is full": Case(
        ((requests(1, name="a"),),), (requests(1, name="a"), requests(9, name="b")), {"a": 1, "b": 0}, "a", (0, 9)
    ),
    "a flight to lead": Case((), (requests(9),), {"requests": 1}, remaining=(8,), options=KEY, leads=True),
    "a flight to wait for": Case(
        (((requests(9),), KEY),), (requests(9),), {"requests": 2}, remaining=(7,), options=KEY
    ),
    "a refused request leads no flight": Case((), (requests(0),), {"requests": 0}, "requests", (0,), options=KEY),
    "a cached answer": Case(
        (), (requests(9),), {"requests": 1}, remaining=(8,), options={"key": "stored", "read": True}, answer=b"value"
    ),
    # The same with a day, which is counted by the other part of the script
    "a request of a day": Case((), (requests(2, window=DAY),), {"requests": 1}, remaining=(1,)),
    "one request of a day too many": Case(
        ((requests(1, window=DAY),),), (requests(1, window=DAY),), {"requests": 1}, "requests", (0,)
    ),
    "two kinds, one is full": Case(
        ((concurrent(1),),), (requests(9), concurrent(1)), {"requests": 0, "concurrent": 1}, "concurrent", (9, 0)
    ),
    # Reservations
    "a reservation": Case((), (tokens_of(100, 60),), {"tokens": 60}, remaining=(40,), holds=(60,)),
    "a reservation without room": Case(
        ((tokens_of(100, 60),),), (tokens_of(100, 60),), {"tokens": 60}, "tokens", (40,)
    ),
    "a reservation without a bound": Case(
        ((tokens_of(100, 60),),), (tokens_of(100, 1000, minimum=5),), {"tokens": 100}, remaining=(0,), holds=(40,)
    ),
    "a reservation that never fits": Case((), (tokens_of(100, 101),), {"tokens": 0}, "tokens", (100,)),
    "a wait reserves nothing": Case(
        (((tokens_of(100, 60),), KEY),), (tokens_of(100, 60),), {"tokens": 60}, remaining=(40,), options=KEY
    ),
    "a cached answer reserves nothing": Case(
        ((tokens_of(100, 60),),), (tokens_of(100, 60),), {"tokens": 60}, remaining=(40,),
        options={"key": "stored", "read": True}, answer=b"value",
    ),
    # Concurrent requests and active uses
    "a concurrent request": Case((), (concurrent(2),), {"concurrent": 1}, remaining=(1,), holds=(1,)),
    "one concurrent request too many": Case(
        ((concurrent(1),),), (concurrent(1),), {"concurrent": 1}, "concurrent", (0,)
    ),
    "an active use": Case((), (use("1", 2),), {"uses": 1}, remaining=(1,), holds=(1,)),
    "a second request of the same user": Case(
        ((use("1", 1),),), (use("1", 1),), {"uses": 1}, remaining=(0,), holds=(1,)
    ),
    "one active use too many": Case(((use("1", 1),),), (use("2", 1),), {"uses": 1}, "uses", (0,)),
    # Candidates
    "the first candidate has room": Case(
        (), (requests(9),), {"requests": 1, "one": 1, "two": 0}, remaining=(8, 0),
        options={"candidate_checks": [(requests(1, name="one"),), (requests(1, name="two"),)]},
    ),
    "the second candidate has room": Case(
        ((requests(1, name="one"),),), (requests(9),), {"requests": 1, "one": 1, "two": 1}, remaining=(8, 0),
        options={"candidate_checks": [(requests(1, name="one"),), (requests(1, name="two"),)]},
        choice=1, full=("one",),
    ),
    "a candidate without limits": Case(
        ((requests(1, name="one"),),), (requests(9),), {"requests": 1, "one": 1}, remaining=(8,),
        options={"candidate_checks": [(requests(1, name="one"),), ()]}, choice=1, full=("one",),
    ),
    "no candidate has room": Case(
        ((requests(1, name="one"),),), (requests(9),), {"requests": 0, "one": 1}, "one", (9,),
        options={"candidate_checks": [(requests(1, name="one"),)]},
    ),
    "no candidate is asked for a cached answer": Case(
        ((requests(1, name="one"),),), (requests(9),), {"requests": 1, "one": 1}, remaining=(8,),
        options={"key": "stored", "read": True, "candidate_checks": [(requests(1, name="one"),)]}, answer=b"value",
    ),
}  # fmt: skip


def request_of(before):
    """The checks and the options of a request that came before."""
    return (before, {}) if isinstance(before[0], LimitCheck) else before


def everything(case):
    """Every check of the case by name."""
    groups = [
        case.checks,
        *case.options.get("candidate_checks", ()),
        *(request_of(before)[0] for before in case.before),
    ]
    return {check.name: check for group in groups for check in group}


def readings_of(state, case):
    """Every limit of the case as it is, by name: what is used, reserved and remains."""
    checks = list(everything(case).values())
    readings = state.excerpt(checks).read_checks(checks)
    return {one.check.name: (one.usage, one.reserved, one.remaining) for one in readings}


def recorded(admission):
    """The same of the limits that the log entry of the request has."""
    limits = RequestLimits()
    record_limits(limits, admission)
    return {name: tuple(figures) for name, _, *figures, _ in limits.records.values()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_admission(state, case):
    state.begin_storing("stored", b"value", 60, "")()
    for before in case.before:
        checks, options = request_of(before)
        assert ask(state, *checks, **options)[0].refused is None
    readings = readings_of(state, case)
    admission, _ = ask(state, *case.checks, **case.options)
    records, recordable = recorded(admission), {name for name, check in everything(case).items() if check.amount}
    if not (case.answer or admission.refused):  # otherwise no candidate need be looked at
        assert records.keys() >= {one.check.name for one in admission.statuses} & recordable
    assert records.keys() >= {case.refused, *case.full} & recordable
    assert records == {name: readings[name] for name in records}
    assert (admission.refused.check.name if admission.refused else "") == case.refused
    assert tuple(status.remaining for status in admission.statuses) == case.remaining
    assert (admission.value, admission.leads) == (case.answer, case.leads)
    assert (admission.choice, tuple(full.check.name for full in admission.full)) == (case.choice, case.full)
    if case.holds:
        assert tuple(hold.take or 1 for hold in admission.holds) == case.holds
    else:
        assert admission.holds == []
    values = everything(case)
    assert dict(zip(case.used, state.used_amounts([values[name] for name in case.used]), strict=True)) == case.used
