"""Misconfigurations, each a pure function of the settings with an id and a hint.

Errors stop every command. Warnings are shown by `serve` and `check` alone.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from django.conf import settings as configured
from django.core.checks import CheckMessage, Error, Warning

from gateway_project.server.proxies import is_loopback
from gateway_project.settings import LOCAL_DATABASE, LOCAL_HOSTS
from licensing.signing import KeyRefused, read_public_key

MIN_SECRET_LENGTH = 32


def check_configuration(app_configs: object = None, **options: object) -> list[CheckMessage]:
    """Everything in the settings of this process that keeps the gateway from starting."""
    return [message for message in _messages() if message.is_serious()]


def configuration_warnings(app_configs: object = None, **options: object) -> list[CheckMessage]:
    """Everything in the settings of this process that is likely a mistake."""
    return [message for message in _messages() if not message.is_serious()]


def _messages() -> list[CheckMessage]:
    return [message for check in CHECKS for message in check(configured)]


def debug_is_not_public(settings: Any) -> Iterator[CheckMessage]:
    if settings.DEBUG and settings.HOST != "localhost" and not is_loopback(settings.HOST):
        yield Error(
            f"DEBUG is on while HOST is {settings.HOST}, which other machines reach.",
            hint="Set DEBUG=false, or HOST=127.0.0.1.",
            id="gateway.E001",
        )


def secrets_are_secret(settings: Any) -> Iterator[CheckMessage]:
    if settings.GATEWAY_MODE != "production":
        return
    for name, secret in _secrets(settings):
        if len(secret) < MIN_SECRET_LENGTH or secret.startswith("django-insecure-"):
            yield Error(
                f"{name} is missing, shorter than {MIN_SECRET_LENGTH} characters or a placeholder.",
                hint='Make one with: python -c "import secrets; print(secrets.token_urlsafe(48))"',
                id="gateway.E002",
            )


def secrets_differ(settings: Any) -> Iterator[CheckMessage]:
    for (name, secret), (other_name, other_secret) in combinations(_secrets(settings), 2):
        if secret and secret == other_secret:
            yield Error(
                f"{name} and {other_name} are the same secret.",
                hint="Give each its own: whoever learns one must not thereby hold the other.",
                id="gateway.E003",
            )


def processes_share_a_store(settings: Any) -> Iterator[CheckMessage]:
    processes = max(settings.WEB_CONCURRENCY, settings.GATEWAY_PROCESSES)
    if processes > 1 and not settings.REDIS_URL:
        yield Error(
            f"{processes} processes run without REDIS_URL: each would count limits and cache for itself.",
            hint="Set REDIS_URL, or WEB_CONCURRENCY=1 without GATEWAY_PROCESSES.",
            id="gateway.E004",
        )


def gevent_has_a_server(settings: Any) -> Iterator[CheckMessage]:
    # SQLite waits for its lock inside C, where no greenlet can run: the one that holds the lock never ends.
    on_sqlite = settings.DATABASES["default"]["ENGINE"].endswith("sqlite3")
    if settings.GATEWAY_WORKER_CLASS == "gevent" and on_sqlite:
        yield Error(
            "GATEWAY_WORKER_CLASS is gevent on SQLite: one locked write would stop the whole process.",
            hint="Set GATEWAY_WORKER_CLASS=thread, or a DATABASE_URL of PostgreSQL.",
            id="gateway.E005",
        )


def hosts_are_named(settings: Any) -> Iterator[CheckMessage]:
    if settings.GATEWAY_MODE == "production" and "*" in settings.ALLOWED_HOSTS:
        yield Error(
            'ALLOWED_HOSTS holds "*": links and redirects would follow whatever host a request claims.',
            hint="Name the hosts that clients use, separated by commas.",
            id="gateway.E006",
        )


def base_url_is_encrypted(settings: Any) -> Iterator[CheckMessage]:
    if settings.GATEWAY_MODE == "production" and settings.GATEWAY_BASE_URL.lower().startswith("http://"):
        yield Warning(
            "GATEWAY_BASE_URL is http: keys and session cookies would travel in the clear.",
            hint="Serve clients over https and set GATEWAY_BASE_URL=https://…",
            id="gateway.W001",
        )


def database_is_named(settings: Any) -> Iterator[CheckMessage]:
    own = str(settings.VAR_DIR / LOCAL_DATABASE)
    if settings.GATEWAY_MODE == "production" and settings.DATABASES["default"]["NAME"] == own:
        yield Warning(
            f"DATABASE_URL is not set: everything is kept in {own}, which no other machine shares.",
            hint="Set DATABASE_URL to a PostgreSQL, or to sqlite:///PATH where one machine is all there is.",
            id="gateway.W002",
        )


def hosts_are_reachable(settings: Any) -> Iterator[CheckMessage]:
    if settings.GATEWAY_MODE == "production" and set(settings.ALLOWED_HOSTS) <= set(LOCAL_HOSTS):
        yield Warning(
            "ALLOWED_HOSTS names this machine alone: whoever uses another name gets 400 from console and management.",
            hint="Set ALLOWED_HOSTS to the names that clients use, separated by commas.",
            id="gateway.W003",
        )


def processes_are_counted(settings: Any) -> Iterator[CheckMessage]:
    if 0 < settings.GATEWAY_PROCESSES < settings.WEB_CONCURRENCY:
        yield Warning(
            f"GATEWAY_PROCESSES is {settings.GATEWAY_PROCESSES} where this machine alone has "
            f"{settings.WEB_CONCURRENCY}: while Redis is away they would let in more than the limits.",
            hint="Leave GATEWAY_PROCESSES out: processes count each other. Or set it to the number on all machines.",
            id="gateway.W004",
        )


def variables_are_known(settings: Any) -> Iterator[CheckMessage]:
    for name, meant in settings.MISSPELT.items():
        yield Warning(
            f"{name} is set, and nothing reads it.",
            hint=f"{meant} is a setting: is it meant?",
            id="gateway.W005",
        )


def proxies_are_named(settings: Any) -> Iterator[CheckMessage]:
    if any(network.prefixlen == 0 for network in settings.GATEWAY_TRUSTED_PROXIES):
        yield Error(
            "GATEWAY_TRUSTED_PROXIES holds every address: each client could claim to be any other.",
            hint="Name the networks that your proxies are in.",
            id="gateway.E008",
        )


def database_options_are_known(settings: Any) -> Iterator[CheckMessage]:
    database = settings.DATABASES["default"]
    if not database["ENGINE"].endswith("postgresql"):
        return
    from psycopg import ProgrammingError
    from psycopg.conninfo import make_conninfo

    given = {name: value for name, value in database["OPTIONS"].items() if not isinstance(value, dict)}  # our pool's
    try:
        make_conninfo(**given)
    except ProgrammingError as error:
        yield Error(
            f"DATABASE_URL has an option behind its ? that cannot be used: {error}".strip(),
            hint="Options are those of libpq, such as sslmode=verify-full, sslrootcert=FILE and application_name=NAME.",
            id="gateway.E010",
        )


def redis_options_are_known(settings: Any) -> Iterator[CheckMessage]:
    if "?" not in settings.REDIS_URL:
        return
    from redis import ConnectionPool, RedisError  # 3 MB

    try:
        ConnectionPool.from_url(settings.REDIS_URL).make_connection()  # which does not connect
    except (TypeError, ValueError, RedisError) as error:
        yield Error(
            f"REDIS_URL has an option behind its ? that cannot be used: {error}",
            hint="Options are those of redis-py, such as ssl_ca_certs=FILE, ssl_certfile=FILE and ssl_keyfile=FILE.",
            id="gateway.E009",
        )


def licences_can_be_checked(settings: Any) -> Iterator[CheckMessage]:
    if not settings.GATEWAY_LICENCE_PUBLIC_KEY:
        return
    try:
        read_public_key(settings.GATEWAY_LICENCE_PUBLIC_KEY)
    except KeyRefused:
        yield Error(
            "GATEWAY_LICENCE_PUBLIC_KEY is not a public key.",
            hint="Set it to the publicKey that `manage.py licence keygen` printed for the vendor: 43 characters.",
            id="gateway.E020",
        )


CHECKS = (
    debug_is_not_public,
    secrets_are_secret,
    secrets_differ,
    processes_share_a_store,
    gevent_has_a_server,
    hosts_are_named,
    base_url_is_encrypted,
    database_is_named,
    hosts_are_reachable,
    processes_are_counted,
    variables_are_known,
    proxies_are_named,
    database_options_are_known,
    redis_options_are_known,
    licences_can_be_checked,
)


def _secrets(settings: Any) -> list[tuple[str, str]]:
    """Each secret with its name; an empty list of encryption keys counts as one that is missing."""
    keys = settings.GATEWAY_ENCRYPTION_KEYS or [""]
    return [
        ("SECRET_KEY", settings.SECRET_KEY),
        ("GATEWAY_TOKEN_KEY", settings.GATEWAY_TOKEN_KEY),
        *([("GATEWAY_METRICS_TOKEN", settings.GATEWAY_METRICS_TOKEN)] if settings.GATEWAY_METRICS_TOKEN else []),
        *((f"GATEWAY_ENCRYPTION_KEYS[{place}]", key) for place, key in enumerate(keys)),
    ]
