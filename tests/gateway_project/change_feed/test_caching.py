"""A result is computed again when what it depends on has changed, and only then."""

import pytest
from django.db import transaction

from accounts.models import Group
from gateway_project.change_feed import caching
from gateway_project.change_feed.caching import ConfigurationCache

pytestmark = pytest.mark.django_db(transaction=True)


def _names() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


@pytest.fixture
def computed():
    return []


@pytest.fixture
def cache(computed):
    def compute():
        computed.append(1)
        return _names()

    return ConfigurationCache(compute, ["group"])


def test_it_is_computed_once_until_something_changes(cache, computed):
    Group.objects.create(name="team")
    assert [cache.get() for _ in range(5)] == [["team"]] * 5
    assert len(computed) == 1
    Group.objects.update(name="crew")
    assert [cache.get() for _ in range(5)] == [["crew"]] * 5
    assert len(computed) == 2
    Group.objects.all().delete()
    assert cache.get() == []


def test_other_changes_do_not_count(cache, computed, django_user_model):
    cache.get()
    django_user_model.objects.create(username="ann")
    cache.get()
    assert len(computed) == 1


def test_a_transaction_sees_its_own_changes_and_nobody_else_does(cache):
    assert cache.get() == []
    with transaction.atomic():
        Group.objects.create(name="team")
        assert cache.get() == ["team"]
        transaction.set_rollback(True)
    assert cache.get() == []


def test_after_a_minute_it_is_computed_anyway(cache, computed, monkeypatch):
    cache.get()
    monkeypatch.setattr(caching, "MAX_AGE_SECONDS", -1)
    cache.get()
    assert len(computed) == 2
