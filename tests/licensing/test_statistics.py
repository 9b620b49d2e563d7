"""Active uses in numbers: what is live, what was written down, and both together."""

from datetime import UTC, date, datetime, timedelta

import pytest

from licensing.models import DailyPeak
from licensing.services import note_peaks
from licensing.statistics import Uses, daily_peaks
from tests.support.licences import in_days
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store

TODAY = date(2030, 3, 1)
YESTERDAY = date(2030, 2, 28)


def statistics_of(client, query: str = "", **options):
    response = client.get(f"/stats/{query}", **options)
    assert response.status_code == 200, response.text
    assert response.json().keys() == {"data"}
    assert response.json()["data"].keys() == {"stats"}
    return response.json()["data"]["stats"]


def test_the_last_days_are_told_the_oldest_first_and_the_quiet_ones_too():
    result = daily_peaks([(YESTERDAY, 7)], Uses(2, {TODAY: 5}), TODAY, 3)
    assert result == [
        {"date": date(2030, 2, 27), "peakUse": 0},
        {"date": YESTERDAY, "peakUse": 7},
        {"date": TODAY, "peakUse": 5},
    ]


@pytest.mark.parametrize(
    ("written", "live", "current", "peak"), [(7, 5, 2, 7), (5, 7, 2, 7), (0, 0, 4, 4), (5, 6, 7, 7)]
)
def test_the_highest_number_that_anybody_knows_counts(written, live, current, peak):
    result = daily_peaks([(TODAY, written)], Uses(current, {TODAY: live}), TODAY, 1)
    assert result == [{"date": TODAY, "peakUse": peak}]


def test_what_is_written_never_falls(db):
    for peaks, current, expected in [({TODAY: 5}, 1, 5), ({TODAY: 3}, 1, 5), ({}, 2, 5), ({TODAY: 6}, 9, 9)]:
        note_peaks(Uses(current, peaks), TODAY)
        assert DailyPeak.objects.get().peak_use == expected


def test_yesterdays_last_peak_is_written_after_midnight(db):
    note_peaks(Uses(2, {YESTERDAY: 8}), TODAY)
    assert list(DailyPeak.objects.values_list("date", "peak_use")) == [(YESTERDAY, 8), (TODAY, 2)]


def test_a_quiet_day_writes_nothing(db):
    note_peaks(Uses(0, {}), TODAY)
    assert not DailyPeak.objects.exists()


@pytest.mark.parametrize("flat", [True, False])
def test_the_api_tells_thirty_days_unless_told(admin, flat):
    DailyPeak.objects.create(date=in_days(-29), peak_use=4)
    DailyPeak.objects.create(date=in_days(-40), peak_use=9)
    stats = statistics_of(admin, flat=flat)
    assert stats.keys() == {"currentUses", "peakDailyUses"}
    assert stats["currentUses"] == 0
    assert len(stats["peakDailyUses"]) == 30
    assert {"date": in_days(-29).isoformat(), "peakUse": 4} in stats["peakDailyUses"]
    assert max(day["peakUse"] for day in stats["peakDailyUses"]) == 4


def test_it_tells_as_many_days_as_are_asked_for(admin):
    DailyPeak.objects.create(date=in_days(-40), peak_use=9)
    stats = statistics_of(admin, "?days=50")
    assert len(stats["peakDailyUses"]) == 50
    assert {"date": in_days(-40).isoformat(), "peakUse": 9} in stats["peakDailyUses"]
    last = date.fromisoformat(statistics_of(admin, "?days=1")["peakDailyUses"][0]["date"])
    assert datetime.now(UTC).date() - last <= timedelta(days=1)  # midnight may come in between


@pytest.mark.parametrize(
    "days", ["0", "-1", "x", "", "1.5", "100000", "9" * 5000, "٣", "000000001999999", "00000000199999"]
)
def test_other_numbers_of_days_are_refused(admin, days):
    refused(admin.get("/stats/", params={"days": days}), 400, "ValidationError", "days")


def test_it_takes_the_feature(nobody):
    refused(nobody.as_user(new_user()).get("/stats/"), 403, "PermissionDenied", "stats.view")
    assert statistics_of(nobody.as_user(new_user("stats.view")))["currentUses"] == 0
