"""Clients choose tags: the statistics tell a bounded number of values apart, and agree with the log."""

from collections import Counter

import pytest

from telemetry.journal.batches import insert_log_entries
from telemetry.models import TagValue, UsageHour
from telemetry.usage import tags
from telemetry.usage.verification import differences
from tests.support.promises import promise
from tests.support.usage_entries import BEGIN, END, done

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _few(settings):
    tags._stored_pairs.clear()
    settings.GATEWAY_STATS_TAG_VALUES, settings.GATEWAY_STATS_TAG_NAMES = 3, 2


def counted():
    return Counter({str(row.tags): row.requests for row in UsageHour.objects.order_by("id")})


@promise("Values of a tag beyond the bound count as other", target="as many rows as the bound", suite="attack")
def test_values_beyond_the_bound_count_as_other_in_one_batch_and_over_several():
    insert_log_entries([done(f"r{n}", tags={"trace": f"v{n}"}) for n in range(5)])
    insert_log_entries([done(f"s{n}", tags={"trace": f"v{n}"}) for n in range(1, 9)])
    by_value = Counter()
    for row in UsageHour.objects.all():
        by_value[row.tags["trace"]] += row.requests
    assert by_value == {"v0": 1, "v1": 2, "v2": 2, "other": 8}
    assert TagValue.objects.count() == 3
    assert differences(BEGIN, END) == []


def test_names_beyond_the_bound_do_not_count():
    insert_log_entries([done(f"r{n}", tags={f"name{n}": "x"}) for n in range(4)])
    assert counted() == {"{'name0': 'x'}": 1, "{'name1': 'x'}": 1, "{}": 2}
    assert differences(BEGIN, END) == []
