"""Fixtures of all tests: one running gateway for the end-to-end tests, and a world of its own for each."""

import gc
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.conf import settings as gateway_settings
from django.core.servers.basehttp import WSGIRequestHandler
from django.db import connection
from django.test import Client as DjangoClient
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from xdist.remote import Producer

from accounts.models import User
from gateway_project.console.loading import load_console
from gateway_project.work import runtime as gateway_of_process
from providers.models import Provider
from providers.services import create_provider
from tests.support.emptying import empty_quickly
from tests.support.fault_proxy import FaultProxy
from tests.support.hashing import QUICK_HASHERS
from tests.support.licences import Vendor
from tests.support.management import PASSWORD, Client, new_admin, new_user
from tests.support.order import SharedBrowsers, mixed
from tests.support.pace import lengthen_timeouts
from tests.support.promises import FOLDERS, figure, mark_promises, pytest_addoption, pytest_configure, suite_of
from tests.support.running import RunningGateway, Store, fresh_store
from tests.support.selection import has_no_test_for
from tests.support.static_files import find_static_files_once
from tests.support.template import begin_run, copy_template_file, end_run, template_database
from tests.support.thoroughness import QUICK, few_cases, leave_most_cases, number_of, tries_more
from tests.support.world import World

# Nothing of what is collected is garbage, and thousands of tests need not be searched for it again and again.
gc.disable()

# The same examples each time: what is found by chance belongs into a test of its own, and not into somebody else's
# change. How fast a busy machine makes them says nothing about us.
hypothesis_settings.register_profile(
    "gateway",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", number_of(100))),
)
hypothesis_settings.load_profile("gateway")

gateway_settings.PASSWORD_HASHERS = QUICK_HASHERS
# All tests come from one address; who tests this bound sets it.
gateway_settings.GATEWAY_REFUSAL_ENTRIES = 10_000
empty_quickly()
find_static_files_once()
load_console()
IS_FIRST_PROCESS = begin_run()
# It sends a head in pieces: each request on a connection that is kept would wait 40 ms for a delayed acknowledgement.
WSGIRequestHandler.disable_nagle_algorithm = True

# pytest takes hooks and fixtures from a conftest.
__all__ = ["figure", "pytest_addoption", "pytest_configure"]

# Fixtures of a server that runs: a test that uses one is end to end.
SERVERS = frozenset({"store", "gateway", "own_gateway", "live_server"})


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A database of its own for the running gateway."""
    with fresh_store(tmp_path_factory.mktemp("store")) as row:
        yield row


@pytest.fixture(scope="session")
def gateway(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """The gateway that end-to-end tests share; it runs for the whole session, in which Redis refuses it nothing."""
    with RunningGateway(store, tmp_path_factory.mktemp("gateway")) as running:
        yield running
        assert "Redis refuses" not in running.log()


@pytest.fixture
def orm(store: Store, django_db_blocker) -> Iterator[None]:
    """The ORM of this process looks at the running gateway's database."""
    with django_db_blocker.unblock(), store.used_by_orm():
        yield


@pytest.fixture
def world(gateway: RunningGateway, orm: None) -> Iterator[World]:
    """Rows, providers and a client for one test of the shared gateway."""
    with ExitStack() as resources:
        yield World(gateway, resources)


@pytest.fixture
def own_gateway(store: Store, orm: None, tmp_path: Path) -> Iterator:
    """Starts gateways of the test's own: own_gateway(GATEWAY_LOG_PAYLOAD="none") -> World."""
    with ExitStack() as resources:

        def start(**environ: str) -> World:
            running = RunningGateway(store, tmp_path, **environ)
            running.skip_checks()
            return World(resources.enter_context(running), resources)

        yield start


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A database of this process's own: a file for SQLite, where one in memory could not be pointed elsewhere."""
    name = f"test_gateway_{secrets.token_hex(5)}"
    if connection.vendor == "sqlite":
        file = tmp_path_factory.mktemp("django") / name
        copy_template_file(file)
        connection.settings_dict["TEST"]["NAME"] = str(file)
    else:
        connection.settings_dict["TEST"] |= {"NAME": name, "TEMPLATE": template_database()}


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Whether Django leaves the database as it is there: a file, which is a copy, and which pytest removes."""
    return connection.vendor == "sqlite"


@pytest.fixture
def database_proxy() -> Iterator[FaultProxy]:
    """PostgreSQL behind a proxy that can fail, for this process's connections."""
    direct = {name: connection.settings_dict[name] for name in ("HOST", "PORT")}
    with FaultProxy("postgresql://{HOST}:{PORT}".format(**direct)) as proxy:
        _connect_to({"HOST": "127.0.0.1", "PORT": str(proxy.port)})
        yield proxy
        proxy.heal()
        _connect_to(direct)


def _connect_to(address: dict[str, str]) -> None:
    connection.close()
    connection.close_pool()
    connection.settings_dict.update(address)


@pytest.fixture
def nobody(live_server, settings) -> Iterator[Client]:
    """A client of the management API without a credential, at a server in this process."""
    settings.GATEWAY_BASE_URL = live_server.url
    own = f"test-{secrets.token_hex(6)}"  # what others count in the same cache is theirs
    settings.CACHES = {name: {**cache, "KEY_PREFIX": own} for name, cache in settings.CACHES.items()}
    yield Client(live_server.url)
    gateway_of_process.stop_gateway()  # some pages start it, and its database is gone in a moment


@pytest.fixture
def admin(nobody: Client) -> Client:
    """A client of the management API that an administrator is logged in with."""
    return nobody.as_user(new_admin())


@pytest.fixture
def console(client: DjangoClient, db) -> Iterator[DjangoClient]:
    """A browser without JavaScript that an administrator is logged in with."""
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    yield client
    gateway_of_process.stop_gateway()  # as above


@pytest.fixture
def vendor(settings) -> Vendor:
    """The one whose licences are good here."""
    vendor = Vendor()
    settings.GATEWAY_LICENCE_PUBLIC_KEY = vendor.public_key
    return vendor


@pytest.fixture
def ann(db) -> User:
    """A user with the role user."""
    return new_user(username="ann")


@pytest.fixture
def as_ann(nobody: Client, ann: User) -> Client:
    """A client of the management API that Ann is logged in with."""
    return nobody.as_user(ann)


@pytest.fixture
def first_provider(db) -> Provider:
    """A provider that keys and rules can refer to."""
    return create_provider(name="first", url="https://api.example.org/v1", format_name="openai")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a file need not be loaded; None leaves it to others."""
    is_left_out = collection_path.suffix == ".py" and has_no_test_for(config.option.markexpr, collection_path)
    return is_left_out or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharedBrowsers | None:
    return SharedBrowsers(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    if IS_FIRST_PROCESS:
        end_run()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests that need PostgreSQL and Redis where there are none, and marks those that need a running server."""
    mark_promises(items)
    refuse_lost_promises(items)
    refuse_lost_tests(items)
    if QUICK:
        items[:] = few_cases(items)
    leave_most_cases(items, Path(__file__).parent)
    items[:] = mixed(items)
    lengthen_timeouts(items)
    for item in items:
        is_of_faults = suite_of(item.path) == "fault"
        if is_of_faults:
            item.add_marker("few_at_once")
        if is_of_faults or SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("end_to_end")
        if tries_more(item.function):
            item.add_marker("thorough")
    if os.environ.get("DATABASE_URL", "").startswith("postgres") and os.environ.get("REDIS_URL"):
        return
    for item in items:
        if item.get_closest_marker("servers"):
            item.add_marker(pytest.mark.skip(reason="needs DATABASE_URL of PostgreSQL and REDIS_URL"))


def refuse_lost_promises(items: list[pytest.Item]) -> None:
    """Each promise stands in one of the tables: it is in the folder of a suite, or names its suite."""
    for item in items:
        if item.get_closest_marker("promise") and not any(map(item.get_closest_marker, FOLDERS)):
            raise pytest.UsageError(f'{item.nodeid}: its promise needs suite="attack" or suite="fault"')


def refuse_lost_tests(items: list[pytest.Item]) -> None:
    """`make test` runs either_store with PostgreSQL and Redis alone, and these without: a test with both never runs."""
    for item in items:
        if item.get_closest_marker("either_store") and any(map(item.get_closest_marker, ("embedded", "browser"))):
            raise pytest.UsageError(f"{item.nodeid}: either_store excludes embedded and browser")
