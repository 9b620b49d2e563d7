"""API keys on the management API: each use is seen in the list, at the price of an UPDATE a minute."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from keys.models import ApiKey
from keys.services import issue_key
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store


@pytest.fixture
def issued(db):
    return issue_key(owner=new_user("logs.view_all", "work"), name="watcher", permissions=["logs.view_all"])


@pytest.fixture
def watcher(nobody, issued):
    return nobody.with_credential(issued.text)


def last_used():
    return ApiKey.objects.values_list("last_used", flat=True).get()


def test_the_use_of_a_key_is_noted_also_where_it_is_denied(watcher):
    refused(watcher.get("/users/"), 403, "PermissionDenied")
    assert timezone.now() - last_used() < timedelta(minutes=1)
    assert watcher.rows("/keys/")[0]["lastUsed"]


def test_a_wrong_key_notes_nothing(nobody, issued):
    other = issue_key(owner=issued.key.owner, name="other").text
    ApiKey.objects.filter(name="other").update(digest=b"x" * 32)
    refused(nobody.with_credential(other).get("/logs/"), 401, "AuthenticationFailed")
    assert set(ApiKey.objects.values_list("last_used", flat=True)) == {None}


@pytest.mark.parametrize(("seconds", "again"), [(50, False), (70, True)])
def test_a_use_is_noted_once_a_minute(watcher, seconds, again):
    before = timezone.now() - timedelta(seconds=seconds)
    ApiKey.objects.update(last_used=before)
    assert watcher.get("/logs/").status_code == 200
    assert (last_used() > before) is again


def test_a_use_that_cannot_be_noted_is_none_the_less_served(watcher, monkeypatch, caplog):
    def away(*args, **kwargs):
        raise OperationalError("database is locked")

    monkeypatch.setattr("keys.querysets.ApiKeyQuerySet.update", away)
    assert watcher.get("/logs/").status_code == 200
    assert "could not be recorded" in caplog.text
    assert last_used() is None
