"""The figures of errors and denied requests lead to exactly what they count."""

from datetime import UTC, datetime

import pytest

from telemetry.log_page.histogram import histogram
from telemetry.models import LogEntry, Outcome, UsageHour
from telemetry.usage import rollups

pytestmark = pytest.mark.django_db
DAY = "2026-01-05"


@pytest.fixture
def entries() -> None:
    for number, outcome in enumerate(Outcome.values):
        LogEntry.objects.create(
            entry_type="WorkRequest",
            correlation_id=f"a-{number}",
            outcome=outcome,
            timestamp=datetime(2026, 1, 5, 10, number, tzinfo=UTC),
        )


@pytest.mark.parametrize("result", ["errors", "denied"])
def test_the_list_has_the_rows_that_the_usage_counts(console, entries, result):
    page = console.get(f"/admin/telemetry/logentry/?result={result}")
    listed = {row.outcome for row in page.context["cl"].result_list}
    counted = LogEntry.objects.extra(where=[rollups._COUNT_CONDITIONS[result]])
    assert listed == set(counted.values_list("outcome", flat=True)) != set()


@pytest.mark.parametrize(("result", "most"), [("errors", 2), ("denied", 3), ("", 9)])
def test_the_histogram_follows_it(result, most):
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", requests=9, errors=2, denied=3)
    query = {"timestamp_from_0": DAY, "timestamp_from_1": "00:00:00", "timestamp_to_0": DAY,
             "timestamp_to_1": "23:59:59", "result": result}  # fmt: skip
    drawn = histogram(query, LogEntry.objects.all())
    assert (drawn.most, drawn.omissions) == (most, "")
