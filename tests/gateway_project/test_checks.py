"""Misconfigurations that refuse to start."""

import os
import re
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.checks import ERROR, WARNING, run_checks

from gateway_project.checks import CHECKS
from gateway_project.env import Env
from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.running import ROOT, free_port

pytestmark = pytest.mark.either_store


def ids_of_messages(**changes):
    """The ids of all messages about good production settings with these changes."""
    good = {
        "GATEWAY_MODE": "production",
        "DEBUG": False,
        "HOST": "0.0.0.0",
        "SECRET_KEY": "s" * 32,
        "SECRET_KEY_FALLBACKS": [],
        "GATEWAY_TOKEN_KEY": "t" * 32,
        "GATEWAY_TOKEN_KEY_FALLBACKS": [],
        "GATEWAY_METRICS_TOKEN": "",
        "GATEWAY_SCIM_TOKEN": "",
        "GATEWAY_PASSWORD_LOGIN": "on",
        "GATEWAY_OIDC_ISSUER": "https://login.example.com",
        "GATEWAY_OIDC_CLIENT_ID": "gateway",
        "GATEWAY_OIDC_SCOPES": "openid",
        "GATEWAY_OIDC_RULES": "always → role user",
        "GATEWAY_ENCRYPTION_KEYS": ["e" * 32, "f" * 32],
        "WEB_CONCURRENCY": 4,
        "GATEWAY_PROCESSES": 4,
        "REDIS_URL": "redis://localhost",
        "GATEWAY_WORKER_CLASS": "thread",
        "DATABASES": {"default": Env({}).database("", "postgresql://db.example/gateway")},
        "VAR_DIR": Path("/var/gateway"),
        "ALLOWED_HOSTS": ["gateway.example"],
        "GATEWAY_BASE_URL": "https://gateway.example",
        "GATEWAY_TRUSTED_PROXIES": [ip_network("10.0.0.0/8")],
        "GATEWAY_LICENCE_PUBLIC_KEY": "",
        "MISSPELT": {},
    }
    settings = SimpleNamespace(**(good | changes))
    return [message.id.removeprefix("gateway.") for check in CHECKS for message in check(settings)]


def of_database(url):
    return {"DATABASES": {"default": Env({}).database("", url)}}


GEVENT = {"GATEWAY_WORKER_CLASS": "gevent"}
LOCAL = {"GATEWAY_MODE": "local"}
SQLITE = {"DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "/elsewhere/gateway.sqlite3"}}}
OWN = {"DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "/var/gateway/gateway.sqlite3"}}}


def test_good_settings_are_accepted():
    assert ids_of_messages() == []


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({"SECRET_KEY_FALLBACKS": ["short"]}, ["E002"]),
        ({"GATEWAY_TOKEN_KEY_FALLBACKS": ["x" * 32, "short"]}, ["E002"]),
        ({"GATEWAY_TOKEN_KEY_FALLBACKS": ["s" * 32]}, ["E003"]),
        ({"GATEWAY_PASSWORD_LOGIN": "off"}, []),
        ({"GATEWAY_PASSWORD_LOGIN": "off", "GATEWAY_OIDC_ISSUER": ""}, ["W006"]),
        ({"DEBUG": True}, ["E001"]),
        ({"DEBUG": True, "HOST": "192.168.1.5"}, ["E001"]),
        ({"DEBUG": True, "HOST": "gateway.example"}, ["E001"]),
        ({"DEBUG": True, "HOST": "::"}, ["E001"]),
        ({"DEBUG": True, "HOST": ""}, ["E001"]),
        ({"SECRET_KEY": ""}, ["E002"]),
        ({"SECRET_KEY": "s" * 31}, ["E002"]),
        ({"SECRET_KEY": "django-insecure-" + "s" * 32}, ["E002"]),
        ({"GATEWAY_TOKEN_KEY": ""}, ["E002"]),
        ({"GATEWAY_METRICS_TOKEN": "short"}, ["E002"]),
        ({"GATEWAY_METRICS_TOKEN": "s" * 32}, ["E003"]),
        ({"GATEWAY_SCIM_TOKEN": "short"}, ["E002"]),
        ({"GATEWAY_SCIM_TOKEN": "short"} | LOCAL, ["E040"]),
        ({"GATEWAY_SCIM_TOKEN": "two words of a token " * 2}, ["E040"]),
        ({"GATEWAY_SCIM_TOKEN": "é" * 40}, ["E040"]),
        ({"GATEWAY_SCIM_TOKEN": "s" * 32}, ["E003"]),
        ({"GATEWAY_ENCRYPTION_KEYS": []}, ["E002"]),
        ({"GATEWAY_ENCRYPTION_KEYS": ["e" * 32, "short"]}, ["E002"]),
        ({"SECRET_KEY": "", "GATEWAY_TOKEN_KEY": ""}, ["E002", "E002"]),
        ({"GATEWAY_TOKEN_KEY": "s" * 32}, ["E003"]),
        ({"GATEWAY_ENCRYPTION_KEYS": ["e" * 32, "s" * 32]}, ["E003"]),
        ({"GATEWAY_ENCRYPTION_KEYS": ["e" * 32, "e" * 32]}, ["E003"]),
        ({"GATEWAY_TOKEN_KEY": "s" * 32} | LOCAL, ["E003"]),
        ({"REDIS_URL": ""}, ["E004"]),
        ({"GATEWAY_TRUSTED_PROXIES": [ip_network("10.0.0.0/8"), ip_network("::/0")]}, ["E008"]),
        ({"REDIS_URL": "rediss://localhost?ssl_cacerts=ca.pem"}, ["E009"]),
        ({"REDIS_URL": "rediss://localhost?ssl_cert_reqs=mostly"}, ["E009"]),
        ({"REDIS_URL": "redis://localhost?db=first"}, ["E009"]),
        (of_database("postgresql://ann:hunter2@db.example/gateway?sslmoed=require"), ["E010"]),
        (of_database("postgresql://db.example/gateway?pool=5"), ["E010"]),
        ({"REDIS_URL": "", "WEB_CONCURRENCY": 1}, ["E004"]),
        ({"REDIS_URL": "", "GATEWAY_PROCESSES": 1}, ["E004", "W004"]),
        ({"REDIS_URL": "", "GATEWAY_PROCESSES": 0}, ["E004"]),
        (GEVENT, ["W007"]),
        (GEVENT | SQLITE, ["E005", "W007"]),
        ({"ALLOWED_HOSTS": ["gateway.example", "*"]}, ["E006"]),
        ({"GATEWAY_BASE_URL": "http://gateway.example"}, ["W001"]),
        (OWN, ["W002"]),
        ({"ALLOWED_HOSTS": ["localhost", "127.0.0.1", "[::1]"]}, ["W003"]),
        ({"GATEWAY_PROCESSES": 3}, ["W004"]),
        ({"MISSPELT": {"GATEWAY_LOG_DAY": "GATEWAY_LOG_DAYS"}}, ["W005"]),
        ({"GATEWAY_LICENCE_PUBLIC_KEY": "A" * 44}, ["E020"]),
    ],
)
@promise("V-N9: an empty, short or shared secret starts nothing", target="refused at the start", suite="attack")
def test_each_mistake_is_found(changes, ids):
    assert ids_of_messages(**changes) == ids


@pytest.mark.parametrize(
    "changes",
    [
        {"DEBUG": True, "HOST": "127.0.0.1"},
        {"DEBUG": True, "HOST": "127.8.8.8"},
        {"DEBUG": True, "HOST": "[::1]"},
        {"DEBUG": True, "HOST": "localhost"},
        {"SECRET_KEY": "short", "ALLOWED_HOSTS": ["*"], "GATEWAY_BASE_URL": "http://localhost"} | LOCAL,
        {"REDIS_URL": "", "WEB_CONCURRENCY": 1, "GATEWAY_PROCESSES": 1},
        {"REDIS_URL": "", "WEB_CONCURRENCY": 1, "GATEWAY_PROCESSES": 0},
        {"GATEWAY_PROCESSES": 0},
        {"REDIS_URL": "rediss://localhost?ssl_ca_certs=ca.pem&ssl_certfile=a.pem&ssl_keyfile=a.key&db=2"},
        of_database("postgresql://db.example/gateway?sslmode=verify-full&connect_timeout=2&options=-c%20x=1"),
        SQLITE,
        {"ALLOWED_HOSTS": ["localhost"]} | OWN | LOCAL,
    ],
)
def test_what_only_looks_like_a_mistake_is_accepted(changes):
    assert ids_of_messages(**changes) == []


def test_every_message_says_what_to_do_and_shows_no_secret():
    settings = SimpleNamespace(
        GATEWAY_MODE="production",
        DEBUG=True,
        HOST="0.0.0.0",
        SECRET_KEY="hunter2",
        GATEWAY_TOKEN_KEY="hunter2",
        SECRET_KEY_FALLBACKS=["hunter2"],
        GATEWAY_TOKEN_KEY_FALLBACKS=[],
        GATEWAY_ENCRYPTION_KEYS=[],
        GATEWAY_METRICS_TOKEN="",
        GATEWAY_SCIM_TOKEN="",
        GATEWAY_PASSWORD_LOGIN="on",
        GATEWAY_OIDC_ISSUER="http://login.example.com",
        GATEWAY_OIDC_CLIENT_ID="",
        GATEWAY_OIDC_CLIENT_SECRET="hunter2",
        GATEWAY_OIDC_SCOPES="openid",
        GATEWAY_OIDC_RULES="",
        VAR_DIR=Path("/var/gateway"),
        WEB_CONCURRENCY=2,
        GATEWAY_PROCESSES=1,
        REDIS_URL="",
        GATEWAY_WORKER_CLASS="gevent",
        ALLOWED_HOSTS=["*"],
        GATEWAY_BASE_URL="http://gateway.example",
        GATEWAY_TRUSTED_PROXIES=[ip_network("0.0.0.0/0")],
        GATEWAY_LICENCE_PUBLIC_KEY="nonsense",
        MISSPELT={"GATEWAY_MOD": "GATEWAY_MODE"},
        **SQLITE,
    )
    messages = [message for check in CHECKS for message in check(settings)]
    assert {message.id[8:] for message in messages} == {
        "E001",
        "E002",
        "E003",
        "E004",
        "E005",
        "E006",
        "E008",
        "E020",
        "E022",
        "W001",
        "W004",
        "W005",
        "W007",
    }
    for message in messages:
        assert message.hint
        assert "hunter2" not in f"{message.msg} {message.hint}"
        assert message.level == (WARNING if message.id.startswith("gateway.W") else ERROR)


def test_django_asks_them_at_every_start(settings):
    settings.DEBUG, settings.HOST = True, "0.0.0.0"
    assert "gateway.E001" in {message.id for message in run_checks(tags=["gateway"])}


@pytest.mark.long
def test_warnings_are_shown_at_the_start_and_when_asked_for_only(tmp_path):
    """`migrate` and `serve` follow each other at each start of a container."""
    environ = {
        "GATEWAY_MODE": "production", "SECRET_KEY": "s" * 40, "GATEWAY_TOKEN_KEY": "t" * 40, "HOST": "127.0.0.1",
        "GATEWAY_ENCRYPTION_KEYS": "e" * 40, "ALLOWED_HOSTS": "", "GATEWAY_BASE_URL": "", "REDIS_URL": "",
        "DATABASE_URL": f"sqlite:///{tmp_path}/x.sqlite3", "GATEWAY_VAR_DIR": str(tmp_path), "PORT": str(free_port()),
    }  # fmt: skip
    shown = {}
    # The journal cannot be written, so that `serve` ends when it has said what it has to say.
    (tmp_path / "journal").touch()
    for command in ("migrate", "sync_prices", "check", "serve"):
        process = subprocess.run(
            [sys.executable, "manage.py", command],
            cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=False, timeout=patience(20),
        )  # fmt: skip
        shown[command] = re.findall(r"gateway\.(W\d+)", process.stderr)
    assert shown == {"migrate": [], "sync_prices": [], "check": ["W001", "W003"], "serve": ["W001", "W003"]}
