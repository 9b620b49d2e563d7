"""Ahead of its expiry the licence says so: in the log once a day, and to whoever asks for notices."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from gateway_project.console.notices import notices
from gateway_project.work.tasks.licence_expiry import warn_of_expiry
from licensing.models import Licence
from licensing.services import install_licence
from telemetry.models import LogEntry
from tests.support.licences import Vendor, in_days

pytestmark = pytest.mark.either_store


def entries():
    return list(LogEntry.objects.filter(entry_type="Message").values_list("severity", "message"))


def test_nothing_is_said_without_a_licence_or_long_before(db, vendor):
    warn_of_expiry()
    install_licence(vendor.licence(expiry=in_days(32)))
    warn_of_expiry()
    assert entries() == notices() == []


def test_the_log_and_the_notices_warn_from_thirty_days_before(db, vendor):
    install_licence(vendor.licence(expiry=in_days(29)))
    warn_of_expiry()
    ((severity, message),) = entries()
    assert severity == "warning"
    assert f"at the end of {in_days(29)}" in message
    ((level, text, *_),) = notices()
    assert level == "warning"
    assert "expires in 2" in text


def test_it_is_said_once_a_day(db, vendor):
    install_licence(vendor.licence(expiry=in_days(10)))
    for _ in range(3):
        warn_of_expiry()
    assert len(entries()) == 1
    Licence.objects.update(warned_on=in_days(0) - timedelta(days=1))
    warn_of_expiry()
    assert len(entries()) == 2


def test_another_licence_is_another_matter(db, vendor):
    install_licence(vendor.licence(expiry=in_days(10)))
    warn_of_expiry()
    install_licence(vendor.licence(expiry=in_days(20)))
    warn_of_expiry()
    assert len(entries()) == 2


def test_what_is_over_or_invalid_is_an_error(db, vendor, settings):
    install_licence(vendor.licence(expiry=in_days(-1)))
    warn_of_expiry()
    assert entries()[0][0] == notices()[0].severity == "error"
    assert "expired" in entries()[0][1]
    settings.GATEWAY_LICENCE_PUBLIC_KEY = Vendor().public_key
    assert "invalid" in notices()[0].text


@pytest.mark.django_db(transaction=True)
def test_of_many_processes_one_says_it(vendor):
    install_licence(vendor.licence(expiry=in_days(10)))

    def look(_) -> None:
        warn_of_expiry()
        connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(look, range(16)))
    assert len(entries()) == 1
