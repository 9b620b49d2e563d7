"""Keys that are rotated over HTTP: another secret for the same key."""

from datetime import timedelta

import pytest
from django.utils import timezone

from keys.models import ApiKey
from keys.secrets import parse
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
    assert parse(response.json()["key"])[0] in entry
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
