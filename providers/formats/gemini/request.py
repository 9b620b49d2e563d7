"""A conversation as Gemini takes it: contents that consist of parts, and a generationConfig."""

import re
from urllib.parse import quote

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.neutral.chat import Chat, Thinking, Tool, ToolChoice, ToolMode
from providers.formats.neutral.messages import (
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Verbatim,
)
from providers.formats.parts import (
    arguments_object,
    check_stop_count,
    exact_json,
    lines_of,
    results_as_text,
    unsupported_part,
)
from providers.formats.translated import system_text

NAME = "gemini"
MOST_STOPS = 5
# Parameters that generationConfig has under another name.
CONFIG = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
CALLING_MODES = {ToolMode.AUTO: "AUTO", ToolMode.NONE: "NONE", ToolMode.REQUIRED: "ANY", ToolMode.TOOL: "ANY"}
# Gemini 3 has levels of thinking. It refuses unsigned calls, and unsigned pictures in its own turns. Earlier models
# have neither levels nor signatures.
BEFORE_3 = ("gemini-1", "gemini-2")
LEVELS = {"none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM"}
# The models that have the level MINIMAL. All others refuse it: their lowest is LOW.
WITH_MINIMAL = re.compile(r"gemini-3(?:\.[0-6])?-flash")
# The budgets by which Google's OpenAI-compatible API replaces efforts for these models.
BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192}
MOST_BUDGET = 24576  # that every model takes
ALWAYS_THINKS, LEAST_BUDGET = "gemini-2.5-pro", 128
# Models for which Google fetches no files by address (ai.google.dev, file input methods).
WITHOUT_ADDRESSES = ("gemini-1", "gemini-2.0")
TYPES = {
    "bmp": "image/bmp",
    "csv": "text/csv",
    "gif": "image/gif",
    "htm": "text/html",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "mp4": "video/mp4",
    "pdf": "application/pdf",
    "png": "image/png",
    "txt": "text/plain",
    "webp": "image/webp",
}
INSIDE_ONLY = (
    "messages: this provider takes images and files only as data:TYPE;base64,…. Its newer models also take an "
    "https:// address that ends in the file's type, such as .png."
)
# The signature of calls and pictures that another model made (ai.google.dev, thought signatures).
NO_SIGNATURE = "skip_thought_signature_validator"


def write_chat(chat: Chat, model: str) -> JsonObject:
    """The body of a request, without native parameters. Raises ValidationError for what Gemini cannot take."""
    check_stop_count(chat, MOST_STOPS)
    system, messages = system_text(chat)
    name = model.removeprefix("models/")
    if name.startswith(WITHOUT_ADDRESSES):
        _refuse_addresses(messages)
    signs = not name.startswith(BEFORE_3)
    # Since Gemini 3, tool results may contain pictures.
    body: JsonObject = {"contents": _contents(messages if signs else results_as_text(messages), signs=signs)}
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if config := _config(chat, name):
        body["generationConfig"] = config
    if chat.tools:
        body["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in chat.tools]}]
    if chat.tools and chat.tool_choice is not None:  # without functions Google refuses it
        body["toolConfig"] = {"functionCallingConfig": _call_mode(chat.tool_choice)}
    return body


def model_path(model: str, *, quoted: bool = True) -> str:
    """The model's name in the path, with its kind: models or tunedModels."""
    kind, slash, name = model.partition("/")
    if not slash or kind not in ("models", "tunedModels"):
        kind, name = "models", model
    return f"{kind}/{quote(name, safe='') if quoted else name}"


def _contents(messages: list[Message], *, signs: bool) -> list[JsonObject]:
    """Alternating turns of user and model: consecutive messages of one role become one turn."""
    contents: list[JsonObject] = []
    for message in messages:
        role = "model" if message.role == "assistant" else "user"
        parts = [body for part in message.parts if (body := _write_part(part)) is not None]
        if role == "model" and signs:
            parts = _signed_pictures(parts)
            _mark_unsigned_parts(parts)
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    return contents


def _signed_pictures(parts: list[JsonObject]) -> list[JsonObject]:
    """The parts with signatures moved into their pictures. Other shapes have them in a thought after the picture."""
    signed: list[JsonObject] = []
    for part in parts:
        if part.keys() == {"text", "thoughtSignature"} and signed and signed[-1].keys() == {"inlineData"}:
            signed[-1]["thoughtSignature"] = part["thoughtSignature"]
        else:
            signed.append(part)
    return signed


def _mark_unsigned_parts(parts: list[JsonObject]) -> None:
    """Mark unsigned pictures and calls of a turn as made by another model.

    Of parallel calls only the first needs a signature.
    """
    for picture in (part for part in parts if "inlineData" in part):
        picture.setdefault("thoughtSignature", NO_SIGNATURE)
    calls = [part for part in parts if "functionCall" in part]
    if calls and not any("thoughtSignature" in call for call in calls):
        calls[0]["thoughtSignature"] = NO_SIGNATURE


def _write_part(part: Part) -> JsonObject | None:
    """A part in Gemini's shape; None for parts that it must not get, such as thoughts of another model."""
    match part:
        case Text() | Refusal():
            return {"text": part.text} if part.text else None
        case Image(data=data) | File(data=data) if data:
            return {"inlineData": {"mimeType": part.media_type or "application/octet-stream", "data": data}}
        case File(id=file_id) if file_id:
            return {"fileData": {"fileUri": file_id}}
        case Image() | File():
            return _write_address(part)
        case Reasoning():
            return _write_thought(part) if part.source == NAME else None
        case ToolCall():
            return _write_call(part)
        case ToolResult():
            return _write_result(part)
        case Verbatim(source="gemini"):
            return part.value
    raise unsupported_part(part)


def _write_address(part: Image | File) -> JsonObject:
    """A file that Google fetches itself. It requires the media type."""
    ending = part.url.partition("?")[0].partition("#")[0].rpartition(".")[2].lower()
    kind = part.media_type or TYPES.get(ending) or ("image/jpeg" if isinstance(part, Image) else "")
    if not kind or not part.url.startswith("https://"):
        raise ValidationError(INSIDE_ONLY)
    return {"fileData": {"mimeType": kind, "fileUri": part.url}}


def _refuse_addresses(messages: list[Message]) -> None:
    parts = [part for message in messages for part in message.parts]
    parts += [inner for part in parts if isinstance(part, ToolResult) for inner in part.parts]
    if any(isinstance(part, Image | File) and part.url and not part.data for part in parts):
        raise ValidationError(INSIDE_ONLY)


def _write_thought(thought: Reasoning) -> JsonObject:
    """A thought; a signature alone is written as an empty text, which it belongs to."""
    body: JsonObject = {"text": thought.text}
    if thought.text:
        body["thought"] = True
    if thought.signature:
        body["thoughtSignature"] = thought.signature
    return body


def _write_call(call: ToolCall) -> JsonObject:
    body: JsonObject = {"functionCall": {"id": call.id, "name": call.name, "args": arguments_object(call)}}
    if call.signature:
        body["thoughtSignature"] = call.signature
    return body


def _write_result(result: ToolResult) -> JsonObject:
    if not result.name:
        raise ValidationError(f"messages: there is no tool call with the id {result.call_id!r} before its result.")
    text = lines_of(result.parts)
    response: JsonObject = {"id": result.call_id, "name": result.name}
    value = None if result.is_error else exact_json(text)
    response["response"] = value if isinstance(value, dict) else {"error" if result.is_error else "output": text}
    if others := [_write_part(part) for part in result.parts if not isinstance(part, Text)]:
        response["parts"] = others
    return {"functionResponse": response}


def _config(chat: Chat, model: str) -> JsonObject:
    config = {theirs: value for ours, theirs in CONFIG.items() if (value := getattr(chat, ours)) not in (None, [])}
    if chat.output is not None:
        config["responseMimeType"] = "application/json"
        if chat.output.schema is not None:
            config["responseJsonSchema"] = chat.output.schema
    if chat.thinking is not None and (thinking := _thinking(chat.thinking, model)):
        config["thinkingConfig"] = thinking
    return config


def _thinking(thinking: Thinking, model: str) -> JsonObject:
    effort = "none" if thinking.enabled is False else thinking.effort
    config: JsonObject = {}
    if thinking.budget is not None and effort != "none":
        config["thinkingBudget"] = min(thinking.budget, MOST_BUDGET)
    elif effort and model.startswith(BEFORE_3):
        budget = BUDGETS.get(effort, MOST_BUDGET)
        config["thinkingBudget"] = max(budget, LEAST_BUDGET) if model.startswith(ALWAYS_THINKS) else budget
    elif effort:
        level = LEVELS.get(effort, "HIGH")
        config["thinkingLevel"] = "LOW" if level == "MINIMAL" and not WITH_MINIMAL.match(model) else level
    if thinking.enabled or thinking.budget:
        config["includeThoughts"] = True
    return config


def _declaration(tool: Tool) -> JsonObject:
    declaration: JsonObject = {"name": tool.name}
    if tool.description:
        declaration["description"] = tool.description
    if tool.schema is not None:  # unchanged: the field `parameters` takes only a part of JSON schema
        declaration["parametersJsonSchema"] = tool.schema
    return declaration


def _call_mode(choice: ToolChoice) -> JsonObject:
    calling: JsonObject = {"mode": CALLING_MODES[choice.mode]}
    if choice.name:
        calling["allowedFunctionNames"] = [choice.name]
    return calling
