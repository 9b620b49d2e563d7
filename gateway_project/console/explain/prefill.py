"""What the form of a request holds at first: that of a log entry, a key's or a user's. The address names ids only."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from accounts.models import User
from gateway_project.database.ids import id_in
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from telemetry.models import CacheStatus, EntryType, LogEntry, Operation

# Members of a request in the shape of Anthropic's messages.
OF_MESSAGES = {"system", "stop_sequences", "thinking", "top_k"}


# Paths whose sample takes the place of a body that was not kept.
BY_OPERATION: Mapping[str, str] = {Operation.COMPLETION: "/v1/completions", Operation.EMBEDDING: "/v1/embeddings"}


class Prefill(NamedTuple):
    """Values of the form's fields, and what the reader should know of them."""

    values: JsonObject
    note: str = ""


def prefill_of(parameters: Mapping[str, str]) -> Prefill:
    """The values for what the address names; nothing for an unknown id."""
    if entry := LogEntry.objects.filter(pk=_id("entry", parameters), entry_type=EntryType.WORK_REQUEST).first():
        return _of_entry(entry)
    if key := ApiKey.objects.live().filter(pk=_id("key", parameters)).first():
        return Prefill({"key": key.pk, "user": key.owner_id})
    if user := User.objects.live().filter(pk=_id("user", parameters)).first():
        return Prefill({"user": user.pk})
    return Prefill({})


def _id(name: str, parameters: Mapping[str, str]) -> int:
    return id_in(parameters.get(name, ""))


def _of_entry(entry: LogEntry) -> Prefill:
    body = _body(entry)
    values = {
        "user": User.objects.live().filter(pk=entry.user_id or 0).values_list("pk", flat=True).first(),
        "key": ApiKey.objects.live().filter(pk=entry.key_id or 0).values_list("pk", flat=True).first(),
        "door": _path(entry, body),
        "model": entry.model,
        "address": entry.address,
        "headers": "\n".join(_headers(entry)),
        "body": "" if body is None else json.dumps(body, indent=2, ensure_ascii=False),
    }
    return Prefill(values, " ".join(_notes(entry, values)))


def _body(entry: LogEntry) -> JsonObject | None:
    """The client's body, if the log has the whole of it."""
    try:
        body = json.loads(entry.payload)["request"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return body if isinstance(body, dict) and "model" in body else None


def _path(entry: LogEntry, body: JsonObject | None) -> str:
    """A path that takes such a body: the log does not say at which one the request came."""
    if entry.operation == Operation.COUNT_TOKENS:
        return "/v1/messages/count_tokens"
    if body is None:
        return BY_OPERATION.get(entry.operation, "/work")
    if entry.operation != Operation.CHAT:
        return "/work"
    if "messages" not in body:
        return "/v1/responses"
    return "/v1/messages" if body.keys() & OF_MESSAGES else "/work"


def _headers(entry: LogEntry) -> list[str]:
    tags = ", ".join(f"{name}={value}" for name, value in entry.tags.items())
    headers = [f"X-Svc-Tags: {tags}"] if tags else []
    return headers + (["X-Svc-Cache: bypass"] if entry.cache_status == CacheStatus.BYPASS else [])


def _notes(entry: LogEntry, values: JsonObject) -> list[str]:
    notes = [f"This is the request of {entry.timestamp:%Y-%m-%d %H:%M:%S} UTC, with the current configuration."]
    if entry.user_id and values["user"] is None:
        notes.append(f"Its user {entry.username} was deleted.")
    if entry.key_id and values["key"] is None:
        notes.append(f"Its key {entry.key_name} was deleted.")
    if not values["body"]:
        notes.append("The log does not have its body.")
    return notes
