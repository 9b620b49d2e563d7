"""The state of a key: one annotation, on which filters, lists, models and authentication agree."""

from datetime import UTC, timedelta
from itertools import product

import pytest
from django.utils import timezone

from accounts.models import User
from accounts.services import create_user
from keys.models import ApiKey
from keys.states import BADGES, KeyState, key_badge

pytestmark = pytest.mark.either_store

NOW = timezone.now()
HOUR = timedelta(hours=1)


def expected_state(*, deleted, owner_deleted, owner_active, locked, expired, early):
    if deleted:
        return KeyState.DELETED
    if owner_deleted:
        return KeyState.OWNER_DELETED
    if not owner_active:
        return KeyState.OWNER_INACTIVE
    if locked:
        return KeyState.LOCKED
    if expired:
        return KeyState.EXPIRED
    return KeyState.NOT_YET_VALID if early else KeyState.USABLE


@pytest.fixture
def keys(db):
    """A key for each combination of what a state depends on, with its expected state."""
    states = {}
    names = ("deleted", "owner_deleted", "owner_active", "locked", "expired", "early")
    for number, facts in enumerate(dict(zip(names, flags, strict=True)) for flags in product((True, False), repeat=6)):
        owner = create_user(username=f"user{number}", password="a secret")
        User.objects.filter(pk=owner.pk).update(is_deleted=facts["owner_deleted"], is_active=facts["owner_active"])
        key = ApiKey.objects.create(
            name="key", owner=owner, public_id=f"id{number}", digest=b"", is_deleted=facts["deleted"],
            locked_time=NOW if facts["locked"] else None,
            not_before=NOW + HOUR if facts["early"] else None,
            expiry=NOW if facts["expired"] else NOW + HOUR if number % 2 else None,
        )  # fmt: skip
        states[key.pk] = expected_state(**facts)
    return states


def test_the_annotation_and_the_model_have_the_same_state(keys):
    loaded = {key.pk: key.state() for key in ApiKey.objects.with_state()}
    assert loaded == keys
    assert {key.pk: key.state() for key in ApiKey.objects.all()} == keys
    assert set(keys.values()) == set(KeyState)


@pytest.mark.long
def test_a_loaded_state_needs_no_query(keys, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert {key.pk: key.state() for key in ApiKey.objects.with_state()} == keys


@pytest.mark.long
def test_usable_keys_are_those_in_the_state_usable(keys):
    usable = {pk for pk, state in keys.items() if state == KeyState.USABLE}
    assert set(ApiKey.objects.usable().values_list("pk", flat=True)) == usable


def test_a_key_expires_at_its_expiry_and_not_before(keys):
    for key in ApiKey.objects.filter(expiry=NOW):
        for at, is_expired in ((NOW - timedelta(microseconds=1), False), (NOW, True)):
            assert key.is_expired(at) is is_expired
            assert ApiKey.objects.expired(at).filter(pk=key.pk).exists() is is_expired
            assert ApiKey.objects.unexpired(at).filter(pk=key.pk).exists() is not is_expired


@pytest.mark.parametrize(
    ("left", "text", "kind"),
    [
        (None, "Active", "success"),
        (timedelta(days=7, seconds=1), "Active", "success"),
        (timedelta(days=7), "Expiring in 7 days", "warning"),
        (timedelta(days=5, hours=3), "Expiring in 5 days", "warning"),
        (timedelta(days=1), "Expiring in 1 day", "warning"),
        (timedelta(days=4, hours=12), "Expiring in 5 days", "warning"),  # its last day is the fifth from today
        (timedelta(hours=11, minutes=59), "Expiring today", "warning"),
        (timedelta(hours=12), "Expiring in 1 day", "warning"),
    ],
)
def test_a_key_that_works_says_when_it_expires(left, text, kind):
    noon = NOW.astimezone(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    badge = key_badge(KeyState.USABLE, left and noon + left, noon)
    assert (badge.text, badge.kind) == (text, kind)


def test_a_key_that_is_refused_says_why_whatever_its_expiry():
    for state in set(KeyState) - {KeyState.USABLE}:
        assert key_badge(state, NOW + HOUR, NOW) == BADGES[state]
