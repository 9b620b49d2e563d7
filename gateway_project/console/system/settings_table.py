"""The settings in force, in readable units, beside their defaults."""

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings

from gateway_project.settings import env

ADDRESSES = ("DATABASE_URL", "REDIS_URL")  # shown without users, passwords and options
UNITS = {"_DAYS": "days", "_PERCENT": "%"}  # by the end of the name
IN_SECONDS = ("_SECONDS", "_TTL")  # the ends of the names of whole seconds
SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class Setting(NamedTuple):
    """A setting as texts; `default` is '' if it has its default value."""

    name: str
    value: str
    default: str = ""

    def has(self, text: str) -> bool:
        """Whether the search finds it; spaces are as good as underlines."""
        words = text.lower().replace("_", " ").split()
        return all(word in f"{self.name} {self.value}".lower() for word in words)


def settings_in_force(text: str = "") -> list[Setting]:
    """The variables that contain the text, secrets only as set or not set; those that were changed first."""
    rows = map(_read_setting, env.defaults)
    return sorted((row for row in rows if row.has(text)), key=lambda row: (not row.default, row.name))


def _read_setting(name: str) -> Setting:
    value = _text_of(name, _value(name))
    if not env.is_changed(name):
        return Setting(name, value)
    return Setting(name, value, _shown_text(name, env.defaults[name]) or "empty")


def _value(name: str) -> object:
    """The setting of this name; of one that is only a part of others, its variable."""
    is_part = name in ADDRESSES or not hasattr(settings, name)
    return env.text(name, env.defaults[name]) if is_part else getattr(settings, name)


def _text_of(name: str, value: object) -> str:
    if name in env.secrets:
        return "set" if value else "not set"
    return _shown_text(name, _in_words(value))


def _shown_text(name: str, text: str) -> str:
    return _without_password(text) if name in ADDRESSES else with_unit(name, text)


def with_unit(name: str, text: str) -> str:
    """A number with the unit of its setting; any other text unchanged."""
    if not text.replace(".", "", 1).isdecimal():
        return text
    if name.endswith("_BYTES"):
        return _size(int(text))
    if name in env.durations or name.endswith(IN_SECONDS):
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
    if isinstance(value, Collection) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if url else ""
