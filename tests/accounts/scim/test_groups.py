"""Groups by SCIM: members one by one, in lists and by the thousand."""

import time

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Group, User
from accounts.services import add_member, create_service_account
from telemetry.audit.models import AuditEntry
from tests.accounts.scim.conftest import GROUP, error
from tests.support.pace import patience

pytestmark = pytest.mark.either_store


def members(document) -> list[str]:
    return [member["value"] for member in document.get("members", ())]


@pytest.fixture
def people(directory) -> list[str]:
    """The ids of three users."""
    return [directory.new_user(name)["id"] for name in ("ann", "bob", "eve")]


def test_a_group_is_created_with_members(directory, people):
    ann, bob, _ = people
    document = directory.new_group("search", ann, bob, externalId="g-1")
    group = Group.objects.get(pk=int(document["id"]))
    assert (group.name, group.external_id) == ("search", "g-1")
    url = f"{directory.base}/Groups/{group.pk}"
    reference = f"{directory.base}/Users/{ann}"
    assert document == {
        "schemas": [GROUP],
        "id": str(group.pk),
        "externalId": "g-1",
        "displayName": "search",
        "members": [
            {"value": ann, "display": "ann", "type": "User", "$ref": reference},
            {"value": bob, "display": "bob", "type": "User", "$ref": f"{directory.base}/Users/{bob}"},
        ],
        "meta": {"resourceType": "Group", "location": url},
    }
    assert directory.get(f"/Users/{ann}")["groups"] == [
        {"value": str(group.pk), "display": "search", "type": "direct", "$ref": url}
    ]


def test_entra_id_changes_members(directory, people):
    ann, bob, eve = people
    path = f"/Groups/{directory.new_group('search', ann)['id']}"
    added = directory.patch(path, {"op": "Add", "path": "members", "value": [{"$ref": None, "value": bob}]})
    assert members(added) == [ann, bob]
    removed = directory.patch(path, {"op": "Remove", "path": "members", "value": [{"$ref": None, "value": ann}]})
    assert members(removed) == [bob]
    renamed = directory.patch(path, {"op": "Replace", "path": "displayName", "value": "find"})
    assert (renamed["displayName"], members(renamed)) == ("find", [bob])
    everyone = [{"op": "Add", "path": "members", "value": [{"value": user_id}]} for user_id in (ann, eve)]
    assert members(directory.patch(path, *everyone)) == people


def test_okta_changes_members(directory, people):
    ann, bob, eve = people
    document = directory.new_group("search", ann, bob)
    path = f"/Groups/{document['id']}"
    changed = directory.patch(
        path,
        {"op": "remove", "path": f'members[value eq "{ann}"]'},
        {"op": "add", "path": "members", "value": [{"value": eve, "display": "eve"}]},
    )
    assert members(changed) == [bob, eve]
    renamed = directory.patch(path, {"op": "replace", "value": {"id": document["id"], "displayName": "find"}})
    assert renamed["displayName"] == "find"
    replaced = directory.patch(path, {"op": "replace", "path": "members", "value": [{"value": ann}]})
    assert members(replaced) == [ann]
    assert members(directory.patch(path, {"op": "remove", "path": "members"})) == []


@pytest.mark.parametrize("removal", [{}, {"value": None}])
def test_a_removal_of_members_without_a_value_is_about_all(directory, people, removal):
    path = f"/Groups/{directory.new_group('search', *people)['id']}"
    assert members(directory.patch(path, {"op": "remove", "path": "members", **removal})) == []


def test_an_empty_list_of_members_to_remove_removes_nobody(directory, people):
    path = f"/Groups/{directory.new_group('search', *people)['id']}"
    assert members(directory.patch(path, {"op": "remove", "path": "members", "value": []})) == people


@pytest.mark.parametrize("value", [[], None])
def test_members_can_be_replaced_by_none(directory, people, value):
    path = f"/Groups/{directory.new_group('search', *people)['id']}"
    assert members(directory.patch(path, {"op": "replace", "path": "members", "value": value})) == []


def test_the_order_of_operations_counts(directory, people):
    ann, bob, eve = people
    path = f"/Groups/{directory.new_group('search', ann)['id']}"
    document = directory.patch(
        path,
        {"op": "add", "path": "members", "value": [{"value": bob}]},
        {"op": "replace", "path": "members", "value": [{"value": eve}]},
        {"op": "add", "path": "members", "value": [{"value": ann}, {"value": bob}]},
        {"op": "remove", "path": f'members[value eq "{bob}"]'},
    )
    assert members(document) == [ann, eve]


def test_a_put_replaces_all(directory, people):
    ann, bob, _ = people
    document = directory.new_group("search", ann, externalId="g-1")
    body = {"schemas": [GROUP], "displayName": "find", "members": [{"value": bob}]}
    replaced = directory.send("PUT", f"/Groups/{document['id']}", body).json()
    assert (replaced["displayName"], members(replaced)) == ("find", [bob])
    assert "externalId" not in replaced
    del body["members"]
    assert members(directory.send("PUT", f"/Groups/{document['id']}", body).json()) == []


def test_nobody_else_is_touched(directory, people):
    """Service accounts stay members, and an admin of the group who leaves is no admin any more."""
    ann, bob, _ = people
    group = Group.objects.get(pk=int(directory.new_group("search", ann, bob)["id"]))
    account = create_service_account(username="indexer", group_id=group.pk)
    add_member(group, user_id=int(ann), is_admin=True)
    path = f"/Groups/{group.pk}"
    directory.patch(path, {"op": "replace", "path": "members", "value": [{"value": bob}]})
    assert set(group.members.all()) == {account, User.objects.get(pk=int(bob))}
    assert not group.admins.exists()
    directory.patch(path, {"op": "remove", "path": f'members[value eq "{account.pk}"]'})
    assert group.members.contains(account)


@pytest.mark.parametrize(
    ("operation", "status", "scim_type"),
    [
        ({"op": "add", "path": "members", "value": [{"value": "999999"}]}, 400, "invalidValue"),
        ({"op": "add", "path": "members", "value": [{"value": "nonsense"}]}, 400, "invalidValue"),
        ({"op": "add", "path": "members", "value": [{"value": 5}]}, 400, "invalidValue"),
        ({"op": "add", "path": "members", "value": "٣"}, 400, "invalidValue"),
        ({"op": "add", "path": "members"}, 400, "invalidValue"),
        ({"op": "replace", "path": "members"}, 400, "invalidValue"),
        ({"op": "replace", "path": "members", "value": ""}, 400, "invalidValue"),
        ({"op": "replace", "path": "members", "value": False}, 400, "invalidValue"),
        ({"op": "replace", "path": "members", "value": {}}, 400, "invalidValue"),
        ({"op": "remove", "path": "members", "value": ""}, 400, "invalidValue"),
        ({"op": "remove", "path": "members", "value": {}}, 400, "invalidValue"),
        ({"op": "add", "path": "members.display", "value": "x"}, 400, "invalidPath"),
        ({"op": "add", "path": 'members[value eq "1"]', "value": "x"}, 400, "invalidPath"),
        ({"op": "remove", "path": 'members[display eq "x"]'}, 400, "invalidPath"),
        ({"op": "remove", "path": "displayName"}, 400, "mutability"),
        ({"op": "replace", "path": "displayName", "value": None}, 400, "mutability"),
        ({"op": "replace", "path": "displayName", "value": 5}, 400, "invalidValue"),
        ({"op": "replace", "path": "displayName", "value": " x"}, 400, "invalidValue"),
        ({"op": "replace", "path": "displayName", "value": "other"}, 409, "uniqueness"),
        ({"op": "replace", "path": "externalId", "value": "o-1"}, 409, "uniqueness"),
        ({"op": "replace", "path": "id", "value": "5"}, 400, "mutability"),
        ({"op": "replace", "path": "a b", "value": "5"}, 400, "invalidPath"),
        ({"op": "replace", "value": "5"}, 400, "invalidValue"),
        ({"op": "remove"}, 400, "noTarget"),
    ],
)
def test_bad_patches_change_nothing(directory, people, operation, status, scim_type):
    directory.new_group("other", externalId="o-1")
    document = directory.new_group("search", people[0])
    good = {"op": "add", "path": "members", "value": [{"value": people[1]}]}
    message = {"schemas": [], "Operations": [good, operation]}
    error(directory.send("PATCH", f"/Groups/{document['id']}", message), status, scim_type)
    assert directory.get(f"/Groups/{document['id']}") == document


def test_a_group_needs_a_name_of_its_own(directory):
    directory.new_group("search")
    error(directory.send("POST", "/Groups", {"schemas": [GROUP], "displayName": "search"}), 409, "uniqueness")
    error(directory.send("POST", "/Groups", {"schemas": [GROUP]}), 400, "invalidValue")


def test_a_group_is_deleted(directory, people):
    path = f"/Groups/{directory.new_group('search', *people)['id']}"
    assert directory.send("DELETE", path).status_code == 204
    error(directory.send("GET", path), 404)
    assert User.objects.live().count() == 3


def test_each_change_is_in_the_audit_without_those_who_stay(directory, people):
    ann, bob, eve = people
    document = directory.new_group("search", ann, bob)
    directory.patch(f"/Groups/{document['id']}", {"op": "add", "path": "members", "value": [{"value": eve}]})
    directory.patch(f"/Groups/{document['id']}", {"op": "add", "path": "members", "value": [{"value": eve}]})
    entries = list(AuditEntry.objects.filter(actor="directory", resource="groups").order_by("id"))
    assert [entry.action for entry in entries] == ["create", "update"]
    assert f'"membersAdded":[{eve}]' in entries[1].after


@pytest.fixture
def crowd(directory) -> Group:
    """A group of 5,000."""
    users = User.objects.bulk_create(
        User(username=f"member-{number}", name_key=f"member-{number}", password="!") for number in range(5000)
    )
    group = Group.objects.create(name="crowd")
    group.members.add(*users)
    return group


def test_a_large_group_is_patched_within_a_second(directory, crowd):
    path, user_id = f"/Groups/{crowd.pk}?excludedAttributes=members", directory.new_user("ann")["id"]
    began = time.monotonic()
    with CaptureQueriesContext(connection) as queries:
        document = directory.patch(path, {"op": "add", "path": "members", "value": [{"value": user_id}]})
        directory.patch(path, {"op": "remove", "path": f'members[value eq "{user_id}"]'})
    assert "members" not in document
    assert time.monotonic() - began < patience(1)
    assert all("LIMIT" in one["sql"] or "WHERE" in one["sql"] for one in queries if "group_members" in one["sql"])
    assert len(members(directory.get(f"/Groups/{crowd.pk}"))) == 5000


def test_a_list_of_large_groups_has_short_pages(directory, crowd, monkeypatch):
    from accounts.scim import kinds

    monkeypatch.setattr(kinds, "MAX_MEMBERS_IN_LIST", 100)
    directory.new_group("small")
    page = directory.get("/Groups")
    assert (page["totalResults"], page["itemsPerPage"]) == (2, 1)
    rest = directory.get("/Groups", startIndex=2)
    assert [row["displayName"] for row in rest["Resources"]] == ["small"]
    without = directory.get("/Groups", excludedAttributes="members")
    assert without["itemsPerPage"] == 2
