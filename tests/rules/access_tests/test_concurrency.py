"""Two changes at once cannot together break a test that neither breaks alone."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from gateway_project.errors import AccessTestFailed
from rules.access_tests.judging import verdicts_of
from rules.access_tests.models import AccessTest
from rules.models import Rule
from rules.services import create_rule, update_rule
from tests.support.pace import patience

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.servers]
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def wait_for_waiter() -> None:
    """Until somebody waits for the lock of the tests."""
    deadline = time.monotonic() + patience(20)
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(WAITING)
            if cursor.fetchone()[0]:
                return
        time.sleep(0.05)
    raise AssertionError("The second change does not wait for the first.")


def disable(rule_id: int) -> str:
    try:
        update_rule(Rule.objects.get(pk=rule_id), enabled=False)
    except AccessTestFailed:
        return "refused"
    finally:
        connection.close()
    return "done"


def test_the_second_change_sees_the_first(scene):
    other = create_rule(name="Ann again", user_id=scene.ann.pk)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            update_rule(scene.rule, enabled=False)
            second = pool.submit(disable, other.pk)
            wait_for_waiter()
        assert second.result(patience(30)) == "refused"
    assert [rule.enabled for rule in Rule.objects.order_by("pk")] == [False, True]
    assert all(verdict.holds for verdict in verdicts_of(list(AccessTest.objects.shown())))


def test_the_second_change_is_made_if_the_first_is_not(scene):
    other = create_rule(name="Ann again", user_id=scene.ann.pk)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            update_rule(scene.rule, enabled=False)
            second = pool.submit(disable, other.pk)
            wait_for_waiter()
            transaction.set_rollback(True)
        assert second.result(patience(30)) == "done"
    assert [rule.enabled for rule in Rule.objects.order_by("pk")] == [True, False]
