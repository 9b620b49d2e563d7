"""Changes to API keys."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from accounts.services import create_feature, create_user, delete_user
from gateway_project.errors import Conflict, NotFound, PermissionDenied, ValidationError
from keys.models import ApiKey
from keys.secrets import digests_match, parse_key
from keys.services import delete_keys, issue_key, rotate_key, update_key
from providers.services import create_provider
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

DAY = timedelta(days=1)


@pytest.fixture
def ann(db):
    return create_user(username="ann", password="a secret")


def test_the_text_of_a_new_key_leads_to_its_row_and_is_not_stored(ann):
    issued = issue_key(owner=ann, name="laptop", created_by=ann)
    public_id, digest = parse_key(issued.text)
    stored = ApiKey.objects.get(public_id=public_id)
    assert digests_match(bytes(stored.digest), digest)
    assert (stored.owner, stored.created_by, stored.permissions) == (ann, ann, ["work"])
    assert issued.text not in repr(ApiKey.objects.values().get())
    assert issued.text not in repr(issued)


def test_a_key_lasts_as_long_as_the_setting_says_unless_told(ann, settings):
    settings.GATEWAY_KEY_DAYS = 10
    rest = issue_key(owner=ann, name="usual").key.expiry - timezone.now()
    assert timedelta(days=9, hours=23) < rest <= timedelta(days=10)
    result = timezone.now() + timedelta(minutes=1)
    assert issue_key(owner=ann, name="short", expiry=result).key.expiry == result


def test_a_key_gets_no_permission_that_its_owner_lacks(ann):
    with pytest.raises(PermissionDenied, match=r"logs\.view_all"):
        issue_key(owner=ann, name="laptop", permissions=["work", "logs.view_all"])
    assert not ApiKey.objects.exists()
    issued = issue_key(owner=ann, name="laptop", permissions=["models.create", "work", "work"])
    assert issued.key.permissions == ["models.create", "work"]


def test_an_admin_may_give_a_key_any_feature_and_only_those(db):
    root = create_user(username="root", password="a secret", roles=["admin"])
    assert issue_key(owner=root, name="all", permissions=["logs.view_all"]).key.pk
    with pytest.raises(ValidationError, match="no feature is named no\0such"):
        issue_key(owner=root, name="more", permissions=["no\0such", "work"])


def test_permissions_match_features_in_any_case_and_are_stored_as_these_are_spelt(db):
    root = create_user(username="root", password="a secret", roles=["admin"])
    create_feature(name="Reports: EU")
    issued = issue_key(owner=root, name="all", permissions=["WORK", "reports: eu", "Reports: EU", "work"])
    assert issued.key.permissions == ["work", "Reports: EU"]


def test_a_name_is_free_again_once_its_key_is_deleted(ann):
    issue_key(owner=ann, name="laptop")
    with pytest.raises(Conflict, match="laptop"):
        issue_key(owner=ann, name="laptop")
    ApiKey.objects.update(is_deleted=True)
    assert issue_key(owner=ann, name="laptop").key.pk
    assert issue_key(owner=create_user(username="bob", password="a secret"), name="laptop").key.pk


def test_the_database_itself_refuses_a_second_live_key_of_a_name(ann):
    key = issue_key(owner=ann, name="laptop").key
    key.pk, key.public_id = None, "other"
    with pytest.raises(IntegrityError), transaction.atomic():
        key.save(force_insert=True)


def test_a_key_that_nobody_could_use_is_not_made(ann):
    with pytest.raises(ValidationError, check=lambda error: error.field == "expiry"):
        issue_key(owner=ann, name="laptop", expiry=timezone.now())
    delete_user(ann)
    with pytest.raises(ValidationError, check=lambda error: error.field == "owner"):
        issue_key(owner=ann, name="laptop")
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    "change", [lambda key: update_key(key, new_name="x"), lambda key: rotate_key(key, overlap=DAY)]
)
@pytest.mark.parametrize("gone", [{"is_deleted": True}, None])
def test_a_change_of_a_key_that_is_gone_finds_nothing(ann, change, gone):
    key = issue_key(owner=ann, name="laptop").key
    ApiKey.objects.update(**gone) if gone else ApiKey.objects.all().delete()
    with pytest.raises(NotFound):
        change(key)
    assert not ApiKey.objects.live().exists()


@pytest.mark.parametrize("name", ["", " laptop", "x" * 101, "a\0b"])
def test_a_key_has_a_name_that_can_be_read(ann, name):
    with pytest.raises(ValidationError, check=lambda error: error.field == "name"):
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


class TestRotation:
    @pytest.mark.parametrize("name", ["laptop", "x" * 100])
    def test_the_key_stays_what_it_is_and_has_two_secrets_for_a_while(self, ann, name):
        old = issue_key(owner=ann, name=name)
        before = ApiKey.objects.values("id", "name", "owner", "expiry", "permissions", "created_at").get()
        new = rotate_key(old.key, overlap=DAY)
        assert ApiKey.objects.values(*before).get() == before
        stored = ApiKey.objects.get()
        for text in (old.text, new.text):
            public_id, digest = parse_key(text)
            assert ApiKey.objects.with_public_id(public_id).get() == stored
            assert stored.digest_of(public_id) == digest
        assert stored.digest_of(parse_key(new.text)[0], timezone.now() + 2 * DAY) is not None
        assert stored.digest_of(parse_key(old.text)[0], timezone.now() + 2 * DAY) is None

    def test_of_two_rotations_the_first_secret_ends_at_once(self, ann):
        first = issue_key(owner=ann, name="laptop")
        second = rotate_key(first.key, overlap=DAY)
        rotate_key(second.key, overlap=DAY)
        assert not ApiKey.objects.with_public_id(parse_key(first.text)[0]).exists()
        assert ApiKey.objects.get().digest_of(parse_key(first.text)[0]) is None
        assert ApiKey.objects.get().digest_of(parse_key(second.text)[0]) is not None

    @pytest.mark.parametrize("change", [{"locked": True}, {"expire": True}])
    def test_one_that_is_accepted_no_more_is_not_rotated(self, ann, change):
        key = issue_key(owner=ann, name="laptop").key
        update_key(key, **change)
        with pytest.raises(Conflict):
            rotate_key(key, overlap=DAY)


@promise("A user has a bounded number of keys", target="409 beyond the bound, 500 by default", suite="attack")
@pytest.mark.django_db(transaction=True)
def test_a_user_has_no_more_live_keys_than_the_setting_says(settings):
    settings.GATEWAY_MAX_KEYS_PER_USER = 3
    ann, bob = (create_user(username=name, password="a secret") for name in ("ann", "bob"))
    first, *_ = (issue_key(owner=ann, name=f"key {number}").key for number in range(3))
    with pytest.raises(Conflict, match="'ann' has 3 keys, the maximum"):
        issue_key(owner=ann, name="one more")
    assert issue_key(owner=bob, name="his own").key.pk
    delete_keys([first])
    assert issue_key(owner=ann, name="instead of a deleted one").key.pk
    ApiKey.objects.filter(owner=ann, name="key 1").update(expiry=timezone.now() - DAY)
    assert issue_key(owner=ann, name="instead of an expired one").key.pk
    with pytest.raises(Conflict):
        issue_key(owner=ann, name="one more")


@promise("A user has a bounded number of keys", target="409 beyond the bound, 500 by default", suite="attack")
@pytest.mark.django_db(transaction=True)
def test_keys_that_are_made_at_once_are_no_more_than_that_either(settings):
    settings.GATEWAY_MAX_KEYS_PER_USER = 5
    ann = create_user(username="ann", password="a secret")

    def issue(number):
        try:
            return issue_key(owner=ann, name=f"key {number}") is not None
        except Conflict:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(issue, range(12))) == 5
    assert ApiKey.objects.filter(owner=ann).count() == 5
