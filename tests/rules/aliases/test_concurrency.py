"""Two changes at once cannot together make a cycle that neither makes alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from gateway_project.errors import ValidationError
from rules.aliases.drafts import TargetDraft
from rules.aliases.models import Alias
from rules.aliases.services import create_alias, update_alias
from tests.rules.access_tests.test_concurrency import wait_for_waiter
from tests.support.pace import patience

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.servers]


def refer(alias_id: int, name: str) -> str:
    """Make another alias the target of this one, in a connection of its own."""
    try:
        update_alias(Alias.objects.get(pk=alias_id), targets=[TargetDraft(alias=name)])
    except ValidationError as error:
        return error.message
    finally:
        connection.close()
    return "done"


def test_the_second_change_waits_and_sees_the_first():
    one, two = create_alias(name="one"), create_alias(name="two")
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            update_alias(one, targets=[TargetDraft(alias="two")])
            second = pool.submit(refer, two.pk, "one")
            wait_for_waiter()
            assert not second.done()
        assert "cycle" in second.result(patience(30))
    assert list(two.targets.all()) == []


def test_the_second_change_is_made_if_the_first_is_not():
    one, two = create_alias(name="one"), create_alias(name="two")
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            update_alias(one, targets=[TargetDraft(alias="two")])
            second = pool.submit(refer, two.pk, "one")
            wait_for_waiter()
            transaction.set_rollback(True)
        assert second.result(patience(30)) == "done"
    assert two.targets.get().nested == one


def test_of_a_ring_of_changes_at_once_one_is_refused():
    aliases = [create_alias(name=f"n-{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        names = [aliases[(number + 1) % 4].name for number in range(4)]
        results = list(pool.map(refer, [alias.pk for alias in aliases], names))
    (refusal,) = [result for result in results if result != "done"]
    assert "cycle" in refusal
