"""The settings in force, in readable units, beside their defaults."""

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import NamedTuple

from django.conf import settings
from django.db import connection

from gateway_project.console.tables import plain_decimal
from gateway_project.settings import env

# A setting whose name contains one of these is shown as "set" or "not set"; a new secret needs such a name.
SECRET = ("SECRET", "TOKEN_KEY", "ENCRYPTION_KEYS", "METRICS_TOKEN", "SCIM_TOKEN", "PASSWORD")
ADDRESSES = ("REDIS_URL",)
UNITS = {"_DAYS": "days", "_HOURS": "hours", "_MINUTES": "minutes", "_MS": "ms"}  # by the end of the name
SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class Setting(NamedTuple):
    """One of them as texts; `default` is '' where it is as it is without a variable."""

    name: str
    value: str
    default: str = ""

    def has(self, text: str) -> bool:
        """Whether the search finds it; spaces are as good as underlines."""
        words = text.lower().replace("_", " ").split()
        return all(word in f"{self.name} {self.value}".lower() for word in words)


def settings_in_force(text: str = "") -> list[Setting]:
    """The gateway's settings that contain the text, secrets only as set or not set; those that were changed first."""
    names = [name for name in dir(settings) if name.startswith("GATEWAY_")]
    names += [*ADDRESSES, "SECRET_KEY", "ALLOWED_HOSTS"]
    database = f"{connection.vendor}, {settings.DATABASES['default']['NAME']}"
    rows = [*map(_setting, names), Setting("DATABASE", database)]
    return sorted((row for row in rows if row.has(text)), key=lambda row: (not row.default, row.name))


def _setting(name: str) -> Setting:
    value = _shown(name, getattr(settings, name))
    if not env.is_changed(name):
        return Setting(name, value)
    return Setting(name, value, with_unit(name, env.defaults[name]) or "empty")


def _shown(name: str, value: object) -> str:
    if any(word in name for word in SECRET):
        return "set" if value else "not set"
    return _without_password(str(value)) if name in ADDRESSES else with_unit(name, _in_words(value))


def with_unit(name: str, text: str) -> str:
    """A number with the unit of its setting; any other text unchanged."""
    if not text.replace(".", "", 1).isdecimal():
        return text
    if name.endswith("_BYTES"):
        return _size(int(text))
    if name in env.durations:
        return _duration(float(text))
    unit = next((unit for ending, unit in UNITS.items() if name.endswith(ending)), "")
    return f"{text} {unit}".rstrip()


def _size(number: int) -> str:
    size, unit = next(((size, unit) for size, unit in SIZES if number >= size), (1, "bytes"))
    return f"{number / size:,.1f}".removesuffix(".0") + f" {unit}"


def _duration(seconds: float) -> str:
    text = f"{seconds:,.2f}".rstrip("0").rstrip(".")
    return f"{text} s" if seconds < 120 else f"{text} s ({seconds / 60:,.0f} minutes)"


def _in_words(value: object) -> str:
    """The value as it is written in the environment."""
    if isinstance(value, Mapping):
        return "; ".join(f"{subject}: {_limits(limits)}" for subject, limits in value.items() if limits)
    if isinstance(value, Collection) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)


def _limits(limits: Mapping[tuple[str, str], Decimal]) -> str:
    """As Env.limits() reads them."""
    kinds = {(measure, window): measure if window == "none" else f"{measure}/{window}" for measure, window in limits}
    return ", ".join(f"{kinds[kind]}={plain_decimal(amount)}" for kind, amount in limits.items())


def _without_password(url: str) -> str:
    scheme, there, rest = url.partition("://")
    return f"{scheme}{there}{rest.rpartition('@')[2].partition('?')[0]}"
