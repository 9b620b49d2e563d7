"""Every route of the URLconf, asked by every kind of caller from another machine: what is not granted is refused."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
import requests
from django.test import override_settings
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from accounts import services as accounts
from accounts.builtin import FEATURES, ROLES
from accounts.models import Session, User
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.services import create_trusted_issuer
from gateway_project.api.access import (
    ADMIN,
    ANYBODY,
    DELEGATED,
    DIRECTORY,
    HOLDER,
    LOGIN,
    MANAGER,
    MONITORING,
    OWNER,
    USER,
    WORK,
    is_granted,
)
from gateway_project.api.routes import Route, routes
from keys.models import ApiKey
from keys.services import IssuedKey, delete_keys, issue_key, update_key
from tests.support.issuers import AUDIENCE, SUBJECT, IssuerServer
from tests.support.management import PASSWORD, new_admin, new_user, token_of
from tests.support.promises import promise
from tests.support.running import RunningGateway, Store
from tests.support.thoroughness import first_of, quarter_of
from tests.support.world import World

pytestmark = pytest.mark.either_store

# Ids that nothing has: who is let through finds nothing and changes nothing.
MISSING = "999999"
ELSEWHERE = {"X-Forwarded-For": "203.0.113.9"}
# Reviewed: all that anybody on the network may ask.
OPEN = {"get /version/", "get /healthz", "get /readyz", "get /schema", "get /docs", "post /auth/login"}
SIGN_ON = "/auth/sso/{slug}"
OPEN |= {f"get {SIGN_ON}", f"get {SIGN_ON}/callback", f"post {SIGN_ON}/backchannel-logout"}
LET_THROUGH = {200, 400, 404}
SCIM_TOKEN = "a-token-of-the-directory-0123456789abcdef"
STRANGER_TO_SCIM = {401, 429}  # 429: wrong tokens are counted


@pytest.fixture(scope="module")
def behind_proxy(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that believes this machine which client it speaks for: so the tests can come from elsewhere."""
    directory = tmp_path_factory.mktemp("matrix")
    with RunningGateway(
        store, directory, GATEWAY_TRUSTED_PROXIES="127.0.0.1", GATEWAY_SCIM_TOKEN=SCIM_TOKEN
    ) as running:
        yield running


@pytest.fixture
def world(behind_proxy: RunningGateway, orm: None) -> Iterator[World]:
    """With a rule for everything: who is refused is refused for who they are."""
    with ExitStack() as resources:
        world = World(behind_proxy, resources)
        world.allow(everyone="user")
        yield world


def granted_to(*features: str) -> set[str]:
    return {ANYBODY, HOLDER, USER, LOGIN, OWNER, MANAGER, *features}


def group_admin(world: World) -> User:
    user = new_user()
    accounts.add_member(world.new_group(), user_id=user.pk, is_admin=True)
    return user


def key_of_group_admin(world: World) -> str:
    return issue_key(owner=group_admin(world), name=world.name("key"), permissions=["work", "models.create"]).text


LIVE: dict[str, tuple[Callable[[World], str], set[str]]] = {
    "key for work": (lambda world: world.key, {ANYBODY, WORK}),
    "key with every feature": (
        lambda world: key_of_admin(world).text,
        {ANYBODY, USER, MANAGER, *FEATURES},
    ),
    "key that manages users": (
        lambda world: key_of_admin(world, ["users.manage"]).text,
        {ANYBODY, USER, MANAGER, "users.manage"},
    ),
    "key that manages providers": (
        lambda world: key_of_admin(world, ["providers.modify", "licence.manage"]).text,
        {ANYBODY, USER, "providers.modify", "licence.manage"},
    ),
    "user": (lambda world: token_of(new_user()), granted_to(*ROLES["user"])),
    "user without a role": (lambda world: token_of(new_user(roles=[])), granted_to()),
    "group member": (lambda world: token_of(member(world)), granted_to(*ROLES["user"])),
    "admin of a group": (lambda world: token_of(group_admin(world)), granted_to(*ROLES["user"])),
    "key of an admin of a group": (key_of_group_admin, {ANYBODY, USER, *ROLES["user"]}),
    "admin": (lambda world: token_of(new_admin()), granted_to(ADMIN, *FEATURES)),
}


def member(world: World) -> User:
    user = new_user()
    world.new_group(user)
    return user


def key_of_admin(world: World, permissions: Sequence[str] = FEATURES) -> IssuedKey:
    return issue_key(owner=new_admin(), name=world.name("key"), permissions=permissions)


def after(change: Callable[[ApiKey], object]) -> Callable[[World], str]:
    """An admin's key with every feature, which this has happened to."""

    def credential(world: World) -> str:
        issued = key_of_admin(world)
        change(issued.key)
        return issued.text

    return credential


def token_after(change: Callable[[User], object]) -> Callable[[World], str]:
    """An admin's access token, whose owner this has happened to."""

    def credential(world: World) -> str:
        owner = new_admin()
        token = token_of(owner)
        change(owner)
        return token

    return credential


def expired_token(world: World) -> str:
    with override_settings(GATEWAY_ACCESS_TOKEN_SECONDS=-60):
        return token_of(new_admin())


DEAD: dict[str, Callable[[World], str | None]] = {
    "anonymous": lambda world: None,
    "nonsense": lambda world: "nonsense",
    "expired key": after(lambda key: ApiKey.objects.filter(pk=key.pk).update(expiry=timezone.now())),
    "locked key": after(lambda key: update_key(key, locked=True)),
    "deleted key": after(lambda key: delete_keys([key])),
    "key of a deactivated user": after(lambda key: accounts.update_user(key.owner, is_active=False)),
    "key of a deleted user": after(lambda key: accounts.delete_user(key.owner)),
    "expired token": expired_token,
    "ended session": token_after(lambda user: Session.objects.filter(user=user).delete()),
    "token of a deactivated user": token_after(lambda user: accounts.update_user(user, is_active=False)),
    "token of a deleted user": token_after(accounts.delete_user),
}


def paths() -> Iterator[tuple[Route, str]]:
    for route in routes():
        if route.name not in ("admin", "me"):  # sites, which have tests of their own
            yield route, re.sub(r"\{\w+\}", MISSING, route.path)


def status(world: World, method: str, path: str, credential: str | None) -> int:
    headers = ELSEWHERE | ({"Authorization": f"Bearer {credential}"} if credential else {})
    body = {} if method == "get" else {"data": b"{}", "headers": headers | {"Content-Type": "application/json"}}
    response = world.session.request(
        method, world.gateway.url + path, **{"headers": headers, "allow_redirects": False, "timeout": 30} | body
    )
    return response.status_code


def mismatches(world: World, credential: str | None, expected: Callable[[Route], set[int]]) -> list[str]:
    world.settle()
    wrong, tried = [], 0
    for route, path in paths():
        answer = status(world, route.method, path, credential)
        tried += 1
        if answer not in expected(route):
            wrong.append(f"{route.method} {path} ({route.who}): {answer}, not one of {expected(route)}")
    assert tried > 80
    return wrong


@promise(
    "V-L6, V-L18: every route refuses whoever it is not granted to", target="default deny, each route by each caller"
)
@pytest.mark.parametrize("kind", quarter_of(*LIVE))
def test_a_live_credential_opens_what_it_is_granted(world, kind, figure):
    credential, granted = LIVE[kind]
    is_login = not kind.startswith("key")

    def expected(route: Route) -> set[int]:
        if route.who == HOLDER:
            return LET_THROUGH if is_login else {401}
        if route.who == MONITORING:
            return {401}
        if route.who == DIRECTORY:
            return STRANGER_TO_SCIM
        who = DELEGATED.get(route.who, route.who)
        if kind == "admin of a group" and route.who in DELEGATED:
            return {*LET_THROUGH, 403}  # 403 for what is not the group's
        # Whose the missing thing is cannot be known: an owner's operation is refused, or finds nothing.
        if not is_granted(str(who), granted):
            return {403}
        return {*LET_THROUGH, *({403} if route.who in (OWNER, MANAGER) else ())}

    assert mismatches(world, credential(world), expected) == []
    figure(f"{len(list(paths()))} routes, {len(LIVE) + len(DEAD)} kinds of callers")


@promise(
    "V-L6, V-L18: every route refuses whoever it is not granted to", target="default deny, each route by each caller"
)
@promise("V-M3, V-L18, V-LF1: without a live credential only the listed routes answer", target="401 on all others")
@pytest.mark.parametrize("kind", quarter_of(*DEAD))
def test_a_dead_credential_opens_nothing(world, kind):
    def expected(route: Route) -> set[int]:
        if route.who == HOLDER:
            return {400, 401}
        if route.who == DIRECTORY:
            return STRANGER_TO_SCIM
        return LET_THROUGH if f"{route.method} {route.path}" in OPEN else {401}

    assert mismatches(world, DEAD[kind](world), expected) == []


@promise(
    "V-L6, V-L18: every route refuses whoever it is not granted to", target="default deny, each route by each caller"
)
def test_the_token_of_the_directory_opens_scim_alone(world):
    def expected(route: Route) -> set[int]:
        if route.who == DIRECTORY:
            return {200, 400, 404, 501}
        if route.who == HOLDER:
            return {400, 401}
        return LET_THROUGH if f"{route.method} {route.path}" in OPEN else {401}

    assert mismatches(world, SCIM_TOKEN, expected) == []


@promise("V-M1, V-L15: every route of the URLconf is in the reviewed table", target="0 routes without an entry")
def test_the_open_routes_are_those_of_the_review():
    assert {f"{route.method} {route.path}" for route in routes() if route.who == ANYBODY} == OPEN
    assert [route for route in routes() if route.who is None] == []


@pytest.fixture
def token_of_issuer(world: World) -> Iterator[str]:
    """A token of a trusted issuer that stands for an admin, and that /work accepts."""
    with IssuerServer() as server:
        owner = new_admin()
        row = create_trusted_issuer(
            name=world.name("issuer"), issuer=server.url, audience=AUDIENCE, subjects={SUBJECT: owner.username}
        )
        world.until(lambda: list(TrustedIssuer.objects.get(pk=row.pk).key_ids) != [], seconds=10)
        yield server.token()
        row.delete()


@promise(
    "V-L6, V-L18: every route refuses whoever it is not granted to", target="default deny, each route by each caller"
)
def test_a_token_of_a_trusted_issuer_opens_work_alone(world, token_of_issuer):
    """Also one of an admin: the management API needs a login of the gateway, or a key."""
    opens_work_alone(world, token_of_issuer)


@promise(
    "V-L6, V-L18: every route refuses whoever it is not granted to", target="default deny, each route by each caller"
)
def test_an_access_token_that_names_a_key_opens_work_alone(world):
    owner = new_admin()
    key = issue_key(owner=owner, name="key", permissions=FEATURES).key
    opens_work_alone(world, token_of(owner, key.public_id))


def opens_work_alone(world: World, token: str) -> None:
    def expected(route: Route) -> set[int]:
        if route.who in (WORK, HOLDER):
            return LET_THROUGH if route.who == WORK else {400, 401}
        if route.who == DIRECTORY:
            return STRANGER_TO_SCIM
        return LET_THROUGH if f"{route.method} {route.path}" in OPEN else {401}

    provider = world.provider()
    assert world.ask(key=token).status_code == 200
    assert len(provider.seen) == 1
    assert mismatches(world, token, expected) == []


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "QUERY")


@promise("No method that a route does not declare does anything", target="401, 404 or 405 without a credential")
def test_other_methods_are_refused(world, figure):
    declared = {(route.method.upper(), path) for route, path in paths()}
    tried = 0
    for path in sorted({path for _, path in paths()}):
        for method in METHODS:
            if (method, path) in declared or (method == "HEAD" and ("GET", path) in declared):
                continue
            tried += 1
            assert status(world, method, path, None) in (400, 401, 404, 405, 501), f"{method} {path}"
            overridden = {"X-HTTP-Method-Override": method, "X-Method-Override": method, **ELSEWHERE}
            response = requests.post(f"{world.gateway.url}{path}?_method={method}", headers=overridden, timeout=30)
            assert response.status_code in (400, 401, 404, 405, 415), f"override {method} {path}"
    figure(f"{tried} methods and paths")


@promise("V-L16: another spelling of a path opens nothing", target="401 or 404 for each spelling")
@pytest.mark.parametrize(
    "path",
    ["//users/", "/users//", "/./users/", "/version/../users/", "/%75sers/", "/users%2f", "/users/%2e%2e/users/",
     "/version/%2e%2e/users/", "/users;a=b/", "/users/;/", "/USERS/", "/users/%00", "/users/?/version/", "/users/%20",
     "/version/..;/users/", "/\\users/", "/users\\..\\version", "/users/%252e%252e/version", "/admin/../users/",
     "/version/?x=/users/&/../users/", "http://gateway/users/", "/healthz/../users/", "/healthz/%2e%2e/users/"],
)  # fmt: skip
def test_another_spelling_of_a_path_opens_nothing(world, path):
    target = f"GET {path} HTTP/1.1\r\nHost: gateway\r\nX-Forwarded-For: 203.0.113.9\r\nConnection: close\r\n\r\n"
    response = world.raw(target.encode())
    if path.startswith("/version/?"):
        assert "userName" not in response.text
    else:
        assert response.status in (400, 401, 404), response.text


@promise("V-L16: a header Host changes nothing", target="the same answer, or 400")
@pytest.mark.parametrize(
    "host", ["evil.example", "gateway/?", "gateway/version", "gateway@evil", "gateway:80:90", "a b", "", "[::1", "..",
             "gateway\\x", "127.0.0.1/version?", "gateway#", "\x7f"]
)  # fmt: skip
@pytest.mark.parametrize("path", ["/users/", "/metrics", "/v1/models", "/admin/"])
def test_a_host_opens_nothing(world, host, path):
    lines = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: 203.0.113.9\r\nConnection: close\r\n\r\n"
    response = world.raw(lines.encode("latin-1"))
    assert response.status in (302, 400, 401), response.text
    if response.status == 302:
        assert response.headers["Location"].startswith("/admin/login/")


def console_paths(patterns: list | None = None, prefix: str = "") -> Iterator[str]:
    """Every path of the console, with ids that nothing has."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        whole = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from console_paths(pattern.url_patterns, whole)
        elif isinstance(pattern, URLPattern) and whole.startswith("^admin/"):
            yield "/" + re.sub(r"<\w+:kind>", "csv", re.sub(r"<(\w+:)?\w+>", MISSING, whole.removeprefix("^")))


@promise("Every page of the console refuses whoever is no admin with a login there", target="302 to the login, or 404")
@pytest.mark.parametrize("caller", first_of("user signed in", "nobody", "admin's access token", "admin's key"))
def test_no_page_of_the_console_opens(world, caller, figure):
    session = requests.Session()
    session.headers.update(ELSEWHERE)
    if caller == "admin's access token":
        session.headers["Authorization"] = f"Bearer {token_of(new_admin())}"
    elif caller == "admin's key":
        session.headers["Authorization"] = f"Bearer {key_of_admin(world).text}"
    elif caller == "user signed in":
        page = f"{world.gateway.url}/admin/login/"
        session.get(page, timeout=30)
        form = {"csrfmiddlewaretoken": session.cookies["csrftoken"], "password": PASSWORD}
        user = new_user()
        assert session.post(page, data=form | {"username": user.username}, timeout=30).status_code == 200
        session.cookies.update({"SvcUserCookie": token_of(user)})
    tried = 0
    for path in console_paths():
        if path.startswith(("/admin/login", "/admin/logout", "/admin/jsi18n")) or "(" in path:
            continue
        for method in ("GET", "POST"):
            response = session.request(method, world.gateway.url + path, allow_redirects=False, timeout=30)
            assert response.status_code in (302, 403, 404), f"{method} {path}: {response.status_code}"
            if response.status_code == 302:
                assert response.headers["Location"].startswith(("/admin/login/", "/admin/")), path
        tried += 1
    assert tried > 80
    figure(f"{tried} pages")
