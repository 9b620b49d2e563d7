"""Each write route of the management API is sent every field of its model that it does not declare."""

from collections.abc import Iterator

import pytest
from django.db import models

from accounts.models import Group, Session, User
from accounts.second_factor.models import AuthenticatorApp
from gateway_project.api.names import camel
from gateway_project.api.routes import Route, routes
from licensing.models import Licence
from providers.models import Model, Provider, ProviderCredential
from tests.support import shown_rows
from tests.support.management import Client, body, new_user
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

WRITES = {"post", "put", "patch", "delete"}
# The models of resources whose rows are not those of one queryset.
MODELS: dict[str, type[models.Model]] = {
    "auth": Session, "second-factor": AuthenticatorApp, "members": User, "models": Model, "licence": Licence,
    "credentials": ProviderCredential,
}  # fmt: skip
PARENTS: dict[str, type[models.Model]] = {"group_id": Group, "provider_id": Provider, "user_id": User}
ROWS = ("update", "destroy")  # operations on the row that a path or the query names
NOT_IN_BODIES = {"cache"}  # the query selects the rows: a body with anything in it is refused as a whole
UNKNOWN = "noSuchAttribute"


def write_routes() -> Iterator[Route]:
    for route in routes():
        if route.resource and route.method in WRITES:
            yield route


def model_of(route: Route) -> type[models.Model]:
    return MODELS[route.resource] if route.view.queryset is None else route.view.queryset.model


def path_of(route: Route) -> str:
    """The route with the ids of rows that exist."""
    row = model_of(route)._default_manager.order_by("-pk").first()
    ids = {name: parent._default_manager.order_by("-pk").first().pk for name, parent in PARENTS.items()}
    if route.resource in ("models", "credentials") and row is not None:
        ids["provider_id"] = row.provider_id
    path = route.path.format(**ids | {"id": row and row.pk})
    return path if row is None or "{id}" in route.path or route.operation not in ROWS else f"{path}?id={row.pk}"


def declared(route: Route) -> set[str]:
    """The attributes that the operation accepts; of an update also those that it compares, and `id`."""
    kind = getattr(route.view, f"{route.operation}_attributes", None)
    names = {name for name, field in kind().fields.items() if not field.read_only} if kind else set()
    return names | readable(route) | (set() if route.operation == "create" else {"id"})


def readable(route: Route) -> set[str]:
    """What clients may send back with an update as they have read it, and unchanged."""
    return set(route.view.row_serializer().fields) if route.operation == "update" else set()


def fields_of(model: type[models.Model]) -> set[str]:
    return {name for field in model._meta.get_fields() for name in (field.name, getattr(field, "attname", field.name))}


def stored(model: type[models.Model]) -> list[dict[str, object]]:
    """The rows, but for the time of the last change: an update without a change is one, too."""
    names = [field.attname for field in model._meta.concrete_fields if field.name != "updated_at"]
    return list(model._default_manager.order_by("pk").values(*names))


@pytest.fixture
def rows(admin: Client) -> None:
    shown_rows.fill(new_user())


@promise("V-L12, S5: only listed attributes can be written", target="400, nothing changed")
def test_no_write_route_takes_what_it_does_not_declare(admin, rows, figure):
    tried, names_sent = 0, 0
    for route in write_routes():
        model, path, name = model_of(route), path_of(route), f"{route.method} {route.path}"
        before, wrong = stored(model), fields_of(model) - declared(route)
        for attributes in ({camel(one) for one in wrong} | {UNKNOWN}, {f"{one}_" for one in wrong} | {"is_admin"}):
            response = admin.send(route.method, path, json=body(**dict.fromkeys(attributes, 1)))
            assert response.status_code == 400, f"{name}: {response.status_code} {response.text[:300]}"
            names_sent += len(attributes)
            if UNKNOWN in attributes and route.resource not in NOT_IN_BODIES:
                missing = [one for one in attributes if one not in response.json()["message"]]
                assert missing == [], f"{name} takes {missing}"
        assert stored(model) == before, name
        tried += 1
    assert tried > 80
    figure(f"{tried} routes, {names_sent} attributes")


@promise("V-L12, S5: an attribute that is shown and not declared is not changed", target="400, nothing changed")
def test_no_update_changes_what_is_only_shown(admin, rows, figure):
    """What is computed for lists may be passed over, and what a row holds is refused with another value."""
    tried = 0
    for route in (one for one in write_routes() if one.operation == "update"):
        shown = readable(route) - set(route.view.update_attributes().fields) - {"id"}
        model, path = model_of(route), path_of(route)
        before = stored(model)
        for name in (one for one in shown if camel(one) not in route.view.volatile):
            response = admin.send(route.method, path, json=body(**{camel(name): "no such value"}))
            statuses = {400} if name in fields_of(model) else {200, 400}
            assert response.status_code in statuses, f"{route.method} {path} {name}: {response.text[:300]}"
            assert stored(model) == before, f"{path} {name}"
            tried += 1
    assert tried > 20
    figure(f"{tried} attributes")
