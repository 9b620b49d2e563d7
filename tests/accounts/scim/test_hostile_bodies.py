"""Bodies of any shape: each is answered, none with 500."""

import random
from typing import Any

import pytest

from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

PATHS = [
    "", "active", "userName", "displayName", "externalId", "emails", "emails.value", 'emails[type eq "work"].value',
    'emails[type eq "work"]', "emails[primary eq true].value", 'emails[value eq "a@b.org"].primary', "emails[type pr]",
    "members", "members.value", 'members[value eq "1"]', 'members[value eq "x" or display pr]', "name.givenName",
    "meta", "meta.created", "groups", "groups[value pr]", "schemas", "id", "urn:ietf:params:scim:schemas:core:2.0:User",
    "urn:ietf:params:scim:schemas:core:2.0:User:active", "urn:x:y", "[", "]", "a[b]", "a.b.c", "$ref", "-", "\u2028",
]  # fmt: skip
SCALARS = [None, True, False, 0, -1, 10**30, 1.5, "", "1", "True", "ann", "a@b.org", "a" * 300, "\u200b", "\udbff", "é"]
SCHEMAS = [f"urn:ietf:params:scim:schemas:core:2.0:{name}" for name in ("User", "Group")]
NAMES = [
    "value",
    "type",
    "primary",
    "display",
    "$ref",
    "VALUE",
    "userName",
    "displayname",
    "active",
    "emails",
    "members",
]
OPERATIONS = ["add", "Remove", "REPLACE", "move", None, 5]


def value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if kind < 0.5 or depth > 3:
        return chance.choice(SCALARS[:-2] + ["é"])
    if kind < 0.75:
        return [value(chance, depth + 1) for _ in range(chance.randrange(3))]
    return {chance.choice(NAMES + PATHS): value(chance, depth + 1) for _ in range(chance.randrange(4))}


def operation(chance: random.Random) -> Any:
    members = {
        "op": chance.choice(OPERATIONS[:3] * 3 + OPERATIONS),
        "path": chance.choice(PATHS),
        "value": value(chance),
    }
    return {name: part for name, part in members.items() if chance.random() > 0.1}


def resource(chance: random.Random) -> dict[str, Any]:
    names = ["userName", "displayName", "externalId", "active", "emails", "members", "name", "meta", "id", "groups"]
    name = f"name-{chance.random()}"
    schemas = value(chance) if chance.random() < 0.1 else SCHEMAS
    return {"schemas": schemas, "userName": name, "displayName": name} | {
        chance.choice(names): value(chance) for _ in range(chance.randrange(3))
    }


@pytest.mark.parametrize("seed", range(4))
def test_no_body_is_an_internal_error(directory, seed):
    chance = random.Random(seed)
    user_id = directory.new_user("ann", emails=[{"value": "ann@a.org"}])["id"]
    group_id = directory.new_group("search", user_id)["id"]
    for _ in range(number_of(60)):
        items = (f"/Users/{user_id}", f"/Groups/{group_id}")
        patch = {"schemas": [], "Operations": [operation(chance) for _ in range(chance.randrange(1, 3))]}
        body = resource(chance)
        for method, path, document in (
            *(("PATCH", path, patch) for path in items),
            *(("PUT", path, body) for path in items),
            *(("POST", path, resource(chance)) for path in ("/Users", "/Groups", "/Users/.search")),
        ):
            response = directory.send(method, path, document)
            assert response.status_code in (200, 201, 400, 409), f"{method} {path} {document}: {response.text}"
            if response.status_code >= 400:
                assert response.json()["detail"]
