"""Work under a licence: served while it is good, refused within a second once it is not."""

from contextlib import ExitStack

import pytest

from gateway_project.api.access import WORK
from gateway_project.api.routes import routes
from licensing.models import Licence
from licensing.services import install_licence
from telemetry.models import LogEntry
from tests.support.licences import Vendor, in_days
from tests.support.management import Client, new_admin, refused
from tests.support.running import RunningGateway, fresh_store
from tests.support.world import World

pytestmark = [pytest.mark.long, pytest.mark.either_store]

VENDOR = Vendor()


@pytest.fixture(scope="module")
def licensed(tmp_path_factory):
    """A gateway with a store of its own: the licence is one for all that share a store."""
    with fresh_store(tmp_path_factory.mktemp("store")) as store:
        environ = {"GATEWAY_LICENCE_PUBLIC_KEY": VENDOR.public_key}
        with RunningGateway(store, tmp_path_factory.mktemp("gateway"), **environ) as running:
            yield running


@pytest.fixture
def world(licensed, settings, django_db_blocker):
    settings.GATEWAY_LICENCE_PUBLIC_KEY = VENDOR.public_key
    with django_db_blocker.unblock(), licensed.store.used_by_orm(), ExitStack() as resources:
        world = World(licensed, resources)
        yield world
        Licence.objects.all().delete()
        world.settle()


@pytest.fixture
def served(world):
    """Work is served as things stand."""
    world.allow()
    world.provider()
    assert world.ask().status_code == 200


def test_work_is_refused_within_a_second_and_served_again(world, served):
    install_licence(VENDOR.licence())
    world.soon(world.ask, 200)
    install_licence(VENDOR.licence(expiry=in_days(-1)))
    refused(world.soon(world.ask, 403), 403, "LicenceInvalid", "expired", "/licence/")
    install_licence(VENDOR.licence())
    world.soon(world.ask, 200)


def test_a_licence_that_this_gateway_cannot_verify_is_invalid(world, served):
    install_licence(VENDOR.licence())
    Licence.objects.update(key=Vendor().licence())
    refused(world.soon(world.ask, 403), 403, "LicenceInvalid", "invalid")


def test_an_admin_repairs_it_through_the_api(world, served):
    install_licence(VENDOR.licence(expiry=in_days(-1)))
    world.soon(world.ask, 403)
    admin = Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))
    refused(admin.get("/users/"), 403, "LicenceInvalid")
    assert admin.post("/licence/", licenceKey=VENDOR.licence()).status_code == 200
    world.soon(world.ask, 200)
    assert admin.get("/users/").status_code == 200


def test_the_credential_is_judged_first(world, served):
    install_licence(VENDOR.licence(expiry=in_days(-1)))
    world.soon(world.ask, 403)
    refused(world.ask(key="svc_nonsense"), 401, "AuthenticationFailed")
    key = world.new_key(permissions=["models.create"]).text
    refused(world.ask(key=key), 403, "PermissionDenied")
    refused(world.post(b"{", key=world.key), 403, "LicenceInvalid")


def test_every_route_that_serves_work_is_refused(world, served):
    install_licence(VENDOR.licence(expiry=in_days(-1)))
    world.soon(world.ask, 403)
    # Under v1 there is nothing else; of the console tests/gateway_project/api/test_licence_gate.py tells.
    others = [route for route in routes() if not route.resource and route.name not in ("v1", "admin")]
    assert {route.name for route in others} >= {"work", "healthz", "readyz"}
    for route in others:
        response = answer_of(world, route)
        refusal = response.status_code == 403 and "licence" in response.text
        assert refusal == (route.who == WORK), (route.path, response.status_code)


def answer_of(world, route):
    """What a route answers to the world's key, with its own method, or with the one of two that it has."""
    path = route.path.partition("(")[0]  # where a pattern goes on, there is nothing to find
    url, headers = world.gateway.url + path, {"Authorization": f"Bearer {world.key}"}
    for method in [route.method.upper()] if route.method else ["GET", "POST"]:
        response = world.session.request(method, url, json={"model": world.model}, headers=headers, timeout=30)
        if response.status_code != 405:
            break
    return response


def test_a_refused_request_is_in_the_log(world, served):
    install_licence(VENDOR.licence(expiry=in_days(-1)))
    entry = world.entry(world.soon(world.ask, 403))
    assert (entry.status, entry.exception, entry.outcome) == (403, "LicenceInvalid", "denied")
    assert entry.user_id == world.user.pk


def test_the_log_warns_ahead_of_the_expiry(world, served):
    install_licence(VENDOR.licence(expiry=in_days(7)))
    warnings = LogEntry.objects.filter(
        entry_type="Message", severity="warning", message__startswith="The licence expires"
    )
    world.until(warnings.exists, 30)
    assert warnings.count() == 1
    assert world.ask().status_code == 200
