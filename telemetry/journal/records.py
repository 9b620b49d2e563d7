"""Log and cache entries as journal records: JSON objects with a value for every column."""

import orjson
from django.db import models

from gateway_project.json_types import JsonObject
from telemetry.models import CacheEntry, GuardrailSample, KeptState, LogEntry

# JSON's escape of NUL without its backslash: records are full of backslashes, which make a search slow.
NUL_ESCAPE = b"u0000"


def _empty(model: type[models.Model]) -> JsonObject:
    return {field.column: field.get_default() for field in model._meta.concrete_fields if not field.primary_key}


_EMPTY_LOG, _EMPTY_CACHE = _empty(LogEntry), _empty(CacheEntry)
LOG_COLUMNS, CACHE_COLUMNS = tuple(_EMPTY_LOG), tuple(_EMPTY_CACHE)
OWNER_COLUMNS = tuple(_empty(KeptState))
SAMPLE_COLUMNS = tuple(_empty(GuardrailSample))


def empty_log_entry() -> JsonObject:
    """A log entry with every column at its default; the caller sets `timestamp`."""
    return _EMPTY_LOG.copy()


def empty_cache_entry() -> JsonObject:
    """A cache entry with every column at its default; the caller sets the hash and the times."""
    return _EMPTY_CACHE.copy()


def to_record(entry: JsonObject) -> bytes:
    """The entry as a journal record, without NUL, the one character that PostgreSQL refuses."""
    record = orjson.dumps(entry)
    return orjson.dumps(_without_nul(entry)) if NUL_ESCAPE in record else record


def _without_nul(value: object) -> object:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list | tuple):
        return [_without_nul(item) for item in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(item) for name, item in value.items()}
    return value
