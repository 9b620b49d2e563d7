"""Misconfigurations, each a pure function of the settings with an id and a hint.

Errors stop every command. Warnings are shown by `serve` and `check` alone.
"""

from collections.abc import Iterator
from itertools import combinations

from django.conf import LazySettings
from django.conf import settings as process_settings
from django.core.checks import CheckMessage, Error, Warning

from accounts.sso.claim_rules import read_rules
from gateway_project.errors import ValidationError
from gateway_project.server.proxies import is_loopback
from gateway_project.settings import LOCAL_DATABASE, LOCAL_HOSTS
from licensing.signing import KeyRefused, read_public_key

MIN_SECRET_LENGTH = 32
OPTIONAL_SECRETS = ("GATEWAY_METRICS_TOKEN", "GATEWAY_SCIM_TOKEN")


def check_configuration(app_configs: object = None, **options: object) -> list[CheckMessage]:
    """Everything in the settings of this process that keeps the gateway from starting."""
    return [message for message in _messages() if message.is_serious()]


def configuration_warnings(app_configs: object = None, **options: object) -> list[CheckMessage]:
    """Everything in the settings of this process that is likely a mistake."""
    return [message for message in _messages() if not message.is_serious()]


def _messages() -> list[CheckMessage]:
    return [message for check in CHECKS for message in check(process_settings)]


def debug_is_not_public(settings: LazySettings) -> Iterator[CheckMessage]:
    if settings.DEBUG and settings.HOST != "localhost" and not is_loopback(settings.HOST):
        yield Error(
            f"DEBUG is on and HOST is {settings.HOST}, which other machines can reach.",
            hint="Set DEBUG=false, or HOST=127.0.0.1.",
            id="gateway.E001",
        )


def secrets_are_secret(settings: LazySettings) -> Iterator[CheckMessage]:
    if settings.GATEWAY_MODE != "production":
        return
    for name, secret in _secrets(settings):
        if len(secret) < MIN_SECRET_LENGTH or secret.startswith("django-insecure-"):
            yield Error(
                f"{name} is missing, shorter than {MIN_SECRET_LENGTH} characters or a placeholder.",
                hint='Create one with: python -c "import secrets; print(secrets.token_urlsafe(48))"',
                id="gateway.E002",
            )


def secrets_differ(settings: LazySettings) -> Iterator[CheckMessage]:
    for (name, secret), (other_name, other_secret) in combinations(_secrets(settings), 2):
        if secret and secret == other_secret:
            yield Error(
                f"{name} and {other_name} are the same secret.",
                hint="Set different secrets, so that a leak of one does not reveal the other.",
                id="gateway.E003",
            )


def scim_token_is_secret(settings: LazySettings) -> Iterator[CheckMessage]:
    token = settings.GATEWAY_SCIM_TOKEN
    is_word = token.isascii() and token.isprintable() and " " not in token
    is_short = len(token) < MIN_SECRET_LENGTH and settings.GATEWAY_MODE != "production"  # where E002 says so
    if token and (is_short or not is_word):
        yield Error(
            f"GATEWAY_SCIM_TOKEN is shorter than {MIN_SECRET_LENGTH} characters, or not one word in ASCII.",
            hint='Create one with: python -c "import secrets; print(secrets.token_urlsafe(48))"',
            id="gateway.E040",
        )


def processes_share_a_store(settings: LazySettings) -> Iterator[CheckMessage]:
    processes = max(settings.WEB_CONCURRENCY, settings.GATEWAY_PROCESSES)
    if processes > 1 and not settings.REDIS_URL:
        yield Error(
            f"{processes} processes run without REDIS_URL: each has its own limits and its own cache.",
            hint="Set REDIS_URL, or WEB_CONCURRENCY=1 without GATEWAY_PROCESSES.",
            id="gateway.E004",
        )


def gevent_has_servers(settings: LazySettings) -> Iterator[CheckMessage]:
    if settings.GATEWAY_WORKER_CLASS != "gevent":
        return
    # SQLite waits for its lock in C code, where no greenlet can run: the greenlet that holds the lock cannot finish.
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        yield Error(
            "GATEWAY_WORKER_CLASS is gevent on SQLite: a write that waits for a lock would stop the whole process.",
            hint="Set GATEWAY_WORKER_CLASS=thread, or set DATABASE_URL to a PostgreSQL database.",
            id="gateway.E005",
        )
    # All that bounds clients before a request is complete is in the worker of threads.
    yield Warning(
        "GATEWAY_WORKER_CLASS is gevent: the gateway does not limit slow clients, floods of connections and floods of "
        "logins.",
        hint="Set GATEWAY_WORKER_CLASS=thread, or put a proxy in front (docs/operations.md, gevent).",
        id="gateway.W007",
    )


def hosts_are_named(settings: LazySettings) -> Iterator[CheckMessage]:
    if settings.GATEWAY_MODE == "production" and "*" in settings.ALLOWED_HOSTS:
        yield Error(
            'ALLOWED_HOSTS contains "*": links and redirects would use any host that a request names.',
            hint="Name the hosts that clients use, separated by commas.",
            id="gateway.E006",
        )


def base_url_is_encrypted(settings: LazySettings) -> Iterator[CheckMessage]:
    if settings.GATEWAY_MODE == "production" and settings.GATEWAY_BASE_URL.lower().startswith("http://"):
        yield Warning(
            "GATEWAY_BASE_URL begins with http://: keys and session cookies would be sent unencrypted.",
            hint="Serve clients over HTTPS and set GATEWAY_BASE_URL=https://…",
            id="gateway.W001",
        )


def database_is_named(settings: LazySettings) -> Iterator[CheckMessage]:
    own = str(settings.VAR_DIR / LOCAL_DATABASE)
    if settings.GATEWAY_MODE == "production" and settings.DATABASES["default"]["NAME"] == own:
        yield Warning(
            f"DATABASE_URL is not set: all data is in {own}, which other machines cannot use.",
            hint="Set DATABASE_URL to a PostgreSQL database, or to sqlite:///PATH if there is only one machine.",
            id="gateway.W002",
        )


def hosts_are_reachable(settings: LazySettings) -> Iterator[CheckMessage]:
    if settings.GATEWAY_MODE == "production" and set(settings.ALLOWED_HOSTS) <= set(LOCAL_HOSTS):
        yield Warning(
            "ALLOWED_HOSTS names this machine only: the console and the management API answer other names with 400.",
            hint="Set ALLOWED_HOSTS to the names that clients use, separated by commas.",
            id="gateway.W003",
        )


def processes_are_counted(settings: LazySettings) -> Iterator[CheckMessage]:
    if 0 < settings.GATEWAY_PROCESSES < settings.WEB_CONCURRENCY:
        yield Warning(
            f"GATEWAY_PROCESSES is {settings.GATEWAY_PROCESSES}, but this machine alone runs "
            f"{settings.WEB_CONCURRENCY} processes: while Redis is down, they would admit more than the limits.",
            hint="Unset GATEWAY_PROCESSES: then processes count each other. Or set it to their number on all machines.",
            id="gateway.W004",
        )


def variables_are_known(settings: LazySettings) -> Iterator[CheckMessage]:
    for name, setting in settings.MISSPELT.items():
        yield Warning(
            f"{name} is set, but no setting has this name.",
            hint=f"Did you mean {setting}?",
            id="gateway.W005",
        )


def proxies_are_named(settings: LazySettings) -> Iterator[CheckMessage]:
    if any(network.prefixlen == 0 for network in settings.GATEWAY_TRUSTED_PROXIES):
        yield Error(
            "GATEWAY_TRUSTED_PROXIES contains every address: each client could pretend to have any address.",
            hint="Set it to the networks of your proxies.",
            id="gateway.E008",
        )


def database_options_are_known(settings: LazySettings) -> Iterator[CheckMessage]:
    database = settings.DATABASES["default"]
    if not database["ENGINE"].endswith("postgresql"):
        return
    from psycopg import ProgrammingError
    from psycopg.conninfo import make_conninfo

    options = {name: value for name, value in database["OPTIONS"].items() if not isinstance(value, dict)}  # no pool
    try:
        make_conninfo(**options)
    except ProgrammingError as error:
        yield Error(
            f"DATABASE_URL has an invalid option after the ?: {error}".strip(),
            hint="Options are those of libpq, such as sslmode=verify-full, sslrootcert=FILE and application_name=NAME.",
            id="gateway.E010",
        )


def redis_options_are_known(settings: LazySettings) -> Iterator[CheckMessage]:
    if "?" not in settings.REDIS_URL:
        return
    from redis import ConnectionPool, RedisError  # imported here: it takes 3 MB

    try:
        ConnectionPool.from_url(settings.REDIS_URL).make_connection()  # which does not connect
    except (TypeError, ValueError, RedisError) as error:
        yield Error(
            f"REDIS_URL has an invalid option after the ?: {error}",
            hint="Options are those of redis-py, such as ssl_ca_certs=FILE, ssl_certfile=FILE and ssl_keyfile=FILE.",
            id="gateway.E009",
        )


def licences_can_be_checked(settings: LazySettings) -> Iterator[CheckMessage]:
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


def identity_provider_is_usable(settings: LazySettings) -> Iterator[CheckMessage]:
    if not settings.GATEWAY_OIDC_ISSUER:
        return
    from accounts.sso.protocol.http import is_secure  # imported here: it loads the library for HTTP

    try:
        read_rules(settings.GATEWAY_OIDC_RULES)
        problem = "" if settings.GATEWAY_OIDC_CLIENT_ID else "GATEWAY_OIDC_CLIENT_ID is missing"
        if not is_secure(settings.GATEWAY_OIDC_ISSUER) or "?" in settings.GATEWAY_OIDC_ISSUER:
            problem = "GATEWAY_OIDC_ISSUER is not an https address"
        elif "openid" not in settings.GATEWAY_OIDC_SCOPES.split():
            problem = "GATEWAY_OIDC_SCOPES lacks openid"
    except ValidationError as error:
        problem = f"GATEWAY_OIDC_RULES {error.message.rstrip('.')}"
    if problem:
        yield Error(
            f"Nobody could log in with the identity provider: {problem}.",
            hint="See docs/sso.md, or unset GATEWAY_OIDC_ISSUER.",
            id="gateway.E022",
        )


def users_can_log_in(settings: LazySettings) -> Iterator[CheckMessage]:
    if settings.GATEWAY_PASSWORD_LOGIN == "off" and not settings.GATEWAY_OIDC_ISSUER:
        yield Warning(
            "GATEWAY_PASSWORD_LOGIN is off and GATEWAY_OIDC_ISSUER is not set: unless an identity provider is set up "
            "in the console, only admins can log in.",
            hint="Set GATEWAY_OIDC_ISSUER, or set up an identity provider in the console (docs/sso.md).",
            id="gateway.W006",
        )


CHECKS = (
    debug_is_not_public,
    secrets_are_secret,
    secrets_differ,
    scim_token_is_secret,
    processes_share_a_store,
    gevent_has_servers,
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
    identity_provider_is_usable,
    users_can_log_in,
)


def _secrets(settings: LazySettings) -> list[tuple[str, str]]:
    """Each secret with its name; an empty list of encryption keys counts as a missing secret."""
    keys = settings.GATEWAY_ENCRYPTION_KEYS or [""]
    lists = {name: getattr(settings, name) for name in ("SECRET_KEY_FALLBACKS", "GATEWAY_TOKEN_KEY_FALLBACKS")}
    return [
        ("SECRET_KEY", settings.SECRET_KEY),
        ("GATEWAY_TOKEN_KEY", settings.GATEWAY_TOKEN_KEY),
        *((name, secret) for name in OPTIONAL_SECRETS if (secret := getattr(settings, name))),
        *(
            (f"{name}[{index}]", key)
            for name, secrets in {"GATEWAY_ENCRYPTION_KEYS": keys, **lists}.items()
            for index, key in enumerate(secrets)
        ),
    ]
