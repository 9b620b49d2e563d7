"""Typed readers of environment variables: a value that cannot be used stops the start and says why."""

import os
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from functools import wraps
from ipaddress import IPv4Network, IPv6Network, ip_network
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

LIMITS = {
    ("concurrent", ""),
    *((measure, window) for measure in ("requests", "tokens", "cost") for window in ("minute", "day", "month")),
}
# Of a limit. Money is counted in billionths, and all that is counted as exactly as floating point can: up to 2**53.
MOST_AMOUNT, MOST_COST = 10**12 - 1, 9_000_000
PREFIX = "GATEWAY_"
REDIS_SCHEMES = ("redis", "rediss", "unix")
TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


class SettingRefused(ImproperlyConfigured):
    """A variable that cannot be used; the text names it and says what it must be, without secrets."""


def reader(read: Callable) -> Callable:
    """A reader whose complaint may wait until all are known: meanwhile the default stands in for what it read."""

    @wraps(read)
    def patient(self: "Env", name: str, *args, **options):
        try:
            return read(self, name, *args, **options)
        except SettingRefused as problem:
            if self.problems is None:
                raise
            self.problems.append(str(problem))
            return read(Env({}), name, *args, **options)

    return patient


class Env:
    """Reads one mapping of variables; every reader raises SettingRefused naming the variable.

    One that collects raises it for all of them together, in refuse().
    """

    def __init__(self, variables: Mapping[str, str] = os.environ, *, collects: bool = False) -> None:
        self.variables = variables
        self.problems: list[str] | None = [] if collects else None
        self._known: set[str] = set()

    def refuse(self) -> None:
        """Raise what was collected, a line each."""
        if self.problems:
            raise SettingRefused("\n".join(self.problems))

    def misspelt(self) -> dict[str, str]:
        """Variables whose names are nearly those of ones that were read by now, each with the name it should have."""
        meant = {name.removeprefix(PREFIX): name for name in self._known if "_" in name}
        others = [name for name in self.variables if name.startswith(PREFIX) and name not in self._known]
        near = {name: get_close_matches(name.removeprefix(PREFIX), meant, n=1, cutoff=0.8) for name in others}
        return {name: meant[found[0]] for name, found in near.items() if found}

    def text(self, name: str, default: str = "") -> str:
        self._known.add(name)
        return self.variables.get(name, "").strip() or default

    def host(self, name: str, default: str) -> str:
        """A name or an address; that of IPv6 in brackets, as it stands before a port."""
        value = self.text(name, default).strip("[]")
        return f"[{value}]" if ":" in value else value

    @reader
    def address(self, name: str, default: str) -> str:
        """http:// or https://, a host, and no slash at the end."""
        url = self.text(name, default).rstrip("/")
        if not re.fullmatch(r"https?://([^/:?#@\s]+|\[[0-9a-f:.]+\])(:\d{1,5})?(/[^?#\s]+)?", url, re.IGNORECASE):
            shown = url if "@" not in url else "an address with a name or a password"
            raise _wrong(name, shown, "an address such as https://gateway.example.org")
        return url

    @reader
    def host_names(self, name: str, default: str = "") -> list[str]:
        """What a `Host` is compared with, which has neither a scheme nor a port that counts."""
        names = self.names(name, default)
        for host in names:
            if not re.fullmatch(r"[^/:\s]+|\[[0-9a-f:.]+\]", host, re.IGNORECASE):
                raise _wrong(name, host, "names alone, without scheme and port, and IPv6 in brackets")
        return names

    @reader
    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name, default)
        if value not in allowed:
            raise _wrong(name, value, f"one of {', '.join(allowed)}")
        return value

    @reader
    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name, str(default)).lower()
        if value not in TRUE | FALSE:
            raise _wrong(name, value, "true or false")
        return value in TRUE

    @reader
    def whole(self, name: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        """A whole number within its bounds."""
        value = self.text(name, str(default))
        if not value.removeprefix("-").isdecimal() or not least <= int(value) <= most:
            raise _wrong(name, value, f"a whole number from {least} to {most}")
        return int(value)

    @reader
    def seconds(self, name: str, default: float, *, least: float = 0.01, most: float = 86_400) -> float:
        """A duration in seconds."""
        value = self.text(name, str(default))
        try:
            seconds = float(value)
        except ValueError:
            raise _wrong(name, value, "a number of seconds") from None
        if not least <= seconds <= most:
            raise _wrong(name, value, f"a number of seconds from {least} to {most}")
        return seconds

    def names(self, name: str, default: str = "") -> list[str]:
        """A comma-separated list."""
        return [item.strip() for item in self.text(name, default).split(",") if item.strip()]

    @reader
    def networks(self, name: str) -> list[IPv4Network | IPv6Network]:
        """A comma-separated list of networks and addresses; none unless told."""
        try:
            return [ip_network(item) for item in self.names(name)]
        except ValueError as error:
            raise _wrong(name, self.text(name), f"a list of networks like 10.0.0.0/8 ({error})") from None

    @reader
    def limits(self, name: str) -> dict[tuple[str, str], Decimal]:
        """Amounts by measure and window, as "requests/day=500, cost/month=12.50, concurrent=5"; 0 is unlimited."""
        return dict(_limit(name, item) for item in self.names(name))

    @reader
    def database(self, name: str, default: str) -> dict:
        """Django's database dictionary for sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME."""
        url = self.text(name, default)
        scheme = url.partition(":")[0]
        pool_size = self.whole("GATEWAY_DATABASE_POOL_SIZE", 8, least=1, most=1000)
        if scheme == "sqlite":
            return _sqlite(name, url)
        if scheme in ("postgres", "postgresql"):
            return _postgresql(name, url, pool_size)
        raise _wrong(name, scheme or "no scheme", "sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME")

    @reader
    def redis(self, name: str) -> str:
        """A URL of Redis; '' unless told. It may hold a password, which no complaint shows."""
        url = self.text(name)
        expected = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix://PATH"
        scheme, separator, _ = url.partition("://")
        if url and (not separator or scheme not in REDIS_SCHEMES):
            raise _wrong(name, scheme if separator else "an address without a scheme", expected)
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018  looked at now, and not by the first who connects
        except ValueError as error:
            raise _wrong(name, f"not a URL ({error})", expected) from None
        # redis-py takes 0 for it; a password with a / in it, which has to be %2F, looks like one.
        if scheme != "unix" and not re.fullmatch(r"/?|/\d+/?", parts.path):
            raise _wrong(name, "an address whose database is no number", expected)
        return url


def _wrong(name: str, value: str, expected: str) -> SettingRefused:
    return SettingRefused(f"{name} is {value!r}, and must be {expected}.")


def _limit(name: str, text: str) -> tuple[tuple[str, str], Decimal]:
    kind, _, amount = (part.strip() for part in text.partition("="))
    measure, _, window = kind.partition("/")
    whole = measure != "cost"
    if (measure, window) not in LIMITS or not re.fullmatch(r"\d{1,13}" if whole else r"\d{1,13}(\.\d{1,6})?", amount):
        expected = "a list such as requests/day=500, tokens/minute=20000, cost/month=12.50, concurrent=5"
        raise _wrong(name, text, expected)
    if Decimal(amount) > (most := MOST_AMOUNT if whole else MOST_COST):
        raise _wrong(name, text, f"{kind} of at most {most}")
    return (measure, window or "none"), Decimal(amount)


def _sqlite(name: str, url: str) -> dict:
    path = url.removeprefix("sqlite:///")
    if not path or path == url:
        raise _wrong(name, url, "sqlite:///PATH (four slashes for an absolute path)")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            # A transaction that reads first may not upgrade its lock once another has written, and SQLite
            # refuses it without waiting; IMMEDIATE takes the lock at BEGIN, where the time-out counts.
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
        raise _wrong(name, f"not a URL ({error})", expected) from None
    database = unquote(parts.path.removeprefix("/"))
    if not database:
        raise _wrong(name, "without a database name", expected)
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "gateway_project.postgresql",
        "NAME": database,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", None) or parts.hostname or "",
        "PORT": port,
        "CONN_MAX_AGE": 0,  # the pool keeps connections; Django must hand them back
        # A pooler of transactions, as PgBouncer may be, would ask another connection for a cursor's next rows.
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "OPTIONS": {
            "connect_timeout": 5,
            # A server that vanishes without a goodbye is given up after seconds, not after hours.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            # Its own attempts to reconnect pause ever longer; those who ask begin new ones after 2 s.
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
