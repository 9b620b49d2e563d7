"""The limits of a request before it takes anything: used, reserved, remaining, and when they reset."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from gateway_project.json_types import JsonObject
from gateway_project.work.explain.candidates import candidates_of
from gateway_project.work.explain.walk import Walk
from gateway_project.work.limits import active_uses
from gateway_project.work.limits.checks import MAX_AMOUNT, USE, LimitCheck, Reading, window_begin, window_end
from gateway_project.work.limits.kinds import COST, CREDENTIAL, LimitDescription, money
from gateway_project.work.limits.messages import name_of

ACTIVE_USES = "active uses of the licence"


def readings_of(walk: Walk, *, with_all: bool) -> list[Reading]:
    """The limits of the caller, of the licence and of the targets; `with_all`: those of credentials, too."""
    checks = {check.name: check for check in _checks(walk) if with_all or check.limit.subject.kind != CREDENTIAL}
    return walk.state.read([check for check in checks.values() if check.amount < MAX_AMOUNT])


def rows_of(readings: Iterable[Reading], walk: Walk) -> list[JsonObject]:
    """The limits as data."""
    now = walk.state.clock.now()
    return [row_of(reading, now) for reading in readings]


def name_of_limit(check: LimitCheck) -> str:
    """The limit for people: the daily cost limit of user bob."""
    return ACTIVE_USES if check.kind == USE else name_of(check.limit)


def _checks(walk: Walk) -> Iterator[LimitCheck]:
    exchange, book = walk.exchange, walk.gateway.snapshot.limits
    caller = exchange.identity.caller
    if caller is None:
        return
    yield from book.for_caller(exchange.identity.key, caller).checks
    yield active_uses.check_of(caller, walk.gateway.snapshot)
    for target in (*candidates_of(walk), *exchange.limits.full_candidates):
        yield from book.for_provider(target.provider).checks


def row_of(reading: Reading, now: float) -> JsonObject:
    """A limit as data; `now` says which window counts."""
    check, usage, reserved, remaining, _ = reading
    amount = None if check.is_unbounded else check.amount
    return {
        "limit": name_of_limit(check),
        "name": check.name,
        "amount": None if amount is None else _amount(amount, check.limit),
        "used": _amount(usage, check.limit),
        "reserved": _amount(reserved, check.limit),
        "remaining": None if amount is None else _amount(max(remaining, 0), check.limit),
        "resets": _end_of_window(check, now),
    }


def _end_of_window(check: LimitCheck, now: float) -> str | None:
    """The time at which the count starts again from 0; None for limits whose amounts are given back."""
    seconds = check.window_seconds
    if not seconds or check.kind == USE:
        return None
    return f"{datetime.fromtimestamp(window_end(seconds, window_begin(seconds, now)), UTC):%Y-%m-%dT%H:%M:%SZ}"


def _amount(amount: int, limit: LimitDescription) -> int | str:
    """A count, or money as text without zeros at its end."""
    return f"{money(amount).normalize():f}" if limit.measure == COST else amount
