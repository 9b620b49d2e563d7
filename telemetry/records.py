"""Log and cache entries on their way through the journal: JSON objects with a value for every column."""

from typing import Any

import orjson
from django.db import models

from telemetry.models import CacheEntry, LogEntry

NUL = b"u0000"  # in JSON, but for the backslash: records are full of those, and looked through three times as slowly


def _empty(model: type[models.Model]) -> dict[str, Any]:
    return {field.column: field.get_default() for field in model._meta.concrete_fields if not field.primary_key}


_EMPTY_LOG, _EMPTY_CACHE = _empty(LogEntry), _empty(CacheEntry)
LOG_COLUMNS, CACHE_COLUMNS = tuple(_EMPTY_LOG), tuple(_EMPTY_CACHE)


def empty_log_entry() -> dict[str, Any]:
    """A log entry of which nothing is known yet; `timestamp` has to be set."""
    return _EMPTY_LOG.copy()


def empty_cache_entry() -> dict[str, Any]:
    """A cache entry of which nothing is known yet; the hash and the times have to be set."""
    return _EMPTY_CACHE.copy()


def written(entry: dict[str, Any]) -> bytes:
    """The entry as its journal record, without the one character that PostgreSQL refuses."""
    record = orjson.dumps(entry)
    return orjson.dumps(_without_nul(entry)) if NUL in record else record


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list | tuple):
        return [_without_nul(item) for item in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(item) for name, item in value.items()}
    return value
