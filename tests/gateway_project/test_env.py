"""Typed readers of the environment."""

import os
import subprocess
import sys
from decimal import Decimal

import pytest
from django.core.exceptions import ImproperlyConfigured

from gateway_project.env import Env
from tests.support.pace import patience
from tests.support.running import ROOT

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize("variables", [{}, {"X": ""}, {"X": "  "}])
def test_what_is_unset_or_blank_is_the_default(variables):
    env = Env(variables)
    assert env.text("X", "d") == "d"
    assert env.choice("X", ("a", "b"), "b") == "b"
    assert env.flag("X", True) is True
    assert env.integer("X", 3) == 3
    assert env.seconds("X", 1.5) == 1.5
    assert env.names("X", "a, b") == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("TRUE", True), ("yes", True), ("on", True), ("0", False), ("False", False), ("no", False)],
)
def test_flags_are_read_as_people_write_them(text, value):
    assert Env({"X": text}).flag("X", not value) is value


@pytest.mark.parametrize(
    ("text", "value"), [("", "127.0.0.1"), ("::1", "[::1]"), ("[::]", "[::]"), ("0.0.0.0", "0.0.0.0"), ("here", "here")]
)
def test_a_host_is_written_as_it_stands_before_a_port(text, value):
    assert Env({"HOST": text}).host("HOST", "127.0.0.1") == value


def test_values_are_read_without_blanks_around_them():
    env = Env({"X": " 5 ", "Y": " a ,, b ,"})
    assert env.integer("X", 0) == 5
    assert env.names("Y") == ["a", "b"]


@pytest.mark.parametrize("text", ["-5", "0", "65535"])
def test_a_whole_number_may_be_the_least_and_the_most(text):
    assert Env({"X": text}).integer("X", 7, minimum=-5, maximum=65_535) == int(text)


@pytest.mark.parametrize("text", ["0.01", "86400"])
def test_so_may_a_number_of_seconds(text):
    assert Env({"X": text}).seconds("X", 7) == float(text)


def test_limits_are_amounts_by_measure_and_window():
    text = "requests/day=500, cost/month=12.50, concurrent=5,tokens/minute = 0, cost/day=9000000"
    assert Env({"X": text}).limits("X") == {
        ("requests", "day"): 500,
        ("cost", "month"): Decimal("12.5"),
        ("concurrent", "none"): 5,
        ("tokens", "minute"): 0,
        ("cost", "day"): 9_000_000,
    }


@pytest.mark.parametrize(
    ("reader", "text", "options"),
    [
        ("choice", "c", {"allowed": ("a", "b"), "default": "a"}),
        ("flag", "maybe", {"default": True}),
        ("integer", "1.5", {"default": 0}),
        ("integer", "-1", {"default": 0}),
        ("integer", "11", {"default": 0, "maximum": 10}),
        ("integer", "1e3", {"default": 0}),
        ("integer", "--1", {"default": 0}),
        ("integer", "1" * 5000, {"default": 0}),
        ("seconds", "soon", {"default": 1}),
        ("seconds", "0", {"default": 1}),
        ("seconds", "-1", {"default": 1}),
        ("seconds", "nan", {"default": 1}),
        ("seconds", "inf", {"default": 1}),
        ("limits", "requests/day=1000000000000", {}),
        ("limits", "cost/month=9000000.000001", {}),
        ("limits", "cost/month=0.0000001", {}),
        ("limits", "tokens/day=1.5", {}),
        ("limits", "requests/year=5", {}),
        ("networks", "10.0.0.1/8", {}),
        ("networks", "10.0.0.0/8, proxy.example", {}),
        ("networks", "*", {}),
        ("database", "mysql://host/db", {"default": ""}),
        ("database", "gateway.sqlite3", {"default": ""}),
        ("database", "sqlite://", {"default": ""}),
        ("database", "sqlite:///", {"default": ""}),
        ("database", "postgresql://host", {"default": ""}),
        ("database", "postgresql://host/", {"default": ""}),
        ("address", "gateway.example", {"default": ""}),
        ("address", "ftp://gateway.example", {"default": ""}),
        ("address", "https:///path", {"default": ""}),
        ("address", "https://gateway.example?x", {"default": ""}),
        ("address", "https://gateway.example:port", {"default": ""}),
        ("host_names", "https://gateway.example", {}),
        ("host_names", "localhost, gateway.example:443", {}),
        ("host_names", "::1", {}),
        ("redis", "127.0.0.1:6379", {}),
        ("redis", "http://127.0.0.1:6379", {}),
        ("redis", "redis://127.0.0.1:port/0", {}),
    ],
)
def test_a_value_that_cannot_be_used_stops_the_start_and_names_the_variable(reader, text, options):
    with pytest.raises(ImproperlyConfigured, match="X"):
        getattr(Env({"X": text}), reader)("X", **options)


@pytest.mark.parametrize("reader", ["text", "secret", "secret_list", "names", "database"])
def test_a_value_that_is_not_utf8_is_refused_and_not_shown(reader):
    """As Python reads the byte 0xFF."""
    options = {"default": ""} if reader == "database" else {}
    with pytest.raises(ImproperlyConfigured, match="^X is not UTF-8") as refused:
        getattr(Env({"X": "secret \udcff"}), reader)("X", **options)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["postgresql://host:port/db", "postgresql://[::1/db"])
def test_a_database_url_that_cannot_be_split_is_refused_too(url):
    with pytest.raises(ImproperlyConfigured, match="X"):
        Env({"X": url}).database("X", "")


@pytest.mark.parametrize("name", ["GATEWAY_ACCESS_TOKEN_SECONDS", "GATEWAY_REFRESH_TOKEN_SECONDS", "GATEWAY_CACHE_TTL"])
def test_a_duration_that_ends_after_all_dates_stops_the_start(name, tmp_path):
    variables = {"GATEWAY_VAR_DIR": str(tmp_path), "PATH": os.environ["PATH"], name: "1000000000000"}
    process = subprocess.run(
        [sys.executable, "-c", "import gateway_project.settings"],
        cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=patience(20),
    )  # fmt: skip
    assert f"{name} is '1000000000000', and must be a whole number from " in process.stderr


def test_all_that_cannot_be_used_is_said_at_once():
    env = Env({"X": "eighty", "Y": "prod", "Z": "5"}, collect_problems=True)
    assert (env.integer("X", 80), env.choice("Y", ("a", "b"), "a"), env.integer("Z", 1)) == (80, "a", 5)
    with pytest.raises(ImproperlyConfigured) as refused:
        env.raise_problems()
    assert str(refused.value).splitlines() == [
        "X is 'eighty', and must be a whole number from 0 to 9007199254740992.",
        "Y is 'prod', and must be one of a, b.",
    ]


@pytest.mark.parametrize("url", ["", "redis://:p%40ss@host:6379/0", "rediss://host", "unix:///run/redis.sock?db=1"])
def test_urls_of_redis(url):
    assert Env({"X": url}).redis("X") == url


@pytest.mark.parametrize(
    "url",
    [
        "redis//:hunter2@host",
        "http://:hunter2@host",
        "redis://:hunter2@host:port",
        "redis://host/first",
        "redis://:hun/hunter2@host/0",
    ],
)
def test_a_refused_url_of_redis_does_not_show_its_password(url):
    with pytest.raises(ImproperlyConfigured) as refused:
        Env({"X": url}).redis("X")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["https://gateway.example", "http://[::1]:8000/", "http://0.0.0.0:80", "https://example.org/models"]
)
def test_addresses_of_the_gateway(url):
    assert Env({"X": url}).address("X", "") == url.rstrip("/")


def test_a_refused_address_does_not_show_its_password():
    with pytest.raises(ImproperlyConfigured) as refused:
        Env({"X": "https://ann:hunter2@gateway.example"}).address("X", "")
    assert "hunter2" not in str(refused.value)


def test_a_name_that_is_nearly_a_variables_is_found():
    names = ("GATEWAY_LOG_DAY", "GATEWAY_TRUSTED_PROXY", "GATEWAY_MOD", "GATEWAY_REDIS_URL", "GATEWAY_LOG_DAYS")
    # Kubernetes tells of a service named gateway; docs have one export GATEWAY_KEY.
    others = ("GATEWAY_PORT", "GATEWAY_SERVICE_HOST", "GATEWAY_PORT_8000_TCP", "GATEWAY_KEY", "LOG_DAY", "PATH")
    env = Env(dict.fromkeys((*names, *others), "1"))
    for values in ("LOG_DAYS", "TRUSTED_PROXIES", "MODE", "DEMO_PORT", "KEY_DAYS", "BASE_URL"):
        env.text(f"GATEWAY_{values}")
    for values in ("REDIS_URL", "PORT", "HOST"):
        env.text(values)
    assert env.misspelt_variables() == {
        "GATEWAY_LOG_DAY": "GATEWAY_LOG_DAYS",
        "GATEWAY_TRUSTED_PROXY": "GATEWAY_TRUSTED_PROXIES",
        "GATEWAY_MOD": "GATEWAY_MODE",
        "GATEWAY_REDIS_URL": "REDIS_URL",
    }


def test_a_pooler_of_transactions_may_stand_before_postgresql():
    assert Env({}).database("X", "postgresql://host/name")["DISABLE_SERVER_SIDE_CURSORS"]


def test_a_refused_database_url_does_not_show_its_password():
    with pytest.raises(ImproperlyConfigured) as refused:
        Env({"X": "postgresql://ann:hunter2@host/"}).database("X", "")
    assert "hunter2" not in str(refused.value)


def test_a_sqlite_url_names_a_path():
    assert Env({}).database("X", "sqlite:////var/x.sqlite3")["NAME"] == "/var/x.sqlite3"
    database = Env({"X": "sqlite:///x.sqlite3"}).database("X", "")
    assert database["NAME"] == "x.sqlite3"
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


def test_a_postgresql_url_names_everything():
    env = Env({"X": "postgres://an%40n:p%2Fw@db.example:5433/gate%20way?sslmode=require"})
    database = env.database("X", "")
    assert database["ENGINE"] == "gateway_project.database.postgresql"
    assert (database["USER"], database["PASSWORD"], database["HOST"], database["PORT"], database["NAME"]) == (
        "an@n",
        "p/w",
        "db.example",
        "5433",
        "gate way",
    )
    assert database["OPTIONS"]["sslmode"] == "require"
    assert database["OPTIONS"]["pool"]["max_size"] == 8


def test_a_postgresql_url_may_name_a_socket():
    database = Env({"X": "postgresql:///gateway?host=/run/postgresql"}).database("X", "")
    assert (database["HOST"], database["NAME"], database["PORT"]) == ("/run/postgresql", "gateway", "")


@pytest.mark.parametrize(
    ("host", "value"),
    [
        ("%2Fvar%2Frun%2FPostgreSQL", "/var/run/PostgreSQL"),
        ("me:p%40w@%2Frun%2FPG:5433", "/run/PG"),
        ("[2001:db8::1]:5432", "2001:db8::1"),
        ("[::1]", "::1"),
        ("db.example:5432", "db.example"),
    ],
)
def test_the_host_of_a_postgresql_url_is_decoded(host, value):
    assert Env({"X": f"postgresql://{host}/gateway"}).database("X", "")["HOST"] == value


@pytest.mark.parametrize(
    "text", ["", "/etc/releases.json", "https://example.org/a?b=c", "http://[::1]:8080/a", "http://h"]
)
def test_a_location_is_a_url_or_a_path(text):
    assert Env({"X": text}).location("X") == text


@pytest.mark.parametrize("text", ["feed.json", "ftp://h/x", "https://", "https://me:secret@h/x", "http://h/a b"])
def test_anything_else_is_none_and_its_password_is_not_shown(text):
    with pytest.raises(ImproperlyConfigured, match="absolute path of a file") as caught:
        Env({"X": text}).location("X")
    assert "secret" not in str(caught.value)
