"""Who looks at the limits sees what an admission would see, and takes nothing."""

import time
from itertools import chain

import pytest

from gateway_project.work.limits.checks import DAY, LimitCheck
from tests.gateway_project.work.state.test_admission_table import CASES, everything, request_of
from tests.support.limits.asking import ask, concurrent, quota, tokens_of, use

SINCE = time.time() - 400 * DAY


def state_of(state, checks):
    return dict(zip([check.name for check in checks], state.used_amounts(checks), strict=True))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_excerpt_admits_what_the_state_admits(state, case):
    state.begin_storing("stored", b"value", 60, "")()
    for before in case.before:
        checks, options = request_of(before)
        ask(state, *checks, **options)
    checks = list(everything(case).values())
    before = state_of(state, checks)
    excerpt = state.excerpt([*case.checks, *chain(*case.options.get("candidate_checks", ()))])
    if case.answer is not None:
        excerpt.begin_storing("stored", case.answer, 60, "")()
    if state.peek(case.options.get("key", ""))[1]:  # an identical request is in flight
        excerpt.admit((), case.options["key"], "another")
    admission = ask(excerpt, *case.checks, **case.options)[0]
    assert (admission.refused.check.name if admission.refused else "") == case.refused
    assert (admission.value, admission.choice) == (case.answer, case.choice)
    assert tuple(full.check.name for full in admission.full) == case.full
    assert admission.leads == case.leads
    assert tuple(status.remaining for status in admission.statuses) == case.remaining
    assert state_of(state, checks) == before


def test_a_reading_tells_what_is_used_from_what_is_reserved(state):
    requests, tokens, lease, uses = LimitCheck("r", 10), tokens_of(100, 30), concurrent(3), use("1", 2)
    requests = requests._replace(window_seconds=60)
    checks = requests, tokens, lease, uses
    settle = ask(state, *checks)[1]
    settle(*(20 if hold.check.kind == "r" else 0 for hold in ask(state, *checks, token="second")[0].holds))
    ask(state, *checks)
    readings = state.excerpt(checks).read_checks(checks)
    of_requests, of_tokens, *_ = [(one.usage, one.reserved, one.remaining) for one in readings]
    assert of_requests == (3, 0, 7)
    used, reserved, remaining = of_tokens
    assert (used + reserved + remaining, reserved >= 30) == (100, True)
    assert all(one.reset_seconds >= 1 for one in readings)
    assert readings[3].usage == 1


def test_who_looks_begins_no_count_and_starts_no_use(state):
    checks = LimitCheck("r", 10, 60), quota(5, SINCE), concurrent(3), use("7", 2)
    for _ in range(3):
        excerpt = state.excerpt(checks)
        lost = excerpt.lost_counts(checks)
        excerpt.rebuild([(one, 2) for one in lost])
        assert [one.usage for one in excerpt.read_checks(checks)] == [0, 2 if lost else 0, 0, 0]
        assert ask(excerpt, *checks)[0].refused is None
    assert state.used_amounts(checks)[1] is None
    assert state.used_amounts((checks[0], checks[2], checks[3])) == [0, 0, 0]
    assert state.count_uses("uses") == 0


def test_a_user_at_work_is_seen_as_one(state):
    ask(state, use("1", 1))
    for member, is_refused in (("1", False), ("2", True)):
        check = use(member, 1)
        assert (ask(state.excerpt([check]), check)[0].refused is not None) == is_refused
