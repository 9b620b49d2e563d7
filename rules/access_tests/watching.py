"""Runs the access tests around a change, and refuses a change that breaks one."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from django.db import connection

from gateway_project.api import audit
from gateway_project.database.guarding import Access, override_reason
from gateway_project.errors import AccessTestFailed, BrokenTest
from rules.access_tests.judging import judge_of
from rules.access_tests.models import AccessTest

VIEW = "rules.view"
MAX_NAMED = 20  # tests, in one message


@contextmanager
def watch_tests(parts: Collection[Access]) -> Iterator[None]:
    """Around a change: raises AccessTestFailed if a test that held before it fails after it.

    With a reason for an override the change is made, and the audit keeps the reason with the tests. Only the tests
    that held before count. Without tests this is one query.
    """
    if not AccessTest.objects.exists():
        yield
        return
    _lock()
    tests = list(AccessTest.objects.shown())
    judge = judge_of(tests)
    valid = [test for test in tests if judge.holds(test)]
    yield
    judge.reload(parts)
    if failures := [test for test in valid if not judge.holds(test)]:
        _refuse_or_record([BrokenTest(test.pk, test.name, judge.explain(test)) for test in failures])


def _lock() -> None:
    """Let changes wait for each other: two at once could break a test that neither breaks alone.

    Transactions on SQLite exclude each other anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gateway access tests'))")


def _refuse_or_record(broken: Sequence[BrokenTest]) -> None:
    reason, actor = override_reason(), audit.current_actor()
    if not reason:
        raise AccessTestFailed.of(broken if _may_see_rules(actor) else [test._replace(reason="") for test in broken])
    message = f"{actor.name or 'Nobody'} made a change that breaks {_name_tests(broken)}. Reason: {reason}"
    _record(actor, message, broken, reason)


def record_override(failing: Sequence[BrokenTest], reason: str) -> None:
    """Have the audit keep why tests that fail did not matter in a run of all."""
    actor = audit.Actor(operator=audit.operator())
    message = f"{actor.name} let {_name_tests(failing)} fail, by manage.py. Reason: {reason}"
    _record(actor, message, failing, reason)


def _record(actor: audit.Actor, message: str, broken: Sequence[BrokenTest], reason: str) -> None:
    rows = [{"id": test.id, "name": test.name, "because": test.reason} for test in broken]
    after = {"reason": reason, "accessTests": rows}
    audit.record(actor, "override", "access-tests", after=after, message=message, severity="warning")


def _may_see_rules(actor: audit.Actor) -> bool:
    """Whether the actor may know why a request is refused: an admin of a group, or the owner of a key, may not."""
    return actor.caller is None or actor.caller.has(VIEW)


def _name_tests(broken: Sequence[BrokenTest]) -> str:
    names = ", ".join(test.name for test in broken[:MAX_NAMED])
    more = f" and {len(broken) - MAX_NAMED:,} more" if len(broken) > MAX_NAMED else ""
    return f"the access test{'' if len(broken) == 1 else 's'} {names}{more}"
