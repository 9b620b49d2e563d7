"""The texts in a JSON document of any client API or provider: visited, and replaced where that changes them. Pure.

Every string is a text, whatever its member is called, but for names and codes that only programs read, and for what is
encoded. So nothing depends on knowing each API's shape: system prompts, messages, descriptions of images, arguments of
tools and their results are texts wherever they stand.
"""

import re
from collections.abc import Callable
from enum import Enum
from json import JSONDecodeError, dumps, loads
from typing import Any

# Members that hold names and codes, which nobody reads as text and which must stay as they are.
CODES = frozenset({
    *("model", "role", "type", "object", "id", "call_id", "tool_call_id", "tool_use_id", "item_id", "response_id"),
    *("previous_response_id", "file_id", "container_id", "conversation_id", "fingerprint", "system_fingerprint"),
    *("finish_reason", "finishReason", "stop_reason", "done_reason", "status", "service_tier", "created_at"),
    *("media_type", "mime_type", "mimeType", "cache_control", "modelVersion", "responseId", "encoding_format"),
    # Words of an API, which redaction would make invalid.
    *("tool_choice", "reasoning_effort", "effort", "verbosity", "detail", "truncation", "modalities", "format"),
    *("responseModalities", "responseMimeType", "required"),
    # Random letters that hide the length of an answer.
    *("obfuscation", "p"),
    # Signed or encrypted by the provider, who refuses them once they are changed.
    *("signature", "encrypted_content", "thought_signature", "thoughtSignature"),
})  # fmt: skip
# Members whose string is JSON by itself.
JSON_TEXTS = frozenset({"arguments", "partial_json"})
# Members whose object a model has filled: names and numbers in it are its own words, too.
CALLS = frozenset({"arguments", "args", "input"})
# What stands beside the name of a tool that is called, or offered.
CALLED = frozenset({"arguments", "args", "input"})
OFFERED = frozenset({"parameters", "input_schema", "inputSchema", "parametersJsonSchema", "description", "strict"})
# The tokens of a text, beside it.
LOGPROBS = frozenset({"logprobs", "logprobsResult", "logprobs_result"})
MIN_CALL_NUMBER = 10**7  # shorter ones say nothing about anybody
# What is longer and has no other characters is encoded data, such as an image; a detector would find nothing in it.
MIN_ENCODED = 4096
# Of objects of these types no member is the answer itself.
REASONING = frozenset({"reasoning", "thinking", "summary_text", "reasoning_text"})
ANSWERS = frozenset({"content", "text"})
_ENCODED = re.compile(r"(?:data:[\w.+/-]{1,100};base64,)?[A-Za-z0-9+/_-]*+={0,2}\s*\Z", re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,31}\Z")


class Kind(Enum):
    """What a text is in its document."""

    TEXT = "text"
    ANSWER = "answer"  # of an answer: what the model says, and neither its reasoning nor a call
    CALL = "call"  # in the arguments of a tool
    CALL_JSON = "call json"  # the arguments as JSON
    TOOL = "tool"  # the name of a tool


# Where a text stands: the path before it, and the member or the number of the item.
Path = tuple[Any, Any] | None
# What becomes of a text.
Visit = Callable[[str, Kind, Path], str]


def rewrite(value: Any, visit: Visit, path: Path = None, member: str = "", *, in_call: bool = False) -> Any:
    """The document with each text as `visit` returns it: the same object if nothing changes."""
    if isinstance(value, str):
        return value if member in CODES and not in_call else _visited(value, visit, path, _kind(member, in_call))
    if isinstance(value, dict):
        return _rewrite_object(value, visit, path, in_call=in_call or member in CALLS)
    if isinstance(value, list):
        return _rewrite_list(value, visit, path, member, in_call=in_call)
    if in_call and type(value) in (int, float) and abs(value) >= MIN_CALL_NUMBER:
        text = str(value)
        new = visit(text, Kind.CALL, path)
        return value if new == text else new
    return value


def _kind(member: str, in_call: bool) -> Kind:
    if in_call:
        return Kind.CALL
    if member in JSON_TEXTS:
        return Kind.CALL_JSON
    return Kind.ANSWER if member in ANSWERS else Kind.TEXT


def _rewrite_object(members: dict[str, Any], visit: Visit, path: Path, *, in_call: bool) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, item in members.items():
        if in_call and not _PLAIN_NAME.match(name) and (new_name := visit(name, Kind.CALL, path)) != name:
            names[name] = new_name
        if isinstance(item, str | dict | list) or in_call:
            new = _rewrite_member(members, name, item, visit, path, in_call=in_call)
            if new is not item:
                changes[name] = new
    if names:
        return {names.get(name, name): changes.get(name, item) for name, item in members.items()}
    return {**members, **changes} if changes else members


def _rewrite_member(members: dict[str, Any], name: str, item: Any, visit: Visit, path: Path, *, in_call: bool) -> Any:
    if name == "name" and not in_call and isinstance(item, str) and _is_of_tool(members):
        return visit(item, Kind.TOOL, (path, name))
    is_aside = name in ANSWERS and (in_call or members.get("type") in REASONING)
    return rewrite(item, visit, (path, name), "" if is_aside else name, in_call=in_call)


def _is_of_tool(members: dict[str, Any]) -> bool:
    return not (CALLED.isdisjoint(members) and OFFERED.isdisjoint(members))


def _rewrite_list(items: list[Any], visit: Visit, path: Path, member: str, *, in_call: bool) -> list[Any]:
    result: list[Any] | None = None
    for place, item in enumerate(items):
        if isinstance(item, str | dict | list) or in_call:
            number = item.get("index", place) if isinstance(item, dict) else place
            own_member = member if isinstance(item, str) else ""
            new = rewrite(item, visit, (path, number), own_member, in_call=in_call)
            if new is not item:
                result = items.copy() if result is None else result
                result[place] = new
    return items if result is None else result


def _visited(text: str, visit: Visit, path: Path, kind: Kind) -> str:
    if len(text) >= MIN_ENCODED and _ENCODED.match(text):
        return text
    return visit(text, kind, path)


def of_whole_texts(visit: Visit) -> Visit:
    """The visit for documents that hold whole texts: JSON in them stays JSON, and is read without its escapes."""

    def visit_whole(text: str, kind: Kind, path: Path) -> str:
        if kind is not Kind.CALL_JSON:
            return visit(text, kind, path)
        readable = _readable_json(text)
        new = visit(readable, kind, path)
        return text if new == readable else _valid_json(new, readable, visit, path)

    return visit_whole


def _readable_json(text: str) -> str:
    """JSON without escapes that hide letters; the text itself if it is no JSON, or has no such escape."""
    if "\\u" not in text and "\\/" not in text:
        return text
    try:
        return dumps(loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _valid_json(new: str, before: str, visit: Visit, path: Path) -> str:
    """What became of JSON: if it is none any more, what becomes of each of its values."""
    try:
        loads(new)
        return new
    except JSONDecodeError:
        pass
    except RecursionError:
        return new
    try:
        return dumps(rewrite(loads(before), visit, path, in_call=True), ensure_ascii=False)
    except (ValueError, RecursionError):
        return new


def without_logprobs(value: Any) -> Any:
    """The document without the tokens beside its text, which would still spell what was taken out."""
    if isinstance(value, list):
        return [without_logprobs(item) for item in value]
    if isinstance(value, dict):
        return {name: _empty(item) if name in LOGPROBS else without_logprobs(item) for name, item in value.items()}
    return value


def _empty(item: object) -> Any:
    return [] if isinstance(item, list) else None
