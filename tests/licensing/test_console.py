"""The licence is installed in the console as over the API, and the log knows by whom."""

from decimal import Decimal

import pytest

from licensing.models import Licence
from licensing.services import change_limit, set_limit
from telemetry.models import LogEntry
from tests.support.console.forms import fields_of
from tests.support.licences import Vendor
from tests.support.management import PASSWORD, new_admin, new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture
def console(client, settings):
    settings.CACHES = {name: {**cache, "KEY_PREFIX": "licence-console"} for name, cache in settings.CACHES.items()}
    new_admin(username="boss")
    client.post("/admin/login/", {"username": "boss", "password": PASSWORD})
    return client


def test_who_installed_it_stands_in_the_log_without_the_key(console, vendor):
    key = vendor.licence()
    answer = console.post("/admin/licence/", {"key": key}, follow=True)
    assert "The licence key is installed." in answer.text
    assert Licence.objects.count() == 1
    entry = LogEntry.objects.get(message="boss created licence: licenceKey.")
    assert (entry.username, entry.entry_type) == ("boss", "Message")
    assert key not in entry.payload


def test_one_that_is_not_good_changes_nothing_and_says_why(console, vendor):
    answer = console.post("/admin/licence/", {"key": Vendor().licence()})
    assert answer.status_code == 200
    assert 'role="alert"' in answer.text
    assert not Licence.objects.exists()
    assert not LogEntry.objects.filter(message__contains="licence").exists()


@pytest.mark.long
def test_an_amount_stands_there_without_zeros_that_say_nothing(console):
    limit = set_limit(user=new_user(), measure="cost", window="day", amount=Decimal("100.5"))
    for amount, shown in ((Decimal("100.5"), "100.5"), (Decimal(500), "500"), (Decimal(0), "0")):
        change_limit(limit, amount=amount)
        assert fields_of(console.get(f"/admin/licensing/limit/{limit.pk}/change/").text)["amount"] == [shown]
