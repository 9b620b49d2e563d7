"""API keys over HTTP."""

import itertools
from datetime import timedelta

import pytest
from django.utils import timezone

from keys.models import ApiKey
from keys.secrets import parse_key
from keys.services import issue_key
from telemetry.models import LogEntry
from tests.support.hostile import try_wrong
from tests.support.keys import create_key
from tests.support.management import body, new_admin, new_user, refused, token_of

pytestmark = pytest.mark.either_store


def names(client, query: str = "") -> list[str]:
    return [row["name"] for row in client.rows(f"/keys/{query}")]


def test_a_new_key_is_shown_once_and_never_again(nobody, as_ann, settings):
    response = as_ann.post("/keys/", name="laptop")
    assert response.status_code == 201
    assert response.json().keys() == {"message", "key"}
    text, key = response.json()["key"], ApiKey.objects.get()
    assert parse_key(text)[0] == key.public_id
    assert response.headers["Location"] == f"{settings.GATEWAY_BASE_URL}/keys/{key.pk}/"
    secret = text.rpartition("_")[2]
    assert secret not in as_ann.get("/keys/").text
    assert secret not in "".join(LogEntry.objects.values_list("payload", flat=True))


def test_a_key_is_listed_with_all_that_it_may_and_when(as_ann, ann, first_provider):
    expiry = timezone.now() + timedelta(days=3)
    key = create_key(
        as_ann,
        name="laptop",
        expiry=expiry.isoformat(),
        permissions=[{"name": "work"}, {"name": "models.create"}],
        provider=first_provider.pk,
    )
    (row,) = as_ann.rows("/keys/")
    assert row == {
        "id": key.pk,
        "name": "laptop",
        "publicId": key.public_id,
        "userId": ann.pk,
        "userName": "ann",
        "createdBy": ann.pk,
        "creatorName": "ann",
        "expiry": expiry.isoformat().replace("+00:00", "Z"),
        "provider": first_provider.pk,
        "providerName": "first",
        "permissions": [{"name": "work"}, {"name": "models.create"}],
        "models": [],
        "networks": [],
        "notBefore": None,
        "tags": {},
        "maxTokensPerRequest": None,
        "contentLogging": "default",
        "lockedTime": None,
        "lastUsed": None,
        "isExpired": False,
        "isDeleted": False,
    }
    assert as_ann.get(f"/keys/{key.pk}/", flat=True).json() == {"data": row}


def test_a_key_lasts_a_year_and_does_work_unless_told(as_ann):
    key = create_key(as_ann)
    assert abs(key.expiry - timezone.now() - timedelta(days=365)) < timedelta(minutes=1)
    assert (key.permissions, key.provider) == (["work"], None)


def test_a_key_without_expiry_is_one_that_was_asked_for(nobody, as_ann):
    response = as_ann.post("/keys/", name="for ever", permissions=[{"name": "models.create"}], expiry=None)
    (row,) = as_ann.rows("/keys/?isExpired=false")
    assert (row["expiry"], row["isExpired"]) == (None, False)
    assert as_ann.rows("/keys/?isExpired=true") == []
    assert nobody.with_credential(response.json()["key"]).get("/keys/").status_code == 200
    assert as_ann.patch("/keys/", name="for ever", expire=True).status_code == 200
    refused(nobody.with_credential(response.json()["key"]).get("/keys/"), 401, "AuthenticationFailed")


def test_a_bound_refuses_keys_that_outlive_it_and_shortens_the_default(as_ann, settings):
    settings.GATEWAY_KEY_MAX_DAYS = 90
    latest = timezone.now() + timedelta(days=90)
    for expiry in (None, (latest + timedelta(hours=1)).isoformat(), "9999-12-31T23:59:59Z"):
        response = as_ann.post("/keys/", name="long", expiry=expiry)
        refused(response, 400, "ValidationError", "expiry", "90 days", "GATEWAY_KEY_MAX_DAYS")
    assert create_key(as_ann, expiry=latest.isoformat()).expiry == latest
    assert abs(create_key(as_ann).expiry - latest) < timedelta(minutes=1)
    settings.GATEWAY_KEY_DAYS = 30
    assert abs(create_key(as_ann).expiry - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)


def test_a_key_never_may_more_than_its_owner(nobody, admin, as_ann, ann):
    beyond = [{"name": "logs.view_all"}]
    refused(as_ann.post("/keys/", name="x", permissions=beyond), 403, "PermissionDenied", "logs.view_all")
    refused(admin.post("/keys/", name="x", permissions=beyond, user=ann.pk), 403, "PermissionDenied", "logs.view_all")
    assert create_key(admin, permissions=beyond).permissions == ["logs.view_all"]
    assert create_key(admin, user=ann.pk, permissions=[{"name": "models.create"}]).owner == ann


def test_only_admins_make_keys_for_others(admin, as_ann, ann, bob):
    refused(as_ann.post("/keys/", name="x", user=bob.pk), 403, "PermissionDenied", "owner")
    key = create_key(admin, user=bob.pk)
    assert key.owner == bob
    assert key.created_by.is_admin
    refused(admin.post("/keys/", name="x", user=987654), 400, "ValidationError", "user", "987654")
    assert create_key(as_ann, user=ann.pk).owner == ann


def test_a_key_makes_no_keys(nobody, ann):
    text = issue_key(owner=ann, name="k", permissions=["models.create", "work"]).text
    refused(nobody.with_credential(text).post("/keys/", name="x"), 403, "PermissionDenied", "login")


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ({"expiry": "2020-01-01T00:00:00Z"}, "expiry"),
        ({"expiry": 5}, "expiry"),
        ({"expiry": "2027-02-29"}, "expiry: This date or time does not exist"),
        ({"expiry": "2027-02-29T00:00:00Z"}, "expiry: This date or time does not exist"),
        ({"expiry": "2027-02-28T25:00:00Z"}, "date or time does not exist"),
        ({"expiry": "tomorrow"}, "YYYY-MM-DDThh:mm"),
        ({"provider": 987654}, "provider"),
        ({"permissions": ["work"]}, "permissions"),
        ({"permissions": {"name": "work"}}, "permissions"),
        ({"lockedTime": None}, "lockedTime"),
        ({"isDeleted": False}, "isDeleted"),
        ({"publicId": "x"}, "publicId"),
        ({"name": " x"}, "name"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(as_ann, payload, named):
    refused(as_ann.post("/keys/", **({"name": "x"} | payload)), 400, "ValidationError", named)
    assert not ApiKey.objects.exists()


def test_a_name_is_taken_until_its_key_is_deleted(as_ann, admin):
    create_key(as_ann, name="laptop")
    create_key(as_ann, name="phone")
    refused(as_ann.post("/keys/", name="laptop"), 409, "Conflict", "laptop")
    refused(as_ann.patch("/keys/", name="phone", newName="laptop"), 409, "Conflict", "laptop")
    create_key(admin, name="laptop")
    assert as_ann.delete("/keys/?name=laptop").status_code == 200
    create_key(as_ann, name="laptop")


@pytest.mark.exhaustive
def test_wrong_values_are_never_a_fault_of_ours(admin, as_ann):
    numbers = itertools.count()

    def good():
        return {"name": f"k{next(numbers)}"}

    try_wrong(
        lambda **sent: as_ann.post("/keys/", **sent), ["name", "expiry", "permissions", "provider", "user", "id"], good
    )
    create_key(admin, name="mine")
    requests_names = ["newName", "expire", "provider", "user", "locked", "id", "permissions"]
    try_wrong(
        lambda **sent: admin.patch("/keys/", **sent), requests_names, lambda: {"name": ApiKey.objects.last().name}
    )
    try_wrong(lambda **sent: admin.patch("/keys/", **sent), ["name"], dict)

    try_wrong(lambda **sent: as_ann.delete("/keys/", json=body(**sent)), ["name", "user", "id", "expire"], dict)


def test_everybody_sees_their_own_keys_and_some_see_all(nobody, admin, as_ann, ann, bob):
    key = create_key(admin, user=bob.pk, name="of bob")
    create_key(as_ann, name="of ann")
    assert names(as_ann) == ["of ann"]
    assert names(as_ann, f"?userId={bob.pk}") == []
    refused(as_ann.get(f"/keys/{key.pk}/"), 404, "NotFound")
    assert names(admin) == ["of bob", "of ann"]
    watcher = nobody.as_user(new_user("keys.view_all"))
    assert names(watcher) == ["of bob", "of ann"]
    assert names(watcher, f"?userId={bob.pk}") == ["of bob"]
    for refusal in (
        watcher.delete(f"/keys/{key.pk}/"),
        watcher.patch(f"/keys/{key.pk}/", expire=True),
        watcher.post(f"/keys/{key.pk}/rotate/"),
        watcher.delete(f"/keys/?user={bob.pk}"),
    ):
        refused(refusal, 403, "PermissionDenied")
    refused(as_ann.delete(f"/keys/{key.pk}/"), 404, "NotFound")


def test_a_key_sees_as_much_as_it_may_and_its_owner(nobody, admin):
    root = new_admin()
    create_key(admin, name="other")
    few = issue_key(owner=root, name="few", permissions=["models.create"]).text
    many = issue_key(owner=root, name="many", permissions=["keys.view_all"]).text
    assert names(nobody.with_credential(few)) == ["few", "many"]
    assert names(nobody.with_credential(many)) == ["other", "few", "many"]


def test_filters(as_ann):
    create_key(as_ann, name="old Laptop")
    create_key(as_ann, name="laptop")
    create_key(as_ann, name="phone")
    ApiKey.objects.filter(name="old Laptop").update(expiry=timezone.now())
    ApiKey.objects.filter(name="phone").update(expiry=None)
    as_ann.delete("/keys/?name=laptop")
    assert names(as_ann) == ["old Laptop", "laptop", "phone"]
    assert names(as_ann, "?isDeleted=true") == ["laptop"]
    assert names(as_ann, "?isDeleted=false") == ["old Laptop", "phone"]
    assert names(as_ann, "?isExpired=true") == ["old Laptop"]
    assert names(as_ann, "?isExpired=false") == ["laptop", "phone"]
    assert names(as_ann, "?nameContains=LAP") == ["old Laptop", "laptop"]
    assert names(as_ann, "?nameContains=%25") == []
    for query in ("isDeleted=yes", "isExpired=1", "userId=x", "name=x", "nameContains=a%00b"):
        refused(as_ann.get(f"/keys/?{query}"), 400, "ValidationError", query.partition("=")[0])


def test_a_list_costs_the_same_at_any_length(client, ann, first_provider, django_assert_num_queries):
    headers = {"Authorization": f"Bearer {token_of(ann)}"}
    for size in (1, 10):
        for number in range(size):
            issue_key(owner=ann, name=f"k{size}-{number}", provider=first_provider, created_by=ann)
        with django_assert_num_queries(7):  # session and user, roles, features, licence; groups, count, page
            client.get("/keys/", headers=headers)


def test_a_key_is_renamed_bound_and_unbound(as_ann, first_provider):
    key = create_key(as_ann, name="laptop")
    response = as_ann.patch("/keys/", name="laptop", newName="phone", provider=first_provider.pk)
    assert response.json().keys() == {"message"}
    key.refresh_from_db()
    assert (key.name, key.provider) == ("phone", first_provider)
    for nothing in (0, None):
        ApiKey.objects.update(provider=first_provider)
        assert as_ann.patch(f"/keys/{key.pk}/", provider=nothing).status_code == 200
        key.refresh_from_db()
        assert key.provider is None


@pytest.mark.parametrize("value", ["true", True])
def test_a_key_is_expired_by_word(nobody, as_ann, value):
    key = create_key(as_ann, name="laptop")
    assert as_ann.patch("/keys/", name="laptop", expire="false").status_code == 200
    assert as_ann.rows("/keys/")[0]["isExpired"] is False
    assert as_ann.patch("/keys/", name="laptop", expire=value).status_code == 200
    assert as_ann.rows("/keys/")[0]["isExpired"] is True
    key.refresh_from_db()
    before = key.expiry
    as_ann.patch("/keys/", name="laptop", expire=value)
    key.refresh_from_db()
    assert key.expiry == before


def test_an_admin_locks_and_unlocks(admin, as_ann, ann):
    key = create_key(as_ann, name="laptop")
    refused(as_ann.patch("/keys/", name="laptop", locked=True), 403, "PermissionDenied", "admin")
    assert admin.patch("/keys/", name="laptop", user=ann.pk, locked=True).status_code == 200
    key.refresh_from_db()
    locked = key.locked_time
    assert abs(locked - timezone.now()) < timedelta(minutes=1)
    admin.patch(f"/keys/{key.pk}/", locked=True)
    key.refresh_from_db()
    assert key.locked_time == locked
    refused(as_ann.patch("/keys/", name="laptop", locked=False), 403, "PermissionDenied", "admin")
    assert admin.patch(f"/keys/{key.pk}/", locked=False).status_code == 200
    assert as_ann.rows("/keys/")[0]["lockedTime"] is None


def test_nobody_changes_or_deletes_anothers_key(as_ann, admin, bob):
    key = create_key(admin, user=bob.pk, name="of bob")
    for request in ({"name": "of bob"}, {"name": "of bob", "id": key.pk}, {"id": key.pk}):
        refused(as_ann.patch("/keys/", **request, newName="mine"), 404, "NotFound")
    refused(as_ann.patch("/keys/", name="of bob", user=bob.pk, newName="mine"), 403, "PermissionDenied")
    refused(as_ann.patch(f"/keys/{key.pk}/", newName="mine"), 404, "NotFound")
    refused(as_ann.delete(f"/keys/{key.pk}/"), 404, "NotFound")
    refused(as_ann.delete("/keys/?name=of bob"), 404, "NotFound")
    refused(as_ann.delete(f"/keys/?user={bob.pk}"), 403, "PermissionDenied")

    refused(as_ann.delete("/keys/", json=body(user=bob.pk)), 403, "PermissionDenied")
    key.refresh_from_db()
    assert (key.name, key.is_deleted) == ("of bob", False)


def test_a_name_beside_an_id_is_no_new_one_and_says_so(as_ann):
    key = create_key(as_ann, name="old")
    refused(as_ann.patch(f"/keys/{key.pk}/", name="new"), 404, "NotFound", "newName")
    assert as_ann.patch(f"/keys/{key.pk}/", name="old", newName="new").status_code == 200


def test_which_key_is_meant_has_to_be_said(as_ann):
    create_key(as_ann, name="laptop")
    refused(as_ann.patch("/keys/", newName="phone"), 400, "ValidationError", "name")
    refused(as_ann.patch("/keys/", name="nosuch", newName="phone"), 404, "NotFound")


def test_every_change_is_told_to_the_log(as_ann):
    key = create_key(as_ann, name="laptop")
    as_ann.patch("/keys/", name="laptop", newName="phone")
    as_ann.delete("/keys/")
    as_ann.delete("/keys/")
    entries = list(LogEntry.objects.order_by("id"))
    assert [entry.message for entry in entries] == [
        f"ann created keys {key.pk}: name.",
        f"ann changed keys {key.pk}: name, newName.",
        f"ann deleted keys {key.pk}.",
    ]
    assert '"name":"phone"' in entries[2].payload
