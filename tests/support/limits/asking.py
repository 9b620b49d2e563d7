"""Checks as tests ask them, and how they ask a shared state."""

import itertools

from gateway_project.work.limits.checks import DAY, LEASE, MONTH, RESERVE, USE, LimitCheck, Settlement, window_begin
from gateway_project.work.state.clock import Clock

HOUR = 3600
MIDNIGHT = window_begin(DAY, 1_800_000_000)
_tokens = itertools.count(1)


class Standstill(Clock):
    """A clock that is set; noon, unless told."""

    at = MIDNIGHT + DAY / 2

    def now(self):
        return self.at


def tokens_of(amount, take, *, minimum=None, name="tokens"):
    return LimitCheck(name, amount, HOUR, RESERVE, take, take if minimum is None else minimum)


def concurrent(amount, name="concurrent"):
    return LimitCheck(name, amount, kind=LEASE)


def use(member, amount, life=60):
    return LimitCheck("uses", amount, life, USE, member=member)


def ask(state, *checks, **options):
    """An admission under a token of its own, and the settlement that settles it."""
    token = options.pop("token", None) or f"t{next(_tokens)}"
    admission = state.admit(checks, options.pop("key", ""), token, **options)
    return admission, lambda *amounts: state.settle(
        Settlement(token, admission.holds, amounts or [0] * len(admission.holds))
    )


def admitted(state, *checks, **options):
    return ask(state, *checks, **options)[0].refused is None


def quota(amount, since, name="quota", kind="n", set_at=0.0):
    return LimitCheck(name, amount, MONTH, kind, since=since, set_at=int(set_at * 1000))


def rebuilt(state, *checks, used=0):
    """These checks, of which the log has told that so much was used."""
    for check in checks:
        state.rebuild([(lost, used) for lost in ask(state, check)[0].lost])
    return checks
