"""Filters, order, pages and the choice of attributes."""

import pytest

from tests.accounts.scim.conftest import error

pytestmark = pytest.mark.either_store


@pytest.fixture
def people(directory) -> list[str]:
    """The ids of Ann, who is inactive, Bob and Éve."""
    ann = directory.new_user(
        "Ann", displayName="Ann Lee", externalId="A-1", active=False, emails=[{"value": "ann@a.org"}]
    )
    bob = directory.new_user("bob_1", displayName="Bob (Ray)", externalId="B-2")
    eve = directory.new_user("Éve", emails=[{"value": "eve@b.org"}])
    return [ann["id"], bob["id"], eve["id"]]


@pytest.mark.parametrize(
    ("filter", "names"),
    [
        ('userName eq "ANN"', ["Ann"]),
        ('USERNAME EQ "ann"', ["Ann"]),
        ('urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ann"', ["Ann"]),
        ('userName ne "ann"', ["bob_1", "Éve"]),
        ('userName co "O"', ["bob_1"]),
        ('userName sw "É"', ["Éve"]),
        ('userName ew "_1"', ["bob_1"]),
        ('userName ew "%"', []),
        ('userName gt "ann"', ["bob_1", "Éve"]),
        ('userName le "ann"', ["Ann"]),
        ("userName pr", ["Ann", "bob_1", "Éve"]),
        ("not (userName pr)", []),
        ('externalId eq "A-1"', ["Ann"]),
        ('externalId eq "a-1"', []),
        ("externalId pr", ["Ann", "bob_1"]),
        ("externalId eq null", ["Éve"]),
        ("externalId ne null", ["Ann", "bob_1"]),
        ('displayName eq "ann lee"', ["Ann"]),
        ('displayName co "(ray"', ["bob_1"]),
        ('emails.value eq "ANN@a.org"', ["Ann"]),
        ('emails co "b.org"', ["Éve"]),
        ("emails pr", ["Ann", "Éve"]),
        ('emails[type eq "work" and value co "@"]', ["Ann", "Éve"]),
        ('emails[type eq "work"].value eq "eve@b.org"', ["Éve"]),
        ('emails[type eq "home"]', []),
        ("emails[primary eq true]", ["Ann", "Éve"]),
        ("active eq true", ["bob_1", "Éve"]),
        ("active ne true", ["Ann"]),
        ('id eq "nonsense"', []),
        ('meta.created gt "2020-01-01T00:00:00Z"', ["Ann", "bob_1", "Éve"]),
        ('meta.created lt "2020-01-01T00:00:00Z"', []),
        ('meta.resourceType eq "User"', ["Ann", "bob_1", "Éve"]),
        ('userName eq "ann" or userName eq "bob_1" and active eq true', ["Ann", "bob_1"]),
        ('(userName eq "ann" or userName eq "bob_1") and active eq true', ["bob_1"]),
        ('not (userName eq "ann" or externalId pr)', ["Éve"]),
    ],
)
def test_filters_select(directory, people, filter, names):
    assert directory.names("/Users", filter) == names
    found = directory.send("POST", "/Users/.search", {"schemas": [], "filter": filter}).json()
    assert [row["userName"] for row in found["Resources"]] == names


def test_ids_and_members_select(directory, people):
    ann, bob, eve = people
    assert directory.names("/Users", f'id eq "{bob}"') == ["bob_1"]
    assert directory.names("/Users", f'id ne "{bob}"') == ["Ann", "Éve"]
    group = directory.new_group("search", ann, bob, externalId="g")
    directory.new_group("empty")
    assert directory.names("/Groups", 'displayName eq "SEARCH"', excludedAttributes="members") == ["search"]
    assert directory.names("/Groups", f'id eq "{group["id"]}" and members eq "{bob}"') == ["search"]
    assert directory.names("/Groups", f'members.value eq "{ann}" and members[value eq "{bob}"]') == ["search"]
    assert directory.names("/Groups", f'members eq "{eve}"') == []
    assert directory.names("/Groups", "members pr") == ["search"]
    assert directory.names("/Groups", "not (members pr)") == ["empty"]
    assert directory.names("/Groups", 'externalId eq "g"') == ["search"]


@pytest.mark.parametrize(
    "filter",
    [
        "userName",
        "userName eq",
        "userName xx 5",
        "userName eq ann",
        "userName eq 5",
        "userName eq true",
        'title eq "x"',
        'password eq "x"',
        'name.familyName eq "x"',
        'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department eq "x"',
        "active gt true",
        'active eq "true"',
        "id gt 5",
        'id co "5"',
        'meta.created eq "yesterday"',
        'meta.created co "2020-01-01T00:00:00Z"',
        'meta.created eq "2020-01-01T00:00:00"',
        'meta.created gt "0001-01-01T00:00:00+14:00"',
        'emails[type co "w"]',
        'emails[type eq "work"',
        'userName eq "a\\u0000b"',
        'userName eq "\\ud800"',
        "(" * 31 + "userName pr" + ")" * 31,
        " or ".join(["userName pr"] * 51),
        "userName eq " + '"' + "a" * 2000 + '"',
        "nonsense",
    ],
)
def test_bad_filters_are_refused(directory, filter):
    assert error(directory.send("GET", "/Users", params={"filter": filter}), 400, "invalidFilter")


def test_pages(directory, people):
    page = directory.get("/Users", startIndex=2, count=1)
    assert page["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:ListResponse"]
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (3, 2, 1)
    assert [row["userName"] for row in page["Resources"]] == ["bob_1"]
    none = directory.get("/Users", count=0)
    assert (none["totalResults"], none["Resources"]) == (3, [])
    assert directory.get("/Users", startIndex=-5, count=-1)["itemsPerPage"] == 0
    assert directory.get("/Users", startIndex=10**30)["Resources"] == []
    assert directory.get("/Users", count=10**30)["itemsPerPage"] == 3
    for name in ("count", "startIndex"):
        error(directory.send("GET", "/Users", params={name: "many"}), 400, "invalidValue")


def test_order(directory, people):
    def names(**parameters: str) -> list[str]:
        return [row["userName"] for row in directory.get("/Users", **parameters)["Resources"]]

    assert names(sortBy="userName", sortOrder="descending") == ["Éve", "bob_1", "Ann"]
    assert names(sortBy="meta.created") == ["Ann", "bob_1", "Éve"]
    error(directory.send("GET", "/Users", params={"sortBy": "password"}), 400, "invalidValue")
    error(directory.send("GET", "/Users", params={"sortBy": "id", "sortOrder": "up"}), 400, "invalidValue")


def test_attributes(directory, people):
    path = f"/Users/{people[0]}"
    always = {"schemas", "id"}
    assert directory.get(path, attributes="userName,EMAILS.value").keys() == always | {"userName", "emails"}
    assert directory.get(path, attributes="emails.value")["emails"] == [{"value": "ann@a.org"}]
    assert not {"meta", "userName"} & directory.get(path, excludedAttributes="meta,userName,id").keys()
    assert directory.get(path, excludedAttributes="emails.value")["emails"] == [{"type": "work", "primary": True}]
    urn = "urn:ietf:params:scim:schemas:core:2.0:User"
    assert directory.get(path, attributes=f"{urn}:active").keys() == always | {"active"}
    both = {"attributes": "userName", "excludedAttributes": "meta"}
    error(directory.send("GET", path, params=both), 400, "invalidValue")
    error(directory.send("GET", path, params={"attributes": "a," * 60 + "a"}), 400, "invalidValue")
    rows = directory.get("/Users", attributes="userName")["Resources"]
    assert all(row.keys() == always | {"userName"} for row in rows)
