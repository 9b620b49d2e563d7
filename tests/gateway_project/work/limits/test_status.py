"""How limits stand where nothing has counted them yet."""

import time
from decimal import Decimal

import pytest

from accounts.models import Group
from gateway_project.work.limits.status import statuses_of
from gateway_project.work.log.timestamps import timestamp
from gateway_project.work.state.shared import LocalState
from licensing.models import Limit
from telemetry.journal.batches import insert_log_entries
from tests.support.management import new_user
from tests.telemetry.conftest import entry

pytestmark = pytest.mark.django_db


def limits(users):
    """Limits on requests and tokens of a day and of a month for each, and one for a group that has them all."""
    rows = [
        Limit.objects.create(user=user, measure=measure, window=window, amount=100)
        for user in users
        for measure in ("requests", "tokens")
        for window in ("day", "month")
    ]
    return [
        *rows,
        Limit.objects.create(group=Group.objects.create(name="all"), measure="requests", window="day", amount=9),
    ]


@pytest.mark.parametrize("number", [1, 5])
def test_the_log_is_asked_once_for_all_of_a_kind_in_a_window(number, django_assert_max_num_queries):
    values = limits([new_user(username=f"user-{count}") for count in range(number)])
    attributes = {"outcome": "completed", "attempts": 1, "output_tokens": 7, "group_ids": [values[-1].group_id]}
    begun = timestamp(time.time() - 1)
    for limit in values:
        insert_log_entries([entry("r", timestamp=begun, user_id=limit.user_id, **attributes)])
    # Users in a day and in a month, which begin together on the first, and groups in a day; each with its time-outs.
    with django_assert_max_num_queries(3 * 2):
        result = statuses_of(LocalState(cache_bytes=0), values)
    assert [status.used for status in result] == [Decimal(4), 4, 28, 28] * number + [4 * number + 1]


@pytest.mark.parametrize(("measure", "window"), [("requests", "minute"), ("tokens", "minute"), ("concurrent", "none")])
def test_nobody_knows_what_was_used_of_an_unlimited_one_that_is_not_counted(settings, measure, window):
    limit = Limit.objects.create(user=new_user(), measure=measure, window=window, amount=0)
    assert statuses_of(LocalState(cache_bytes=0), [limit])[0].used is None
    settings.GATEWAY_LIMITS = {"user": {(measure, window): Decimal(5)}}  # counted: it applies once the limit is deleted
    assert statuses_of(LocalState(cache_bytes=0), [limit])[0].used == 0
