"""The latest moment that was seen is remembered, and a clock that was set back does not make a licence last longer."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from gateway_project.work.tasks.licence_expiry import warn_of_expiry
from licensing.models import Licence
from licensing.services import current_terms, install_licence, note_time
from telemetry.models import LogEntry
from tests.support.licences import in_days
from tests.support.management import refused

pytestmark = pytest.mark.either_store

DAY = timedelta(days=1)


@pytest.fixture
def installed(db, vendor):
    install_licence(vendor.licence(issued=in_days(-20)))


def latest_time():
    return Licence.objects.get().latest_seen


def as_if_seen(moment):
    """What the clock being set back looks like from here."""
    Licence.objects.update(latest_seen=moment)


def test_how_late_it_is_is_noted_once_an_hour_and_never_falls(installed):
    begun = timezone.now() - timedelta(seconds=1)
    note_time()
    first = latest_time()
    assert begun <= first <= timezone.now() + timedelta(seconds=1)
    note_time()
    assert latest_time() == first
    as_if_seen(first - timedelta(hours=2))
    note_time()
    assert latest_time() >= first
    later = first + 3 * DAY
    as_if_seen(later)
    note_time()
    assert latest_time() == later


def test_nothing_is_noted_without_a_licence(db):
    note_time()
    assert not Licence.objects.exists()
    assert current_terms().problem(0.0) == ""


def test_a_clock_that_was_set_back_by_days_is_refused_and_said(installed, admin):
    as_if_seen(timezone.now() + 2 * DAY)
    refused(admin.get("/users/"), 403, "LicenceInvalid", "clock was set back")
    assert admin.get("/licence/").json()["data"]["attributes"]["valid"] is False
    assert admin.get("/rules/").status_code == 200
    warn_of_expiry()
    assert "clock was set back" in LogEntry.objects.get(entry_type="Message", severity="error").message
    as_if_seen(timezone.now() + timedelta(hours=20))
    assert admin.get("/users/").status_code == 200


def test_the_same_licence_again_or_an_older_one_is_no_way_out_and_a_newer_one_is(installed, vendor):
    ahead = timezone.now() + 300 * DAY
    as_if_seen(ahead)
    for issued in (in_days(-20), in_days(-30), None, in_days(-20)):
        assert install_licence(vendor.licence(issued=issued)).problem(timezone.now().timestamp())
        assert latest_time() == ahead
    assert install_licence(vendor.licence(issued=in_days(-1))).problem(timezone.now().timestamp()) == ""
    assert latest_time() == datetime.combine(in_days(-1), datetime.min.time(), UTC)


def test_a_licence_that_was_issued_tomorrow_or_later_tells_that_the_clock_is_behind(db, vendor):
    terms = install_licence(vendor.licence(issued=in_days(3)))
    assert "clock was set back" in terms.problem(timezone.now().timestamp())
