"""Keys that are rotated over HTTP: another secret for the same key."""

from datetime import timedelta

import pytest
from django.utils import timezone

from keys.models import ApiKey
from keys.secrets import parse_key
from keys.services import issue_key, rotate_key
from telemetry.models import LogEntry
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store


@pytest.fixture
def issued(ann):
    return issue_key(owner=ann, name="laptop", permissions=["work", "models.create"])


def test_a_key_gets_another_secret_that_is_shown_once(nobody, as_ann, issued):
    response = as_ann.post(f"/keys/{issued.key.pk}/rotate")
    assert (response.status_code, response.json().keys()) == (200, {"message", "key"})
    assert response.json()["key"] != issued.text
    for text in (issued.text, response.json()["key"]):  # a day unless told
        assert nobody.with_credential(text).get("/keys/").status_code == 200
    rest = ApiKey.objects.get().former_until - timezone.now()
    assert timedelta(hours=23, minutes=59) < rest < timedelta(hours=24)
    entry = LogEntry.objects.latest("id").payload
    assert parse_key(response.json()["key"])[0] in entry
    assert response.json()["key"].rpartition("_")[2] not in entry


def test_a_new_secret_lasts_no_longer_than_the_bound_and_otherwise_as_long_as_before(ann, settings):
    key = issue_key(owner=ann, name="for ever", expiry=None).key
    assert rotate_key(key).key.expiry is None
    settings.GATEWAY_KEY_MAX_DAYS = 30
    rotate_key(key)
    bound = ApiKey.objects.get(pk=key.pk).expiry
    assert abs(bound - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)
    settings.GATEWAY_KEY_MAX_DAYS = 60
    rotate_key(key)
    assert ApiKey.objects.get(pk=key.pk).expiry == bound


def test_a_key_that_begins_after_the_bound_is_not_rotated(as_ann, ann, settings):
    begin = timezone.now() + timedelta(days=60)
    key = issue_key(owner=ann, name="later", expiry=begin + timedelta(days=30), not_before=begin).key
    settings.GATEWAY_KEY_MAX_DAYS = 30
    refused(as_ann.post(f"/keys/{key.pk}/rotate"), 409, "Conflict", "at most 30 days")
    assert ApiKey.objects.get() == key
    assert ApiKey.objects.get().public_id == key.public_id
    settings.GATEWAY_KEY_MAX_DAYS = 61
    assert as_ann.post(f"/keys/{key.pk}/rotate").status_code == 200


class TestTheBoundOfASecret:
    @pytest.fixture
    def key(self, ann, settings):
        """It was made 29 days ago, and may live 30."""
        settings.GATEWAY_KEY_MAX_DAYS = 30
        now = timezone.now()
        key = issue_key(owner=ann, name="old").key
        ApiKey.objects.update(created_at=now - timedelta(days=29), expiry=now + timedelta(hours=12))
        return key

    def extend(self, client, key, **span):
        return client.patch(f"/keys/{key.pk}/", expiry=(timezone.now() + timedelta(**span)).isoformat())

    def test_changes_of_the_expiry_do_not_prolong_it(self, as_ann, key):
        refused(self.extend(as_ann, key, days=2), 400, "ValidationError", "expiry", "30 days of the creation")
        refused(as_ann.patch(f"/keys/{key.pk}/", expiry=None), 400, "ValidationError", "expiry", "rotation")
        assert self.extend(as_ann, key, hours=20).status_code == 200

    def test_a_new_secret_has_one_of_its_own(self, as_ann, key):
        assert as_ann.post(f"/keys/{key.pk}/rotate").status_code == 200
        assert self.extend(as_ann, key, days=29).status_code == 200
        refused(self.extend(as_ann, key, days=31), 400, "ValidationError", "expiry", "30 days")

    def test_the_former_secret_does_not_outlive_its_expiry(self, as_ann, key):
        expiry = ApiKey.objects.get().expiry
        as_ann.post(f"/keys/{key.pk}/rotate", overlapHours=720)
        self.extend(as_ann, key, days=29)
        assert ApiKey.objects.get().former_until == expiry

    def test_a_key_that_is_too_old_can_still_be_shortened(self, as_ann, key):
        ApiKey.objects.update(expiry=None, created_at=timezone.now() - timedelta(days=400))
        assert self.extend(as_ann, key, days=29).status_code == 200
        assert self.extend(as_ann, key, days=5).status_code == 200
        refused(self.extend(as_ann, key, days=6), 400, "ValidationError", "30 days of the creation")


def test_one_that_leaked_ends_at_once(nobody, as_ann, issued):
    new = as_ann.post(f"/keys/{issued.key.pk}/rotate", overlapHours=0).json()["key"]
    refused(nobody.with_credential(issued.text).get("/keys/"), 401, "AuthenticationFailed")
    assert nobody.with_credential(new).get("/keys/").status_code == 200


def test_owners_and_admins_rotate_nobody_else(nobody, admin, issued):
    path = f"/keys/{issued.key.pk}/rotate"
    refused(nobody.as_user(new_user()).post(path), 404, "NotFound")
    refused(nobody.with_credential(issued.text).post(path), 403, "PermissionDenied")
    refused(nobody.post(path), 401, "AuthenticationFailed")
    assert admin.post(path).status_code == 200


def test_one_that_is_accepted_no_more_is_refused(as_ann, issued):
    ApiKey.objects.update(locked_time=timezone.now())
    refused(as_ann.post(f"/keys/{issued.key.pk}/rotate"), 409, "Conflict", "Issue a new one")
    ApiKey.objects.update(is_deleted=True)
    refused(as_ann.post(f"/keys/{issued.key.pk}/rotate"), 404, "NotFound")


@pytest.mark.parametrize("hours", [-1, 721, 1.5, "1", True, None])
def test_wrong_overlaps_are_refused(as_ann, issued, hours):
    refused(as_ann.post(f"/keys/{issued.key.pk}/rotate", overlapHours=hours), 400, "ValidationError", "overlapHours")


def test_a_rotated_key_is_a_credential_with_both_secrets_until_the_former_ends(nobody, issued):
    new = rotate_key(issued.key, overlap=timedelta(hours=1))
    for text in (issued.text, new.text):
        assert [row["publicId"] for row in nobody.with_credential(text).rows("/keys/")] == [new.key.public_id]
    ApiKey.objects.update(former_until=timezone.now())
    refused(nobody.with_credential(issued.text).get("/keys/"), 401, "AuthenticationFailed")
    assert nobody.with_credential(new.text).get("/keys/").status_code == 200
