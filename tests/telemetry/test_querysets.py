"""Questions to the log that the databases answer in their own ways."""

import pytest

from telemetry.journal.batches import insert_log_entries
from telemetry.models import LogEntry
from tests.telemetry.conftest import entry

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", ["team", "2024", "a__b", "key", "a.b-c"])
def test_a_tag_is_found_whatever_its_name(name):
    insert_log_entries([entry("blue", tags={name: "5"}), entry("red", tags={name: "7", "other": "5"}), entry("none")])

    def ids(*tag):
        return set(LogEntry.objects.tagged(*tag).values_list("correlation_id", flat=True))

    assert ids(name) == {"blue", "red"}
    assert ids(name, "5") == {"blue"}
    assert ids(name, "") == ids("none") == set()
