"""Limits in the snapshot: what is loaded, and what a change loads again."""

from decimal import Decimal

import pytest

from accounts.models import Group, User
from gateway_project.work.snapshot import loading
from keys.models import ApiKey
from keys.services import issue_key
from licensing.models import Limit
from providers.models import Provider
from providers.services import (
    create_provider,
)
from tests.support.snapshot_loading import amounts, loaded

pytestmark = pytest.mark.django_db


def test_limits_of_credentials_in_use_are_known(provider_of_accounts):
    second, off = (
        provider_of_accounts.credentials.filter(name="second"),
        provider_of_accounts.credentials.filter(name="off"),
    )
    for rows in (second, off):
        rows.update(requests_per_minute=5, tokens_per_minute=600, concurrent_requests=7)
    snapshot = loaded("provider")
    limits = snapshot.limits
    expected = {"requests a minute": 5, "tokens a minute": 600, "concurrent a none": 7}
    assert amounts(limits, "credential", second.get().id) == expected
    assert amounts(limits, "credential", off.get().id) == {}
    first, other = snapshot.providers[provider_of_accounts.id].siblings
    assert (len(limits.for_provider(first).checks), len(limits.for_provider(other).checks)) == (0, 3)
    assert limits.has_provider_limits
    assert not any(check.limit.header or check.limit.policy for check in limits.for_provider(other).checks)


def test_limits_are_known_by_whose_they_are_and_of_what(ann):
    key = issue_key(owner=ann, name="k").key
    Limit.objects.create(key=key, measure="requests", window="minute", amount=7)
    Limit.objects.create(key=key, measure="requests", window="day", amount=8)
    Limit.objects.create(user=ann, measure="requests", window="minute", amount=9)
    limits = loaded("limit").limits
    assert amounts(limits, "key", key.id) == {"requests a minute": 7, "requests a day": 8}
    assert amounts(limits, "user", ann.id) == {"requests a minute": 9, "concurrent a none": 150}
    assert amounts(limits, "login", ann.id) == {"requests a minute": 600}
    assert amounts(limits, "key", 0) == {"requests a minute": 600}


def test_a_change_of_one_limit_leaves_the_others(snapshot):
    group = Group.objects.create(name="team")
    values = {"group": group, "measure": "requests", "amount": 7}
    first, second = (Limit.objects.create(window=window, **values) for window in ("day", "month"))
    loading.load_all(snapshot)
    before = snapshot.limit_rows[second.id]
    Limit.objects.update(amount=9)
    loading.load_rows(snapshot, "limit", {first.id})
    assert amounts(snapshot.limits, "group", group.id) == {"requests a day": 9, "requests a month": 7}
    assert snapshot.limit_rows[second.id] is before
    Limit.objects.all().delete()
    loading.load_rows(snapshot, "limit", {first.id})
    assert amounts(snapshot.limits, "group", group.id) == {"requests a month": 7}


def test_limits_have_the_names_that_groups_and_keys_have_now(ann, snapshot):
    group, key = Group.objects.create(name="old"), issue_key(owner=ann, name="old").key
    group.members.add(ann)
    for subject in ({"group": group}, {"key": key}):
        Limit.objects.create(measure="requests", window="day", amount=7, **subject)
    loading.load_all(snapshot)
    Group.objects.update(name="new")
    ApiKey.objects.update(name="new")
    loading.load_rows(snapshot, "group", {group.id})
    loading.load_rows(snapshot, "key", {key.id})
    limits = snapshot.limits.for_caller(snapshot.keys[key.public_id], snapshot.callers[ann.id])
    names = {check.limit.subject.kind: check.limit.name for check in limits.checks}
    assert (names["group"], names["key"]) == ("new", "new")


def test_default_limits_have_the_names_that_users_and_providers_have_now(ann, snapshot, settings):
    settings.GATEWAY_LIMITS = {kind: {("requests", "day"): Decimal(7)} for kind in ("user", "provider")}
    provider = create_provider(name="old", url="https://api.example.org", format_name="openai")
    loading.load_all(snapshot)

    def names():
        limits = snapshot.limits
        checks = [*limits.for_caller(None, snapshot.callers[ann.id]).checks]
        checks += limits.for_provider(snapshot.providers[provider.id]).checks
        return {check.limit.subject.kind: check.limit.name for check in checks}

    assert (names()["user"], names()["provider"]) == ("ann", "old")
    User.objects.filter(id=ann.id).update(username="eve")
    Provider.objects.update(name="new")
    loading.load_rows(snapshot, "user", {ann.id})
    loading.load_rows(snapshot, "provider", {provider.id})
    assert (names()["user"], names()["provider"]) == ("eve", "new")


def test_a_change_of_a_provider_leaves_all_limits(provider_of_accounts, snapshot):
    loading.load_all(snapshot)
    before = snapshot.limits
    loading.load_rows(snapshot, "provider", {provider_of_accounts.id})
    assert snapshot.limits is before
