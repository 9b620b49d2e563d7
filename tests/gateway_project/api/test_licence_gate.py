"""Under an expired or invalid licence every route but the named ones is refused, whoever asks."""

import re

import pytest
import requests
from django.urls import get_resolver, reverse

from gateway_project.api.access import ANYBODY, TABLE, WITHOUT_LICENCE
from gateway_project.api.routes import routes
from gateway_project.console.site import LICENCE_FREE_PAGES
from licensing.services import install_licence
from tests.gateway_project.api.test_access import EMPTY, MISSING
from tests.support.licences import Vendor, in_days
from tests.support.management import PASSWORD, new_admin, new_user, refused

pytestmark = pytest.mark.either_store

PARAMETER = re.compile(r"\{\w+\}")


@pytest.fixture(params=["expired", "invalid"])
def bad_licence(request, admin, vendor, settings):
    """A licence that was good, and is not any more."""
    install_licence(vendor.licence(expiry=in_days(-1 if request.param == "expired" else 100)))
    if request.param == "invalid":
        settings.GATEWAY_LICENCE_PUBLIC_KEY = Vendor().public_key


def answers(client):
    """The response to each route of the management API, with nothing to find and nothing to change."""
    for route in routes():
        if route.resource:
            path = PARAMETER.sub(MISSING, route.path)
            request = {} if route.method == "get" else {"data": EMPTY}
            yield route, client.send(route.method.upper(), path, **request)


def test_every_route_but_the_named_ones_is_refused(admin, bad_licence):
    observations = set()
    for route, response in answers(admin):
        observations.add(route.resource)
        if route.resource in WITHOUT_LICENCE:
            assert response.json().get("exception") != "LicenceInvalid", route
        else:
            refused(response, 403, "LicenceInvalid", "/licence/")
    assert observations - WITHOUT_LICENCE >= {
        "users",
        "roles",
        "groups",
        "providers",
        "models",
        "formats",
        "keys",
        "logs",
    }


def test_the_routes_that_go_on_are_these():
    assert {"access-tests", "auth", "licence", "rules", "versions", "lint", "version"} == WITHOUT_LICENCE
    assert TABLE.keys() >= WITHOUT_LICENCE


def test_the_credential_and_the_permission_are_judged_first(nobody, bad_licence):
    for route, response in answers(nobody):
        if route.who != ANYBODY and route.resource != "auth":
            assert response.status_code == 401, route
    refused(nobody.as_user(new_user()).get("/users/"), 403, "PermissionDenied")
    refused(nobody.as_user(new_user()).get("/roles/"), 403, "LicenceInvalid")


def test_health_and_version_are_told(nobody, bad_licence):
    assert nobody.get("/healthz").status_code == 200
    assert nobody.get("/version/").status_code == 200


def test_an_admin_repairs_it(admin, vendor, bad_licence, settings):
    settings.GATEWAY_LICENCE_PUBLIC_KEY = vendor.public_key
    refused(admin.post("/licence/", licenceKey="nonsense"), 400, "ValidationError")
    assert admin.post("/licence/", licenceKey=vendor.licence()).status_code == 200
    assert admin.get("/users/").status_code == 200


def test_without_a_licence_everything_is_served(admin):
    assert {response.status_code for _, response in answers(admin)} <= {200, 400, 404}


@pytest.fixture
def console(nobody) -> requests.Session:
    """A browser that an admin is signed in with at the console."""
    user = new_admin()
    session = requests.Session()
    session.base = nobody.base
    session.get(f"{nobody.base}/admin/login/")
    form = {"username": user.username, "password": PASSWORD, "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    assert session.post(f"{nobody.base}/admin/login/", data=form, allow_redirects=False).status_code == 302
    return session


def console_pages() -> dict[str, str]:
    """The address of each page of the console that takes no parameter, by its name."""
    patterns = get_resolver().namespace_dict["admin"][1].reverse_dict
    names = [name for name in patterns if isinstance(name, str)]
    return {name: reverse(f"admin:{name}") for name in names if not patterns.getlist(name)[0][0][0][1]}


def test_the_console_shows_the_way_in_and_out_and_what_puts_it_right(console, bad_licence):
    pages = console_pages()
    assert "accounts_user_changelist" in pages
    for name, address in pages.items():
        if not name.startswith(("log", "password_change")):
            response = console.get(console.base + address)
            refusal = response.status_code == 403 and "/licence/" in response.text
            assert refusal != name.startswith(LICENCE_FREE_PAGES), (name, response.status_code)


def test_a_rule_for_somebody_can_be_made_in_the_console(console, bad_licence):
    values = {"app_label": "rules", "model_name": "rule", "term": ""}
    for field in ("user", "group", "provider"):
        answer = console.get(f"{console.base}/admin/autocomplete/", params={**values, "field_name": field})
        assert "results" in answer.json(), field
    others = {"app_label": "keys", "model_name": "apikey", "field_name": "owner", "term": ""}
    assert console.get(f"{console.base}/admin/autocomplete/", params=others).status_code == 403


def test_the_console_asks_who_it_is_first(nobody, bad_licence):
    response = requests.get(f"{nobody.base}/admin/accounts/user/", allow_redirects=False, timeout=10)
    assert (response.status_code, response.headers["Location"].partition("?")[0]) == (302, "/admin/login/")


def test_under_a_good_licence_the_console_shows_everything(console, vendor):
    install_licence(vendor.licence())
    assert console.get(f"{console.base}/admin/accounts/user/").status_code == 200
