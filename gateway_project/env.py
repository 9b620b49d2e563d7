"""Typed readers of environment variables: an invalid value stops the start with a message that names it."""

import os
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from functools import wraps
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

# What limits count, and the windows in which they do; some measures have none.
MEASURES = ("requests", "tokens", "cost", "concurrent")
WINDOWS, WITHOUT_WINDOW = ("minute", "day", "month"), frozenset({"concurrent"})
LIMIT_KINDS = {(measure, window) for measure in MEASURES for window in ([""] if measure in WITHOUT_WINDOW else WINDOWS)}
# The largest limits. Cost is counted in billionths, and counts must be exact in floating point: up to 2**53.
MAX_AMOUNT, MAX_COST = 10**12 - 1, 9_000_000
MAX_DIGITS = 20  # Python converts no text of more than 4,300
PREFIX = "GATEWAY_"
_Options = ParamSpec("_Options")
_Value = TypeVar("_Value")
REDIS_SCHEMES = ("redis", "rediss", "unix")
TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


class InvalidSetting(ImproperlyConfigured):
    """A variable with an invalid value; the text names it and says what it must be, without secrets."""


def reader(
    read: Callable[Concatenate["Env", str, _Options], _Value],
) -> Callable[Concatenate["Env", str, _Options], _Value]:
    """Decorates a reader of an Env that collects problems: an invalid value is noted, and the default returned."""

    @wraps(read)
    def read_or_default(self: "Env", name: str, /, *args: _Options.args, **options: _Options.kwargs) -> _Value:
        try:
            return read(self, name, *args, **options)
        except InvalidSetting as problem:
            if self.problems is None:
                raise
            self.problems.append(str(problem))
            return read(Env({}), name, *args, **options)

    return read_or_default


class Env:
    """Reads one mapping of variables; every reader raises InvalidSetting naming the variable.

    With `collect_problems`, raise_problems() raises one InvalidSetting for all of them instead.
    """

    def __init__(self, variables: Mapping[str, str] = os.environ, *, collect_problems: bool = False) -> None:
        self.variables = variables
        self.problems: list[str] | None = [] if collect_problems else None
        self.defaults: dict[str, str] = {}  # of each variable that was read, as it would be written
        self.durations: set[str] = set()  # the variables in seconds
        self.secrets: set[str] = set()  # the variables whose values are shown to nobody

    def raise_problems(self) -> None:
        """Raise InvalidSetting for the collected problems, a line each."""
        if self.problems:
            raise InvalidSetting("\n".join(self.problems))

    def misspelt_variables(self) -> dict[str, str]:
        """Variables that were not read but are named almost like one that was, each with that one's name."""
        settings = {name.removeprefix(PREFIX): name for name in self.defaults if "_" in name}
        others = [name for name in self.variables if name.startswith(PREFIX) and name not in self.defaults]
        similar = {name: get_close_matches(name.removeprefix(PREFIX), settings, n=1, cutoff=0.8) for name in others}
        return {name: settings[matches[0]] for name, matches in similar.items() if matches}

    def is_changed(self, name: str) -> bool:
        """Whether a variable that was read has another value than its default."""
        text = self.variables.get(name, "").strip()
        return bool(text) and name in self.defaults and text.lower() != self.defaults[name].lower()

    @reader
    def text(self, name: str, default: str = "") -> str:
        """A text in UTF-8, without blanks around it."""
        self.defaults.setdefault(name, default)
        value = self.variables.get(name, "").strip()
        if not value.isascii() and not is_utf8(value):
            raise InvalidSetting(f"{name} is not UTF-8. Save it in this encoding.")
        return value or default

    def secret(self, name: str) -> str:
        """A text that the page System does not show; '' by default."""
        self.secrets.add(name)
        return self.text(name)

    def secret_list(self, name: str) -> list[str]:
        """A comma-separated list of secrets."""
        self.secrets.add(name)
        return self.names(name)

    def host(self, name: str, default: str) -> str:
        """A name or an address; an IPv6 address in brackets, as before a port."""
        value = self.text(name, default).strip("[]")
        return f"[{value}]" if ":" in value else value

    @reader
    def address(self, name: str, default: str) -> str:
        """http:// or https://, a host, and no slash at the end."""
        url = self.text(name, default).rstrip("/")
        if not re.fullmatch(r"https?://([^/:?#@\s]+|\[[0-9a-f:.]+\])(:\d{1,5})?(/[^?#\s]+)?", url, re.IGNORECASE):
            quote = url if "@" not in url else "an address with a name or a password"
            raise _invalid(name, quote, "an address such as https://gateway.example.org")
        return url

    @reader
    def location(self, name: str) -> str:
        """A URL over HTTP without a credential before the host, or the absolute path of a file; '' by default."""
        text = self.text(name)
        if text and not text.startswith("/") and not re.fullmatch(r"https?://[^/?#@\s]+([/?][^#\s]*)?", text):
            quote = text if "@" not in text else "an address with a name or a password"
            raise _invalid(name, quote, "a URL such as https://example.org/feed.json, or the absolute path of a file")
        return text

    @reader
    def host_names(self, name: str, default: str = "") -> list[str]:
        """Names to compare with the header Host, without scheme and port."""
        names = self.names(name, default)
        for host in names:
            if not re.fullmatch(r"[^/:\s]+|\[[0-9a-f:.]+\]", host, re.IGNORECASE):
                raise _invalid(name, host, "host names without scheme and port; IPv6 addresses in brackets")
        return names

    @reader
    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name, default)
        if value not in allowed:
            raise _invalid(name, value, f"one of {', '.join(allowed)}")
        return value

    @reader
    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name, str(default)).lower()
        if value not in TRUE | FALSE:
            raise _invalid(name, value, "true or false")
        return value in TRUE

    @reader
    def integer(self, name: str, default: int, *, minimum: int = 0, maximum: int = 2**53) -> int:
        """A whole number within its bounds."""
        value = self.text(name, str(default))
        is_whole = value.removeprefix("-").isdecimal() and len(value) <= MAX_DIGITS
        if not is_whole or not minimum <= int(value) <= maximum:
            raise _invalid(name, value, f"a whole number from {minimum} to {maximum}")
        return int(value)

    @reader
    def seconds(self, name: str, default: float, *, minimum: float = 0.01, maximum: float = 86_400) -> float:
        """A duration in seconds."""
        self.durations.add(name)
        value = self.text(name, str(default))
        try:
            seconds = float(value)
        except ValueError:
            raise _invalid(name, value, "a number of seconds") from None
        if not minimum <= seconds <= maximum:
            raise _invalid(name, value, f"a number of seconds from {minimum} to {maximum}")
        return seconds

    def names(self, name: str, default: str = "") -> list[str]:
        """A comma-separated list."""
        return [item.strip() for item in self.text(name, default).split(",") if item.strip()]

    @reader
    def networks(self, name: str) -> list[IPv4Network | IPv6Network]:
        """A comma-separated list of networks and addresses; empty by default."""
        try:
            return [ip_network(item) for item in self.names(name)]
        except ValueError as error:
            raise _invalid(name, self.text(name), f"a list of networks like 10.0.0.0/8 ({error})") from None

    @reader
    def limits(self, name: str) -> dict[tuple[str, str], Decimal]:
        """Amounts by (measure, window), from "requests/day=500, cost/month=12.50, concurrent=5"; 0 is unlimited."""
        return dict(_limit(name, item) for item in self.names(name))

    @reader
    def database(self, name: str, default: str) -> dict:
        """Django's database dictionary for sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME."""
        url = self.text(name, default)
        scheme = url.partition(":")[0]
        pool_size = self.integer("GATEWAY_DATABASE_POOL_SIZE", 8, minimum=1, maximum=1000)
        if scheme == "sqlite":
            return _sqlite(name, url)
        if scheme in ("postgres", "postgresql"):
            return _postgresql(name, url, pool_size)
        raise _invalid(name, scheme or "no scheme", "sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME")

    @reader
    def redis(self, name: str) -> str:
        """A URL of Redis; '' by default. It may hold a password, which no message shows."""
        url = self.text(name)
        expected = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix://PATH"
        scheme, separator, _ = url.partition("://")
        if url and (not separator or scheme not in REDIS_SCHEMES):
            # Before the colon of an address without a scheme stands a name, and behind it may be a password.
            quote = scheme if separator and ":" not in scheme else "an address without a scheme"
            raise _invalid(name, quote, expected)
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018  raises ValueError now rather than at the first connection
        except ValueError as error:
            raise _invalid(name, f"not a URL ({error})", expected) from None
        # redis-py would use database 0; a password with an unescaped / (to be written %2F) ends up here too.
        if scheme != "unix" and not re.fullmatch(r"/?|/\d+/?", parts.path):
            raise _invalid(name, "an address whose database is no number", expected)
        return url


def is_utf8(text: str) -> bool:
    """Whether a text of the environment or the command line was UTF-8: Python puts surrogates for other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(name: str, value: str, expected: str) -> InvalidSetting:
    return InvalidSetting(f"{name} is {value!r}, and must be {expected}.")


def _limit(name: str, text: str) -> tuple[tuple[str, str], Decimal]:
    kind, _, amount = (part.strip() for part in text.partition("="))
    measure, _, window = kind.partition("/")
    is_cost = measure == "cost"
    digits = r"\d{1,13}(\.\d{1,6})?" if is_cost else r"\d{1,13}"
    if (measure, window) not in LIMIT_KINDS or not re.fullmatch(digits, amount):
        expected = "a list such as requests/day=500, tokens/minute=20000, cost/month=12.50, concurrent=5"
        raise _invalid(name, text, expected)
    if Decimal(amount) > (maximum := MAX_COST if is_cost else MAX_AMOUNT):
        raise _invalid(name, text, f"{kind} of at most {maximum}")
    return (measure, window or "none"), Decimal(amount)


def _sqlite(name: str, url: str) -> dict:
    path = url.removeprefix("sqlite:///")
    if not path or path == url:
        raise _invalid(name, url, "sqlite:///PATH (four slashes for an absolute path)")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            # SQLite refuses at once, without the time-out, to upgrade the lock of a transaction that has read if
            # another has written since; IMMEDIATE takes the write lock at BEGIN, where the time-out applies.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=67108864;",
        },
    }


def _postgresql(name: str, url: str, pool_size: int) -> dict:
    expected = "postgresql://USER:PASSWORD@HOST:PORT/NAME"
    try:
        parts = urlsplit(url)
        port = str(parts.port or "")
    except ValueError as error:
        raise _invalid(name, f"not a URL ({error})", expected) from None
    database = unquote(parts.path.removeprefix("/"))
    if not database:
        raise _invalid(name, "without a database name", expected)
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "gateway_project.database.postgresql",
        "NAME": database,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", None) or _host(parts.netloc),
        "PORT": port,
        "CONN_MAX_AGE": 0,  # the pool keeps connections; Django must hand them back
        # A transaction pooler such as PgBouncer may fetch a cursor's next rows over another connection.
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "OPTIONS": {
            "connect_timeout": 5,
            # A server that vanishes without closing its connections is detected in seconds, not hours.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            # The pool retries for 2 s with growing pauses; after that, the next request starts a new attempt.
            "pool": {
                "min_size": 0,
                "max_size": pool_size,
                "timeout": 3,
                "max_idle": 60,
                "reconnect_timeout": 2,
            },
            **options,
        },
    }


def _host(netloc: str) -> str:
    """The host before the port, decoded. It may be the folder of a socket, so it keeps its case."""
    host = netloc.rpartition("@")[2]
    return unquote(re.sub(r":\d*\Z", "", host)).removeprefix("[").removesuffix("]")
