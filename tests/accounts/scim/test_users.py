"""Users by SCIM, with bodies as Entra ID and Okta send them."""

import pytest

from accounts.models import Role, Session, User
from accounts.services import create_service_account, delete_user
from accounts.sessions import log_in
from gateway_project.errors import AuthenticationFailed
from keys.models import ApiKey
from keys.services import issue_key
from telemetry.audit.models import AuditEntry
from tests.accounts.scim.conftest import USER, error
from tests.support.management import new_admin, new_user, token_of

pytestmark = pytest.mark.either_store

ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
FROM_ENTRA = {
    "schemas": [USER, ENTERPRISE],
    "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
    "userName": "Ann.Lee@example.org",
    "active": True,
    "displayName": "Ann Lee",
    "emails": [
        {"primary": False, "type": "home", "value": "ann@home.example"},
        {"primary": True, "type": "work", "value": "ann@example.org"},
    ],
    "meta": {"resourceType": "User"},
    "name": {"formatted": "Ann B. Lee", "familyName": "Lee", "givenName": "Ann"},
    "roles": [],
    ENTERPRISE: {"department": "Search"},
}
FROM_OKTA = {
    "schemas": [USER],
    "userName": "bob@example.org",
    "name": {"givenName": "Bob", "familyName": "Ray"},
    "emails": [{"primary": True, "value": "bob@example.org", "type": "work"}],
    "password": "1mz050nq",
    "locale": "en-US",
    "externalId": "00ujl29u0le5T6Aj10h7",
    "groups": [],
    "active": True,
}


def stored(document) -> User:
    return User.objects.get(pk=int(document["id"]))


def test_entra_id_creates_a_user(directory):
    document = directory.created("/Users", FROM_ENTRA)
    user = stored(document)
    assert (user.username, user.display_name, user.email) == ("Ann.Lee@example.org", "Ann Lee", "ann@example.org")
    assert (user.external_id, user.is_active, user.kind) == (FROM_ENTRA["externalId"], True, "person")
    assert not user.has_usable_password()
    assert [role.name for role in user.roles.all()] == ["user"]
    url = f"{directory.base}/Users/{user.pk}"
    assert document == {
        "schemas": [USER],
        "id": str(user.pk),
        "externalId": FROM_ENTRA["externalId"],
        "userName": "Ann.Lee@example.org",
        "displayName": "Ann Lee",
        "active": True,
        "emails": [{"value": "ann@example.org", "type": "work", "primary": True}],
        "meta": {"resourceType": "User", "location": url, "created": document["meta"]["created"]},
    }
    assert directory.get(f"/Users/{user.pk}") == document


def test_okta_creates_a_user_who_gets_no_password(directory):
    response = directory.send("POST", "/Users", FROM_OKTA)
    assert response.headers["Location"] == response.json()["meta"]["location"]
    assert stored(response.json()).display_name == "Bob Ray"
    with pytest.raises(AuthenticationFailed):
        log_in(username="bob@example.org", password="1mz050nq")


def test_entra_id_patches_a_user(directory):
    user_id = directory.created("/Users", FROM_ENTRA)["id"]
    document = directory.patch(
        f"/Users/{user_id}",
        {"op": "Replace", "path": "displayName", "value": "Ann Ray"},
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "ray@example.org"},
        {"op": "Add", "path": 'emails[type eq "other"].value', "value": "other@example.org"},
        {"op": "Add", "path": "name.familyName", "value": "Ray"},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Sales"},
        {"op": "Replace", "path": "userName", "value": "ann.ray@example.org"},
        {"op": "Replace", "path": "active", "value": "False"},
    )
    assert (document["userName"], document["displayName"]) == ("ann.ray@example.org", "Ann Ray")
    assert document["emails"] == [{"value": "ray@example.org", "type": "work", "primary": True}]
    assert document["active"] is False
    assert directory.names("/Users", 'userName eq "ANN.RAY@example.org"') == ["ann.ray@example.org"]


WORK = {"value": "a@work.example", "type": "work", "primary": True}
HOME, OTHER = {"value": "h@home.example", "type": "home"}, {"value": "x@other.example"}


@pytest.mark.parametrize("op", ["Add", "replace"])
@pytest.mark.parametrize(
    ("value", "address"),
    [
        ([HOME], "a@work.example"),
        (HOME, "a@work.example"),
        ([HOME, OTHER], "x@other.example"),
        ([HOME | {"primary": True}], "h@home.example"),
        ([HOME, {"value": "b@work.example", "type": "Work"}], "b@work.example"),
        ("y@other.example", "y@other.example"),
    ],
)
def test_a_private_address_does_not_replace_that_for_work(directory, op, value, address):
    user_id = directory.new_user("ann", emails=[WORK])["id"]
    document = directory.patch(f"/Users/{user_id}", {"op": op, "path": "emails", "value": value})
    assert [entry["value"] for entry in document["emails"]] == [address]


def test_a_user_without_an_address_gets_the_private_one(directory):
    user_id, add = directory.new_user("ann")["id"], {"op": "add", "path": "emails", "value": [HOME]}
    assert directory.patch(f"/Users/{user_id}", add)["emails"][0]["value"] == "h@home.example"
    bob = directory.new_user("bob", emails=[WORK])["id"]
    document = directory.patch(f"/Users/{bob}", {"op": "remove", "path": "emails"}, add)
    assert document["emails"][0]["value"] == "h@home.example"


def test_addresses_can_be_replaced_by_none_and_an_empty_list_removes_none(directory):
    path = f"/Users/{directory.new_user('ann', emails=[WORK])['id']}"
    assert directory.patch(path, {"op": "remove", "path": "emails", "value": []})["emails"]
    assert "emails" not in directory.patch(path, {"op": "replace", "path": "emails", "value": []})


def test_a_value_without_a_path_has_paths_as_keys(directory):
    user_id = directory.new_user("ann")["id"]
    value = {
        "id": user_id,
        "schemas": [USER],
        "active": "False",
        "displayName": "Ann",
        'emails[type eq "work"].value': "ann@example.org",
        "name.givenName": "Ann",
    }
    document = directory.patch(f"/Users/{user_id}", {"op": "replace", "value": value})
    assert (document["active"], document["displayName"]) == (False, "Ann")
    assert document["emails"][0]["value"] == "ann@example.org"


def test_okta_replaces_and_deactivates_a_user(directory):
    user_id = directory.created("/Users", FROM_OKTA)["id"]
    replaced = directory.send("PUT", f"/Users/{user_id}", FROM_OKTA | {"displayName": "Bobby", "emails": []})
    assert replaced.status_code == 200, replaced.text
    assert replaced.json()["displayName"] == "Bobby"
    assert "emails" not in replaced.json()
    assert directory.patch(f"/Users/{user_id}", {"op": "replace", "value": {"active": False}})["active"] is False
    kept = directory.send("PUT", f"/Users/{user_id}", {"schemas": [USER], "userName": "bob@example.org"}).json()
    assert kept["active"] is False  # what a PUT does not say lets nobody in again
    assert "externalId" not in kept


def test_what_is_removed_is_empty(directory):
    user_id = directory.created("/Users", FROM_ENTRA)["id"]
    removals = [{"op": "remove", "path": path} for path in ("displayName", "emails", "externalId")]
    document = directory.patch(f"/Users/{user_id}", *removals)
    assert not {"displayName", "emails", "externalId"} & document.keys()


def test_inactive_people_have_no_session(directory, nobody):
    document = directory.new_user("ann")
    user = stored(document)
    client = nobody.with_credential(token_of(user))
    assert client.get("/users/?currentUser=true").status_code == 200
    directory.patch(f"/Users/{user.pk}", {"op": "replace", "path": "active", "value": False})
    assert client.get("/users/?currentUser=true").status_code == 401
    assert not Session.objects.live().filter(user=user).exists()


def test_a_deleted_user_is_gone_and_keeps_the_name(directory):
    user_id = directory.created("/Users", FROM_ENTRA)["id"]
    response = directory.send("DELETE", f"/Users/{user_id}")
    assert (response.status_code, response.content) == (204, b"")
    error(directory.send("GET", f"/Users/{user_id}"), 404)
    error(directory.send("DELETE", f"/Users/{user_id}"), 404)
    assert directory.names("/Users", 'userName co "ann"') == []
    assert User.objects.get(pk=user_id).is_deleted
    stranger = FROM_ENTRA | {"externalId": "another"}
    assert "deleted user" in error(directory.send("POST", "/Users", stranger), 409, "uniqueness")


def test_a_deleted_user_comes_back_with_the_external_id_and_nothing_else(directory):
    user = stored(directory.created("/Users", FROM_ENTRA))
    user.roles.set(Role.objects.filter(name="admin"))
    directory.new_group("search", str(user.pk))
    key = issue_key(owner=user, name="old").key
    new_admin()
    directory.send("DELETE", f"/Users/{user.pk}")
    document = directory.created("/Users", FROM_ENTRA | {"userName": "ann.new@example.org"})
    assert document["id"] == str(user.pk)
    assert document["userName"] == "ann.new@example.org"
    assert "groups" not in document
    user.refresh_from_db()
    assert [role.name for role in user.roles.all()] == ["user"]
    assert ApiKey.objects.get(pk=key.pk).is_deleted


@pytest.mark.parametrize("name", ["ann", "ANN", "ａnn"])
def test_names_are_unique_in_any_case(directory, name):
    directory.new_user("Ann")
    response = directory.send("POST", "/Users", {"schemas": [USER], "userName": name})
    assert "userName" in error(response, 409, "uniqueness")


def test_external_ids_are_unique(directory):
    directory.new_user("ann", externalId="1")
    bob = directory.new_user("bob", externalId="2")
    response = directory.send("POST", "/Users", {"schemas": [USER], "userName": "eve", "externalId": "1"})
    assert "externalId" in error(response, 409, "uniqueness")
    message = {"schemas": [], "Operations": [{"op": "replace", "path": "externalId", "value": "1"}]}
    error(directory.send("PATCH", f"/Users/{bob['id']}", message), 409, "uniqueness")


def test_the_last_admin_stays(directory):
    admin = new_admin()
    path = f"/Users/{admin.pk}"
    message = {"schemas": [], "Operations": [{"op": "replace", "path": "active", "value": False}]}
    for response in (directory.send("DELETE", path), directory.send("PATCH", path, message)):
        assert "last active admin" in error(response, 409)
    admin.refresh_from_db()
    assert admin.may_log_in


def test_service_accounts_are_not_there(directory):
    group_id = directory.new_group("search")["id"]
    account = create_service_account(username="indexer", group_id=int(group_id))
    error(directory.send("GET", f"/Users/{account.pk}"), 404)
    error(directory.send("DELETE", f"/Users/{account.pk}"), 404)
    assert directory.names("/Users", 'userName eq "indexer"') == []
    assert "members" not in directory.get(f"/Groups/{group_id}")
    error(directory.send("DELETE", f"/Groups/{group_id}"), 409)


def test_each_change_is_in_the_audit(directory):
    document = directory.created("/Users", FROM_ENTRA)
    directory.patch(f"/Users/{document['id']}", {"op": "replace", "path": "displayName", "value": "Ann"})
    directory.patch(f"/Users/{document['id']}", {"op": "replace", "path": "displayName", "value": "Ann"})
    directory.send("DELETE", f"/Users/{document['id']}")
    entries = list(AuditEntry.objects.filter(actor="directory").order_by("id"))
    assert [(entry.action, entry.resource) for entry in entries] == [
        ("create", "users"),
        ("update", "users"),
        ("destroy", "users"),
    ]
    assert entries[1].message == f"The directory changed users {document['id']}."
    assert (entries[1].user_id, entries[1].address) == (None, "127.0.0.1")
    assert '"Ann Lee"' in entries[1].before
    assert '"Ann"' in entries[1].after


@pytest.mark.parametrize(
    ("document", "scim_type", "words"),
    [
        ({"schemas": [USER]}, "invalidValue", "userName"),
        ({"schemas": [USER], "userName": ""}, "invalidValue", "userName"),
        ({"schemas": [USER], "userName": 5}, "invalidValue", "userName"),
        ({"schemas": [USER], "userName": " ann"}, "invalidValue", "userName"),
        ({"schemas": [USER], "userName": "a" * 151}, "invalidValue", "userName"),
        ({"schemas": [USER], "userName": "ann", "externalId": "1" * 256}, "invalidValue", "externalId"),
        ({"schemas": [USER], "userName": "ann", "displayName": "a" * 201}, "invalidValue", "displayName"),
        ({"schemas": [USER], "userName": "ann", "active": "perhaps"}, "invalidValue", "active"),
        ({"schemas": [USER], "userName": "ann", "emails": [{"value": "nonsense"}]}, "invalidValue", "emails"),
        ({"schemas": [USER], "userName": "ann", "emails": ["a@example.org", 5]}, "invalidValue", "emails"),
        ({"schemas": [USER], "userName": "a\0b"}, "invalidSyntax", "NUL"),
        ({"schemas": [USER], "userName": ["ann"]}, "invalidValue", "userName"),
    ],
)
def test_bad_users_are_refused(directory, document, scim_type, words):
    assert words in error(directory.send("POST", "/Users", document), 400, scim_type)
    assert not User.objects.exists()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a": 1, "a": 2}', b"\xff", b"[" * 100])
def test_bodies_that_are_no_object_are_refused(directory, body):
    headers = {"Content-Type": "application/scim+json"}
    response = directory.session.post(f"{directory.base}/Users", data=body, headers=headers, timeout=30)
    error(response, 400, "invalidSyntax")


def test_other_bodies_are_refused(directory):
    form = directory.session.post(f"{directory.base}/Users", data={"userName": "ann"}, timeout=30)
    assert "application/scim+json" in error(form, 415)
    large = {"schemas": [USER], "userName": "ann", "title": "a" * 2**20}
    error(directory.send("POST", "/Users", large), 413)


@pytest.mark.parametrize(
    ("operation", "scim_type"),
    [
        ({"op": "move", "path": "active"}, "invalidValue"),
        ({"path": "active", "value": True}, "invalidValue"),
        ({"op": "add", "path": "displayName"}, "invalidValue"),
        ({"op": "remove"}, "noTarget"),
        ({"op": "remove", "path": "userName"}, "mutability"),
        ({"op": "remove", "path": "active"}, "mutability"),
        ({"op": "replace", "path": "id", "value": "5"}, "mutability"),
        ({"op": "replace", "path": "groups", "value": []}, "mutability"),
        ({"op": "replace", "path": "active", "value": "perhaps"}, "invalidValue"),
        ({"op": "replace", "path": "userName", "value": {"a": 1}}, "invalidValue"),
        ({"op": "replace", "path": "emails[", "value": "x"}, "invalidPath"),
        ({"op": "replace", "path": 5, "value": "x"}, "invalidPath"),
        ({"op": "replace", "path": "a" * 600, "value": "x"}, "invalidPath"),
        ({"op": "replace", "value": "x"}, "invalidValue"),
    ],
)
def test_bad_patches_change_nothing(directory, operation, scim_type):
    document = directory.new_user("ann", displayName="Ann")
    good = {"op": "replace", "path": "displayName", "value": "Eve"}
    message = {"schemas": [], "Operations": [good, operation]}
    error(directory.send("PATCH", f"/Users/{document['id']}", message), 400, scim_type)
    assert directory.get(f"/Users/{document['id']}") == document


def test_patches_are_bounded(directory):
    path = f"/Users/{directory.new_user('ann')['id']}"
    operation = {"op": "replace", "path": "displayName", "value": "Ann"}
    error(directory.send("PATCH", path, {"schemas": [], "Operations": [operation] * 1001}), 413)
    for operations in ([], "x", [5], None):
        error(directory.send("PATCH", path, {"schemas": [], "Operations": operations}), 400, "invalidValue")


@pytest.mark.parametrize("user_id", ["0", "nonsense", "9" * 19, "9" * 190, "-1", "1.0", "٣"])
def test_ids_that_nobody_has(directory, user_id):
    error(directory.send("GET", f"/Users/{user_id}"), 404)


def test_a_user_made_by_hand_is_taken_over(directory):
    user = new_user(username="ann")
    assert directory.names("/Users", 'userName eq "Ann"') == ["ann"]
    directory.patch(f"/Users/{user.pk}", {"op": "Add", "path": "externalId", "value": "42"})
    user.refresh_from_db()
    assert user.external_id == "42"
    assert user.has_usable_password()
    delete_user(user)
    error(directory.send("GET", f"/Users/{user.pk}"), 404)
