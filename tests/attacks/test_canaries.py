"""Secrets with unique values, used and misused, and then searched for wherever the gateway writes or answers."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
import redis
import requests
from django.apps import apps
from django.core import serializers
from django.db import connection

from gateway_project import settings as settings_module
from tests.console.conftest import Visitor
from tests.console.test_hostile import paths
from tests.support import shown_rows
from tests.support.canaries import (
    SECRETS,
    Artefacts,
    answers_into,
    use_keys,
    use_licence,
    use_logins,
    use_metrics,
    use_providers,
    use_scim,
    use_second_factor,
    use_single_sign_on,
)
from tests.support.licences import Vendor
from tests.support.management import new_admin
from tests.support.promises import promise
from tests.support.running import RunningGateway, Store, free_port, fresh_store
from tests.support.servers import own_redis
from tests.support.shown_rows import latest_rows, own_paths
from tests.support.thoroughness import first_of
from tests.support.world import World

pytestmark = [pytest.mark.timeout(240), pytest.mark.either_store]

# The settings that hold secrets, by their variables, and which of the secrets each has here.
VARIABLES = {
    "SECRET_KEY": "signing secret",
    "SECRET_KEY_FALLBACKS": "former signing secret",
    "GATEWAY_TOKEN_KEY": "token key",
    "GATEWAY_TOKEN_KEY_FALLBACKS": "former token key",
    "GATEWAY_ENCRYPTION_KEYS": "encryption key",
    "GATEWAY_SCIM_TOKEN": "SCIM token",
    "GATEWAY_OIDC_CLIENT_SECRET": "client secret of the settings",
    "GATEWAY_METRICS_TOKEN": "metrics token",
}
# Named alike, and nothing secret.
NO_SECRETS = {
    "AUTH_PASSWORD_VALIDATORS", "GATEWAY_LICENCE_PUBLIC_KEY", "GATEWAY_PASSWORD_LOGIN", "PASSWORD_HASHERS",
}  # fmt: skip


@pytest.fixture(params=first_of("full", "none"))
def payload(request) -> str:
    """How much of requests and answers the log keeps."""
    return request.param


@pytest.fixture
def stage(payload, tmp_path, django_db_blocker, settings) -> Iterator[tuple[World, redis.Redis | None, Vendor]]:
    """A gateway whose every secret is a canary; with PostgreSQL and Redis it has passwords for these, too."""
    with ExitStack() as resources:
        vendor = Vendor()
        # This process writes rows and tokens for the gateway.
        settings.SECRET_KEY, settings.GATEWAY_TOKEN_KEY = SECRETS["signing secret"], SECRETS["token key"]
        settings.GATEWAY_ENCRYPTION_KEYS = [SECRETS["encryption key"], SECRETS["former encryption key"]]
        resources.enter_context(django_db_blocker.unblock())
        store = resources.enter_context(fresh_store(tmp_path))
        resources.enter_context(store.used_by_orm())
        client = with_redis_password(store, resources) if store.redis_url else None
        secrets = {variable: SECRETS[name] for variable, name in VARIABLES.items()}
        environ = secrets | {
            "GATEWAY_ENCRYPTION_KEYS": ",".join(settings.GATEWAY_ENCRYPTION_KEYS),
            "GATEWAY_OIDC_ISSUER": f"http://127.0.0.1:{free_port()}",
            "GATEWAY_OIDC_CLIENT_ID": "gateway",
            "GATEWAY_LICENCE_PUBLIC_KEY": vendor.public_key,
            "GATEWAY_LOG_PAYLOAD": payload,
            "GATEWAY_LOG_LEVEL": "DEBUG",
            "DATABASE_URL": with_database_password(store.database_url),
        }
        running = resources.enter_context(RunningGateway(store, tmp_path, **environ))
        yield World(running, resources), client, vendor


def with_redis_password(store: Store, resources: ExitStack) -> redis.Redis:
    server = resources.enter_context(own_redis())
    server.client().config_set("requirepass", SECRETS["redis password"])
    store.redis_url = server.url.replace("redis://", f"redis://:{SECRETS['redis password']}@")
    return redis.Redis.from_url(store.redis_url)


def with_database_password(url: str) -> str:
    """The same server, which trusts this machine, asked with a password."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return url
    name = f"{parts.username or ''}:{SECRETS['database password']}@{parts.netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=name))


def test_each_setting_that_is_named_like_a_secret_has_a_canary():
    names = {name for name in dir(settings_module) if re.search("SECRET|KEY|TOKEN|PASSWORD|CREDENTIAL", name)}
    public = {name for name in names if not name.startswith("_") and name.isupper()}
    texts = {name for name in public if not isinstance(getattr(settings_module, name), int | float | dict)}
    assert texts - NO_SECRETS == set(VARIABLES)


@promise("No secret is found in database, logs, journal, Redis, metrics, answers, pages or exports", target="0 hits")
def test_no_secret_is_found_anywhere(stage, payload, figure):
    world, server, vendor = stage
    artefacts, secrets = Artefacts(), dict(SECRETS)
    record = answers_into(artefacts)
    use_providers(world, record)
    secrets |= use_logins(world, record)
    secrets |= use_keys(world, record)
    secrets["licence"] = use_licence(world, vendor, record)
    use_metrics(world, record)
    use_scim(world, record)
    secrets |= use_second_factor(world, record)
    use_single_sign_on(world, record)
    own_pages = own_pages_of(world)
    look_at_console(world, artefacts, secrets)
    world.until(lambda: world.entries(message__icontains="refused") > 0 or world.entries() > 10)
    own_pages(artefacts)
    collect(world, server, artefacts)
    if server is not None:
        lose_redis(world, server, record)
        artefacts.add("log", world.gateway.log())
    found = {name: places for name, secret in secrets.items() if (places := artefacts.places_of(secret))}
    # The licence is signed, not secret from the database: it is checked there at every start.
    assert found.pop("licence", set()) <= {"database licensing.licence", "database file"}
    # Providers repeat the prompt, and the client gets their answer; a log of all content keeps it, as it should.
    prompt_places = found.pop("prompt", set())
    if payload == "none":
        assert {place.partition(",")[0] for place in prompt_places} <= {"answer 200"}
    else:
        assert "database telemetry.logentry" in prompt_places
    assert found == {}
    figure(f"{len(secrets)} secrets, {len(artefacts.parts)} places, {sum(len(c) for _, c in artefacts.parts):,} bytes")


def own_pages_of(world: World) -> Callable[[Artefacts], None]:
    """Log the world's user in at /me/, before rows give them a second factor; the rest looks at every page there."""
    session, url = requests.Session(), f"{world.gateway.url}/me"
    session.get(f"{url}/login/", timeout=30)
    form = {"username": world.user.username, "password": "a long pass phrase"}
    form["csrfmiddlewaretoken"] = session.cookies["csrftoken"]
    assert session.post(f"{url}/login/", data=form, timeout=30).url == f"{url}/"
    values = shown_rows.fill(world.user)

    def look(artefacts: Artefacts) -> None:
        for path in own_paths(values):
            artefacts.add(f"page me/{path}", session.get(f"{url}/{path}", timeout=30).text)
        assert len(artefacts.labels("page me/")) > 30

    return look


def look_at_console(world: World, artefacts: Artefacts, secrets: dict[str, str]) -> None:
    """Every page and export, as an admin sees them; the cookies of that login are canaries, too."""
    from tests.console.conftest import PASSWORD

    visitor = Visitor(world.gateway.url)
    visitor.sign_in("nobody")
    assert visitor.sign_in(new_admin(password=PASSWORD).username).status_code == 302
    for cookie in visitor.session.cookies:
        if cookie.name != "csrftoken":  # which forms hold
            secrets[f"cookie {cookie.name}"] = cookie.value
    for path in [*paths(latest_rows()), "telemetry/logentry/export.jsonl", "telemetry/logentry/export.csv"]:
        artefacts.add(f"page {path}", visitor.get(path).text)


def collect(world: World, server: redis.Redis | None, artefacts: Artefacts) -> None:
    present = set(connection.introspection.table_names())
    for model in apps.get_models():
        if model._meta.db_table in present:
            rows = model._base_manager.all()
            artefacts.add(f"database {model._meta.label_lower}", serializers.serialize("json", rows))
            artefacts.add(f"database {model._meta.label_lower}", repr(list(rows.values())))
    assert len(artefacts.labels("database ")) > 40
    for path in world.gateway.directory.rglob("*"):
        if path.is_file():
            place = "database file" if ".sqlite3" in path.name else f"file {path.name.partition('.')[2]}"
            artefacts.add(place, path.read_bytes())
    for pid in (world.gateway.process.pid, *world.gateway.workers()):
        artefacts.add("process list", Path(f"/proc/{pid}/cmdline").read_bytes())
    if server is not None:
        for key in server.scan_iter():
            artefacts.add(f"Redis {server.type(key)}", key + values_of(server, key))
        artefacts.add("Redis", json.dumps(server.slowlog_get(), default=repr))
    artefacts.add("log", world.gateway.log())


def values_of(server: redis.Redis, key: bytes) -> bytes:
    readers = {
        b"string": server.get,
        b"hash": server.hgetall,
        b"set": server.smembers,
        b"zset": lambda name: server.zrange(name, 0, -1),
        b"list": lambda name: server.lrange(name, 0, -1),
    }
    value = readers[server.type(key)](key)
    return value if isinstance(value, bytes) else repr(value).encode()


def lose_redis(world: World, server: redis.Redis, record: Callable) -> None:
    """Redis goes away: what the gateway logs and answers about that names no password."""
    with suppress(redis.ConnectionError):
        server.shutdown(nosave=True)
    for number in range(5):
        record(world.ask(f"without Redis {number}"))
    record(requests.get(f"{world.gateway.url}/readyz", timeout=30))


def test_the_search_finds_what_is_there():
    artefacts = Artefacts()
    secret = SECRETS["credential"]
    encoded = [base64.b64encode(text.encode()).decode() for text in (f"Basic:{secret}", f"a{secret}b")]
    for number, form in enumerate((secret, quote(secret), json.dumps({"a": secret}), *encoded)):
        artefacts.add(str(number), f"before {form} after")
    assert artefacts.places_of(secret) == set("01234")
    assert artefacts.places_of(SECRETS["password"]) == set()
