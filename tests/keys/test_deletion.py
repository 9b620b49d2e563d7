"""API keys are deleted over HTTP: by id, by owner and name, and never more than was meant."""

import pytest

from accounts.services import delete_user
from keys.models import ApiKey
from tests.support.keys import create_key
from tests.support.management import body, refused

pytestmark = pytest.mark.either_store


def deleted() -> set[str]:
    return set(ApiKey.objects.filter(is_deleted=True).values_list("name", flat=True))


@pytest.mark.parametrize("way", ["query", "attributes"])
def test_keys_are_deleted_by_user_and_name(admin, as_ann, bob, way):
    def delete(client, **which):
        request = {"params": which} if way == "query" else {"json": body(**which)}
        return client.delete("/keys/", **request)

    for name in ("one", "two", "three"):
        create_key(admin, user=bob.pk, name=name)
    create_key(as_ann, name="of ann")
    create_key(admin, name="of admin")
    assert delete(admin, user=bob.pk, name="two").json() == {}
    assert deleted() == {"two"}
    refused(delete(admin, user=bob.pk, name="two"), 404, "NotFound")
    assert delete(admin, user=bob.pk).status_code == 200
    assert deleted() == {"one", "two", "three"}
    assert delete(as_ann).status_code == 200
    assert deleted() == {"one", "two", "three", "of ann"}
    assert delete(as_ann).status_code == 200


@pytest.mark.parametrize("way", ["query", "attributes"])
def test_keys_of_nobody_are_not_deleted_but_asked_about(admin, as_ann, bob, way):
    def request_for(user):
        return {"params": {"user": user}} if way == "query" else {"json": body(user=user)}

    key = create_key(admin, user=bob.pk)
    refused(admin.delete("/keys/", **request_for(987654)), 400, "ValidationError", "user: no user with id 987654")
    refused(admin.patch("/keys/", user=987654, name="x"), 400, "ValidationError", "user")
    refused(as_ann.delete("/keys/", **request_for(987654)), 403, "PermissionDenied")
    delete_user(bob)
    assert admin.delete("/keys/", **request_for(bob.pk)).status_code == 200
    assert deleted() == {key.name}


def test_an_id_deletes_one_key_and_not_all(as_ann):
    keys = [create_key(as_ann) for _ in range(4)]
    as_ann.delete(f"/keys/{keys[0].pk}/")
    as_ann.delete(f"/keys/?id={keys[1].pk}")
    as_ann.delete("/keys/", json={"data": {"id": str(keys[2].pk)}})
    assert deleted() == {key.name for key in keys[:3]}
    refused(as_ann.delete("/keys/?id=987654"), 404, "NotFound")
    assert deleted() == {key.name for key in keys[:3]}


@pytest.mark.parametrize("query", ["nope=1", "user=x", "name=x&name=y", "name=a%00b", "userId=1", "isDeleted=true"])
def test_a_parameter_that_is_wrong_deletes_nothing(as_ann, query):
    create_key(as_ann)
    refused(as_ann.delete(f"/keys/?{query}"), 400, "ValidationError", query.partition("=")[0])
    assert deleted() == set()


MALFORMED = [
    {"data": {}},
    {"data": {"id": None}},
    {"data": {"type": "keys"}},
    {"data": {"name": "nightly"}},
    {"data": {"atributes": {"name": "nightly"}}},
    {"data": {"attributes": {}, "name": "nightly"}},
    {"data": {"attributes": {"id": None}}},
    {"data": {"attributes": {}}, "name": "nightly"},
    {"data": {"attributes": {}}, "errors": []},
]


@pytest.mark.parametrize("document", MALFORMED)
def test_a_body_that_is_not_of_the_right_form_deletes_nothing(as_ann, document):
    create_key(as_ann, name="nightly")
    refused(as_ann.delete("/keys/", json=document), 400, "ValidationError")
    assert deleted() == set()


def test_query_and_body_that_disagree_delete_nothing(as_ann):
    create_key(as_ann, name="one")
    refused(as_ann.delete("/keys/?name=one", json=body(name="two")), 409, "Conflict", "name")
    assert deleted() == set()


def test_a_deleted_key_is_not_changed_and_holds_no_provider(admin, as_ann, first_provider):
    key = create_key(as_ann, name="laptop", provider=first_provider.pk)
    refused(admin.delete(f"/providers/{first_provider.pk}/"), 409, "Conflict", "1 API key")
    as_ann.delete("/keys/?name=laptop")
    refused(as_ann.patch(f"/keys/{key.pk}/", newName="phone"), 404, "NotFound")
    refused(admin.patch(f"/keys/{key.pk}/", locked=False), 404, "NotFound")
    assert admin.delete(f"/providers/{first_provider.pk}/").status_code == 200
    key.refresh_from_db()
    assert (key.is_deleted, key.provider) == (True, None)
