"""The texts in a JSON document of any client API or provider: visited, and replaced where that changes them. Pure.

Every string is a text, whatever its member is called, but for names and codes that only programs read, and for what is
encoded. So nothing depends on knowing each API's shape: system prompts, messages, descriptions of images, arguments of
tools and their results are texts wherever they stand.
"""

import re
from collections.abc import Callable
from enum import Enum
from json import JSONDecodeError, dumps, loads
from typing import Any, TypeAlias

from gateway_project.json_types import JsonObject
from gateway_project.work.guardrails.escapes import Escapes

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
REQUIRED = "required"  # of a schema: the names of properties
# What has members of the client's own names inside: none of them is a code.
OWN_NAMES = frozenset({"metadata", "default", "examples", "input_examples", "json"})
TOOL_RESULTS = frozenset({"functionResponse", "function_response"})  # their response has such members, too
# Members whose string is JSON by itself.
JSON_TEXTS = frozenset({"arguments", "partial_json"})
# Members whose object a model has filled: names and numbers in it are its own words, too.
ARGUMENTS = frozenset({"arguments", "args", "input"})
# Members whose string is what the type of their event or item says, or the place of it.
TYPED_TEXTS = frozenset({"delta", "input"})
# What stands beside the name of a tool that is offered; beside that of one that is called stand its arguments.
DEFINITIONS = frozenset({"parameters", "input_schema", "inputSchema", "parametersJsonSchema", "description", "strict"})
# In these, too, a name is that of a tool.
TOOLS = frozenset({"tools", "function", "functions", "functionDeclarations", "function_declarations"})
# The tokens of a text, beside it.
LOGPROBS = frozenset({"logprobs", "logprobsResult", "logprobs_result"})
# What may be token ids in the place of a text (those of vLLM: prompt_token_ids, prompt_embeds).
PROMPTS, PROMPT_VECTORS = ("prompt", "input", "prompt_token_ids"), "prompt_embeds"
MIN_CALL_NUMBER = 10**7  # shorter ones say nothing about anybody
# A file in one of these members that is longer is not searched: a detector would find nothing in base64.
MIN_ENCODED = 4096
FILES = frozenset({"data", "b64_json", "embedding", "file_data", "image", "bytes", "partial_image_b64", "input_audio"})
FILE_URLS = frozenset({"url", "image_url", "document_url"})
# What has files inside. Tools and their results may have members with these names, too: there they are texts.
FILE_PLACES = FILES | FILE_URLS | frozenset({
    *("messages", "message", "content", "contents", "parts", "delta", "choices", "candidates", "source", "audio"),
    *("input", "output", "item", "response", "content_block", "images", "document", "file"),
    *("inlineData", "inline_data"),
})  # fmt: skip
# Of objects of these types no member is the answer itself.
REASONING = frozenset({"reasoning", "thinking", "summary_text", "reasoning_text"})
THOUGHTS = frozenset({"reasoningContent", "thinking"})  # members whose texts are reasoning
ANSWERS = frozenset({"content", "text"})
_BASE64 = re.compile(r"(data:[\w.+/-]{1,100};base64,)?[A-Za-z0-9+/_-]*+={0,2}\s*\Z", re.ASCII)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,31}\Z")


class Kind(Enum):
    """The role of a text in its document."""

    TEXT = "text"
    ANSWER = "answer"  # of an answer: what the model says, and neither its reasoning nor a call
    CALL = "call"  # in the arguments of a tool
    CALL_JSON = "call json"  # the arguments as JSON
    CALL_TEXT = "call text"  # the arguments as one text, of a tool that takes any
    TOOL = "tool"  # the name of a tool
    MIXED = "mixed"  # all of an answer in one, whatever its parts are
    MIXED_PART = "mixed part"  # an event of a stream in one


MIXED_KINDS = frozenset({Kind.MIXED, Kind.MIXED_PART})
WHOLE_ANSWER_KINDS = frozenset({Kind.ANSWER, Kind.MIXED})
ANSWER_KINDS = MIXED_KINDS | {Kind.ANSWER}
CALL_KINDS = MIXED_KINDS | {Kind.CALL, Kind.CALL_JSON, Kind.CALL_TEXT}
# Where a text stands: the path before it, and the member or the number of the item.
Path: TypeAlias = "tuple[Path, str | int] | None"
# What becomes of a text.
Visit = Callable[[str, Kind, Path], str]


def rewrite_texts(value: object, visit: Visit, path: Path = None, member: str = "", *, in_call: bool = False) -> Any:
    """The document with each text as `visit` returns it: the same object if nothing changes."""
    if isinstance(value, str):
        is_code = member in CODES and not in_call and _is_code(member, value, path)
        return value if is_code else visit(value, _kind(member, in_call), path)
    if isinstance(value, dict):
        return _rewrite_object(value, visit, path, in_call=in_call or member in ARGUMENTS)
    if isinstance(value, list):
        return _rewrite_list(value, visit, path, member, in_call=in_call)
    if in_call and isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= MIN_CALL_NUMBER:
        text = str(value)
        new = visit(text, Kind.CALL, path)
        return value if new == text else new
    return value


def _is_code(member: str, value: str, path: Path) -> bool:
    """Whether a string of a member in CODES is one: not where members have names of the client's own."""
    if member == REQUIRED:
        return _PLAIN_NAME.match(value) is not None
    while path is not None:
        path, place = path
        if place in OWN_NAMES or (place == "response" and path is not None and path[1] in TOOL_RESULTS):
            return False
    return True


def _kind(member: str, in_call: bool) -> Kind:
    if in_call:
        return Kind.CALL
    if member in JSON_TEXTS:
        return Kind.CALL_JSON
    return Kind.ANSWER if member in ANSWERS else Kind.TEXT


def _rewrite_object(members: JsonObject, visit: Visit, path: Path, *, in_call: bool) -> JsonObject:
    changes: JsonObject = {}
    names: dict[str, str] = {}
    kind = Kind.CALL if in_call else Kind.TEXT
    for name, item in members.items():
        if not _PLAIN_NAME.match(name) and (new_name := visit(name, kind, (path, name))) != name:
            names[name] = new_name
        if isinstance(item, str | dict | list) or in_call:
            new = _rewrite_member(members, name, item, visit, path, in_call=in_call)
            if new is not item:
                changes[name] = new
    if names:
        return {names.get(name, name): changes.get(name, item) for name, item in members.items()}
    return {**members, **changes} if changes else members


def _rewrite_member(members: JsonObject, name: str, item: object, visit: Visit, path: Path, *, in_call: bool) -> Any:
    if name == "name" and not in_call and isinstance(item, str) and _is_of_tool(members, path):
        return visit(item, Kind.TOOL, (path, name))
    if name in TYPED_TEXTS and isinstance(item, str) and not in_call and (kind := _kind_by_type(members, name, path)):
        return visit(item, kind, (path, name))
    if isinstance(item, str) and len(item) >= MIN_ENCODED and not in_call and _is_file(members, name, item, path):
        return item
    is_aside = name in ANSWERS and (in_call or _is_thought(members, path))
    return rewrite_texts(item, visit, (path, name), "" if is_aside else name, in_call=in_call)


def _is_thought(members: JsonObject, path: Path) -> bool:
    """Whether a text is reasoning, by the type or the mark of its object, or by what that stands in."""
    return members.get("type") in REASONING or members.get("thought") is True or _stands_in(path, THOUGHTS)


def _stands_in(path: Path, names: frozenset[str]) -> bool:
    while path is not None:
        path, member = path
        if member in names:
            return True
    return False


def _kind_by_type(members: JsonObject, name: str, path: Path) -> Kind | None:
    """What a text is, if the type of its event or item says so, or its place."""
    type_ = members.get("type")
    type_ = type_ if isinstance(type_, str) else ""
    if name == "delta" and type_.endswith(("output_text.delta", "arguments.delta")):
        return Kind.ANSWER if type_.endswith("output_text.delta") else Kind.CALL_JSON
    is_custom = "custom_tool_call" in type_ or (path is not None and path[1] == "custom")
    return Kind.CALL_TEXT if is_custom else None


def _is_of_tool(members: JsonObject, path: Path) -> bool:
    """Whether these are the members of a tool that is called or offered, by what they are, or where they stand."""
    if "role" in members:  # a message has the name of who says it
        return False
    return not (ARGUMENTS.isdisjoint(members) and DEFINITIONS.isdisjoint(members)) or _stands_in(path, TOOLS)


def _rewrite_list(items: list[object], visit: Visit, path: Path, member: str, *, in_call: bool) -> list[object]:
    result: list[object] | None = None
    for place, item in enumerate(items):
        if isinstance(item, str | dict | list) or in_call:
            number = item.get("index", place) if isinstance(item, dict) else place
            own_member = member if isinstance(item, str) else ""
            new = rewrite_texts(item, visit, (path, number), own_member, in_call=in_call)
            if new is not item:
                result = items.copy() if result is None else result
                result[place] = new
    return items if result is None else result


def _is_file(members: JsonObject, name: str, text: str, path: Path) -> bool:
    """Whether a member is a file in base64, by its name, what it stands in, and its characters."""
    if name not in FILES | FILE_URLS or members.get("type") == "text" or not _may_have_files(path):
        return False
    encoded = _BASE64.match(text)
    return encoded is not None and (name in FILES or encoded[1] is not None)


def _may_have_files(path: Path) -> bool:
    while path is not None:
        path, member = path
        if isinstance(member, str) and member not in FILE_PLACES:
            return False
    return True


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
    """JSON without escapes that hide letters, also where it is cut off or repeats a name."""
    if "\\u" not in text and "\\/" not in text:
        return text
    escapes = Escapes()
    return escapes.read(text) + escapes.end()


def _valid_json(new: str, before: str, visit: Visit, path: Path) -> str:
    """The new text if it is still JSON; otherwise the text before, with each of its values rewritten by itself.

    If something is still found there, for example because a name says what a value is, the new text is used: it is
    not JSON, but safe.
    """
    try:
        loads(new)
        return new
    except JSONDecodeError:
        pass
    except (ValueError, RecursionError):  # a very long number, or too deep
        return new
    try:
        value = loads(before)
        text = _json_text(rewrite_texts(value, visit, path, in_call=True))
    except (ValueError, RecursionError):
        return new
    return text if text != _json_text(value) and visit(text, Kind.CALL_JSON, path) == text else new


def _json_text(value: object) -> str:
    """JSON with its letters; halves of surrogate pairs, which have no bytes, as escapes."""
    return _HALF_PAIR.sub(lambda half: f"\\u{ord(half[0]):04x}", dumps(value, ensure_ascii=False))


def has_token_ids(body: JsonObject) -> bool:
    """Whether a request has texts that nobody can read without the model: token ids, or vectors in their place."""
    return any(_has_numbers(body.get(name)) for name in PROMPTS) or bool(body.get(PROMPT_VECTORS))


def _has_numbers(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(one, int | float) or _has_numbers(one) for one in value)


def without_logprobs(value: object) -> Any:
    """The document without the tokens beside its text, which would still spell what was taken out."""
    if isinstance(value, list):
        return [without_logprobs(item) for item in value]
    if isinstance(value, dict):
        return {name: _empty(item) if name in LOGPROBS else without_logprobs(item) for name, item in value.items()}
    return value


def _empty(item: object) -> list[object] | None:
    return [] if isinstance(item, list) else None
