"""Changes to API keys."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from accounts.services import create_user
from gateway_project.errors import Conflict, PermissionDenied, ValidationError
from keys.models import ApiKey
from keys.secrets import matches, parse
from keys.services import issue_key
from providers.services import create_provider


@pytest.fixture
def ann(db):
    return create_user(username="ann", password="secret")


def test_the_text_of_a_new_key_leads_to_its_row_and_is_not_stored(ann):
    issued = issue_key(owner=ann, name="laptop", created_by=ann)
    public_id, digest = parse(issued.text)
    stored = ApiKey.objects.get(public_id=public_id)
    assert matches(bytes(stored.digest), digest)
    assert (stored.owner, stored.created_by, stored.permissions) == (ann, ann, ["work"])
    assert issued.text not in repr(ApiKey.objects.values().get())
    assert issued.text not in repr(issued)


def test_a_key_lasts_as_long_as_the_setting_says_unless_told(ann, settings):
    settings.GATEWAY_KEY_DAYS = 10
    left = issue_key(owner=ann, name="usual").key.expiry - timezone.now()
    assert timedelta(days=9, hours=23) < left <= timedelta(days=10)
    told = timezone.now() + timedelta(minutes=1)
    assert issue_key(owner=ann, name="short", expiry=told).key.expiry == told


def test_a_key_gets_no_permission_that_its_owner_lacks(ann):
    with pytest.raises(PermissionDenied, match=r"logs\.view_all"):
        issue_key(owner=ann, name="laptop", permissions=["work", "logs.view_all"])
    assert not ApiKey.objects.exists()
    issued = issue_key(owner=ann, name="laptop", permissions=["models.create", "work", "work"])
    assert issued.key.permissions == ["models.create", "work"]


def test_an_admin_may_give_a_key_any_feature_and_only_those(db):
    root = create_user(username="root", password="secret", roles=["admin"])
    assert issue_key(owner=root, name="all", permissions=["logs.view_all"]).key.pk
    with pytest.raises(PermissionDenied):
        issue_key(owner=root, name="more", permissions=["no.such"])


def test_a_name_is_free_again_once_its_key_is_deleted(ann):
    issue_key(owner=ann, name="laptop")
    with pytest.raises(Conflict, match="laptop"):
        issue_key(owner=ann, name="laptop")
    ApiKey.objects.update(is_deleted=True)
    assert issue_key(owner=ann, name="laptop").key.pk
    assert issue_key(owner=create_user(username="bob", password="secret"), name="laptop").key.pk


def test_the_database_itself_refuses_a_second_live_key_of_a_name(ann):
    key = issue_key(owner=ann, name="laptop").key
    key.pk, key.public_id = None, "other"
    with pytest.raises(IntegrityError), transaction.atomic():
        key.save(force_insert=True)


@pytest.mark.parametrize("name", ["", " laptop", "x" * 101, "a\0b"])
def test_a_key_has_a_name_that_can_be_read(ann, name):
    with pytest.raises(ValidationError, match="^name: "):
        issue_key(owner=ann, name=name)


@pytest.mark.parametrize(
    "change",
    [
        {"is_deleted": True},
        {"locked_time": "2026-01-01T00:00:00Z"},
        {"expiry": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_key_is_usable_until_something_ends_it(ann, change):
    key = issue_key(owner=ann, name="laptop").key
    assert list(ApiKey.objects.usable()) == [key]
    ApiKey.objects.update(**change)
    assert not ApiKey.objects.usable().exists()


def test_a_key_lapses_at_its_expiry_to_the_moment(ann):
    key = issue_key(owner=ann, name="laptop").key
    just_before = key.expiry - timedelta(microseconds=1)
    assert ApiKey.objects.usable(just_before).exists()
    assert not ApiKey.objects.usable(key.expiry).exists()
    assert not key.is_expired(just_before)
    assert key.is_expired(key.expiry)
    assert list(ApiKey.objects.expired(key.expiry)) == [key]
    ApiKey.objects.update(expiry=None)
    assert ApiKey.objects.usable(key.expiry).exists()


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_deleted": True}])
def test_the_keys_of_a_user_who_is_not_usable_are_not_either(ann, change):
    issue_key(owner=ann, name="laptop")
    type(ann).objects.filter(pk=ann.pk).update(**change)
    assert not ApiKey.objects.usable().exists()
    assert ApiKey.objects.of(ann).live().count() == 1


def test_a_provider_with_keys_of_its_own_cannot_be_deleted(ann):
    provider = create_provider(name="p", url="https://api.example.org/v1", format_name="openai")
    issue_key(owner=ann, name="laptop", provider=provider)
    with pytest.raises(ProtectedError):
        provider.delete()
