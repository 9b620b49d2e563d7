"""Every route, tried by every sort of caller: the table of access.py says what must happen."""

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.test import override_settings
from django.urls import re_path
from rest_framework.response import Response

from accounts.builtin import FEATURES
from accounts.models import Role
from gateway_project.api.access import (
    ADMIN,
    AND,
    ANYBODY,
    CALLER_KINDS,
    DELEGATED,
    DIRECTORY,
    HOLDER,
    LOGIN,
    MANAGER,
    MONITORING,
    OR,
    OWNER,
    TABLE,
    USER,
    WORK,
    Caller,
    is_granted,
    require_access,
)
from gateway_project.api.resource_routes import resource
from gateway_project.api.routes import Route, check_routes, routes
from gateway_project.api.viewsets import ApiViewSet
from gateway_project.errors import AuthenticationFailed, PermissionDenied
from keys.services import issue_key
from tests.support.management import Client, new_admin, new_user
from tests.support.thoroughness import PART, QUARTER, quarter_of, some

pytestmark = pytest.mark.either_store

# Ids that nothing has: who is let through finds nothing and changes nothing.
MISSING = "999999"
EMPTY = b"{}"
LET_THROUGH = {200, 400, 404}


def api_routes() -> list[Route]:
    """Every route of the management API."""
    return [route for route in routes() if route.resource]


def grant_of(route: Route) -> str:
    """What the table asks for."""
    return DELEGATED.get(route.who, route.who)


def try_all(client: Client, expected, tried: Sequence[Route] = ()) -> list[str]:
    """These routes, or all, whose answer is not the expected one; expected(who) is 401, 403 or 200."""
    wrong = []
    for route in tried or api_routes():
        path = "/" + re.sub(r"\(\?P<\w+>[^)]*\)", MISSING, route.pattern.strip("^")).removesuffix(r"/?\Z") + "/"
        request = {} if route.method == "get" else {"data": EMPTY}
        status = client.send(route.method.upper(), path, **request).status_code
        actual_result = expected(grant_of(route))
        # Whose the missing thing is cannot be known: an owner's operation is refused, or finds nothing.
        fits = (
            {403, *LET_THROUGH}
            if route.who in (OWNER, MANAGER) and actual_result == 200
            else LET_THROUGH
            if actual_result == 200
            else {actual_result}
        )
        if status not in fits:
            wrong.append(f"{route.method} {path} ({route.resource}.{route.operation}): {status}, not {actual_result}")
    return wrong


def login_with(*features: str):
    granted = {ANYBODY, HOLDER, USER, LOGIN, OWNER, MANAGER, *features}
    return lambda who: 200 if is_granted(who, granted) else 403


def test_nobody(nobody):
    assert try_all(nobody, lambda who: {ANYBODY: 200, HOLDER: 400}.get(who, 401)) == []


def test_a_user_without_any_feature(nobody):
    assert try_all(nobody.as_user(new_user(roles=[])), login_with()) == []


@pytest.mark.parametrize("feature", quarter_of(*FEATURES))
def test_a_user_with_one_feature(nobody, feature):
    expected = login_with(feature)
    open_routes = [route for route in api_routes() if expected(grant_of(route)) == 200]
    refused = [route for route in api_routes() if route not in open_routes]
    tried = [*open_routes, *some(refused, FEATURES.index(feature) // QUARTER % PART)]
    assert try_all(nobody.as_user(new_user(feature)), expected, tried) == []


def test_an_admin(admin):
    assert try_all(admin, lambda who: 200) == []


def key_without(*refused: str):
    """A key is no token of a login: with one there is nothing to log out of."""
    return lambda who: (
        401 if who == HOLDER else 200 if is_granted(who, {*CALLER_KINDS, *FEATURES} - {*refused}) else 403
    )


def test_an_admins_key_for_work_alone(nobody):
    key = nobody.with_credential(issue_key(owner=new_admin(), name="work").text)
    assert try_all(key, key_without(USER, LOGIN, OWNER, MANAGER, ADMIN, *FEATURES)) == []


def test_an_admins_key_with_every_feature_is_no_admin(nobody):
    key = nobody.with_credential(issue_key(owner=new_admin(), name="all", permissions=FEATURES).text)
    assert try_all(key, key_without(ADMIN, LOGIN, OWNER)) == []


def test_a_key_loses_what_its_owner_loses(nobody):
    owner = new_user("groups.view", "work")
    key = nobody.with_credential(issue_key(owner=owner, name="k", permissions=["groups.view"]).text)
    assert key.get("/features/").status_code == 200
    owner.roles.set([Role.objects.get(name="user")])
    assert key.get("/features/").status_code == 403
    owner.is_active = False
    owner.save()
    assert key.get("/features/").status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer nonsense", "Basic YTpi", "Bearer", "", "Bearer svc_x", "Bearer .."])
def test_a_bad_credential_is_worse_than_none(nobody, scheme):
    response = nobody.get("/roles/", headers={"Authorization": scheme})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    nothing, wrong = nobody.get("/roles/").json(), nobody.with_credential("wrong").get("/roles/")
    assert response.content == wrong.content  # whatever is wrong with it
    for member in ("code", "exception"):
        assert response.json()[member] == nothing[member]
    assert response.json()["errors"][0]["title"] == nothing["errors"][0]["title"]
    assert nobody.get("/version/", headers={"Authorization": scheme}).status_code == 200


ANN, EVE = SimpleNamespace(pk=1), SimpleNamespace(pk=2)
CALLERS = {
    "ann": Caller(ANN, session=uuid4()),
    "eve": Caller(EVE, session=uuid4()),
    "admin": Caller(EVE, is_admin=True, session=uuid4()),
    "ann's key": Caller(ANN, frozenset({WORK, "keys.view_all"}), key_id=7),
    "ann's key for work": Caller(ANN, frozenset({WORK}), key_id=8),
    "eve's key for users": Caller(EVE, frozenset({"users.manage"}), key_id=9),
    "manager": Caller(EVE, frozenset({"users.manage"}), session=uuid4()),
}
MANAGERS = ("manager", "eve's key for users")


@pytest.mark.parametrize(
    ("who", "owner_id", "let_in", "told"),
    [
        (ANYBODY, None, [*CALLERS], ""),
        (HOLDER, None, [*CALLERS], ""),
        (USER, None, ["ann", "eve", "admin", "ann's key", *MANAGERS], "only send work requests"),
        (LOGIN, None, ["ann", "eve", "admin", "manager"], "an API key is not enough"),
        (OWNER, ANN.pk, ["ann", "admin"], "Only the owner and admins"),
        (OWNER, 3, ["admin"], "Only the owner and admins"),
        (OWNER, None, ["ann", "eve", "admin", "manager"], "Only the owner and admins"),
        (MANAGER, ANN.pk, ["ann", "admin", *MANAGERS], "Only the owner.*users.manage"),
        (MANAGER, 3, ["admin", *MANAGERS], "Only the owner.*users.manage"),
        (MANAGER, None, ["ann", "eve", "admin", *MANAGERS], "Only the owner.*users.manage"),
        (ADMIN, None, ["admin"], "role admin"),
        ("keys.view_all", None, ["admin", "ann's key"], "the permission keys.view_all"),
        ("keys.view_all", ANN.pk, ["admin", "ann's key"], "the permission keys.view_all"),
    ],
)
def test_who_is_let_in_and_what_the_others_are_told(who, owner_id, let_in, told):
    for name, caller in CALLERS.items():
        if name in let_in:
            require_access(caller, who, owner_id=owner_id)
        else:
            with pytest.raises(PermissionDenied, match=told):
                require_access(caller, who, owner_id=owner_id)
    if who not in (ANYBODY, HOLDER):
        with pytest.raises(AuthenticationFailed):
            require_access(None, who, owner_id=owner_id)


def test_every_route_is_in_the_table():
    assert check_routes() == []


def test_the_table_names_only_features_that_exist():
    named = {
        one for operations in TABLE.values() for who in operations.values() for one in re.split(f"{OR}|{AND}", who)
    }
    assert named - {ANYBODY, HOLDER, USER, LOGIN, OWNER, MANAGER, ADMIN, *DELEGATED} <= set(FEATURES)
    others = {route.who for route in routes() if not route.resource}
    assert others <= {ANYBODY, ADMIN, LOGIN, MONITORING, DIRECTORY, *FEATURES}


class Forgotten(ApiViewSet):
    resource_name = "forgotten"

    def list(self, request):
        return Response()


class Paths:
    urlpatterns = [*resource(Forgotten, item=False), re_path("^hidden$", lambda request: None, name="hidden")]


def test_a_route_that_the_table_does_not_name_stops_the_start(nobody):
    with override_settings(ROOT_URLCONF=Paths):
        result = check_routes()
    assert [message.id for message in result] == ["gateway.E007"] * 2
    assert "forgotten" in result[0].msg
    assert "hidden" in result[1].msg


def test_the_documentation_prints_the_table():
    text = (Path(__file__).parents[3] / "docs/management-api.md").read_text()
    assert as_markdown(TABLE) in text


def as_markdown(table):
    """The table of access as the documentation prints it."""
    lines = ["| Resource | Operation | Who |", "|---|---|---|"]
    for name, operations in table.items():
        for operation, who in operations.items():
            lines.append(f"| {name} | {operation} | {who if who in CALLER_KINDS else f'`{who}`'} |")
    return "\n".join(lines)
