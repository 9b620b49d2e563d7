"""A neutral conversation as OpenAI's chat completions take it: messages, tools, form of the answer, effort."""

import re

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.neutral.chat import Chat, OutputKind, Thinking, Tool, ToolMode
from providers.formats.neutral.deltas import ReasoningDelta
from providers.formats.neutral.messages import (
    File,
    Image,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Verbatim,
)
from providers.formats.parts import (
    answers_as_text,
    paragraphs_of,
    result_text,
    results_as_text,
    split_results,
    unsupported_part,
)

DIALECT = "openai-chat"
# Providers send thoughts in different fields. Each goes back in the field that it came in.
THOUGHTS = {"openai": "reasoning_content", "openai.reasoning": "reasoning"}
# Models that think before they answer, with or without a vendor's name before their own (openai-python, August 2026).
REASONING_MODELS = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[5-9]|\d\d)|codex)")
AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav"}
# The largest budget in tokens of each effort; above these it is high.
EFFORTS = ((2048, "low"), (8192, "medium"))


def messages_of(chat: Chat) -> list[JsonObject]:
    """The messages. Pictures of tools or of other models follow in a user message."""
    turns: list[JsonObject] = []
    for message in answers_as_text(results_as_text(chat.messages)):
        results, others = split_results(message)
        turns += [_result(result) for result in results]
        if others or not results:
            turns += WRITERS[message.role](others, message.name)
    return turns


def _result(result: ToolResult) -> JsonObject:
    return {"role": "tool", "tool_call_id": result.call_id, "content": result_text(result)}


def _system_message(parts: list[Part], name: str = "") -> list[JsonObject]:
    return [{"role": "system", "content": paragraphs_of(parts)}]


def _user_message(parts: list[Part], name: str = "") -> list[JsonObject]:
    if not parts:
        return []
    content = [_part(part) for part in parts]
    only = parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else None
    message: JsonObject = {"role": "user", "content": content if only is None else only}
    return [message | {"name": name}] if name else [message]


# The parts that an assistant message can have.
ASSISTANTS = (Text, Refusal, ToolCall, Reasoning)


def _assistant(parts: list[Part], name: str = "") -> list[JsonObject]:
    """An assistant message, without thoughts of other providers' models."""
    if misfit := next((part for part in parts if not isinstance(part, ASSISTANTS)), None):
        raise unsupported_part(misfit)
    message: JsonObject = {"role": "assistant", "content": None}
    if texts := [part.text for part in parts if isinstance(part, Text)]:
        message["content"] = "".join(texts)
    if refusal := "".join(part.text for part in parts if isinstance(part, Refusal)):
        message["refusal"] = refusal
    if calls := [write_call(part) for part in parts if isinstance(part, ToolCall)]:
        message["tool_calls"] = calls
    if len(message) == 2 and message["content"] is None:
        return []
    message |= _format_thoughts([part for part in parts if isinstance(part, Reasoning)])
    return [message | {"name": name}] if name else [message]


WRITERS = {"system": _system_message, "user": _user_message, "assistant": _assistant, "tool": _user_message}


def _format_thoughts(thoughts: list[Reasoning]) -> JsonObject:
    """The thoughts, each in the field that it came in."""
    fields: dict[str, list[str]] = {}
    details: list[JsonObject] = []
    for thought in thoughts:
        if thought.source.endswith("-v1") or (thought.source in THOUGHTS and (thought.signature or thought.data)):
            details.append(write_thought(thought, len(details)))
        elif name := THOUGHTS.get(thought.source):
            fields.setdefault(name, []).append(thought.text)
    joined = {name: "".join(texts) for name, texts in fields.items()}
    return joined | ({"reasoning_details": details} if details else {})


def write_thought(thought: Reasoning | ReasoningDelta, index: int) -> JsonObject:
    """A thought with its signature, or a piece of one, in OpenRouter's shape."""
    detail: JsonObject = {"type": "reasoning.text", "text": thought.text}
    if thought.data:
        detail = {"type": "reasoning.encrypted", "data": thought.data}
    if thought.signature:
        detail["signature"] = thought.signature
    if isinstance(thought, Reasoning) and thought.id:
        detail["id"] = thought.id
    return detail | {"format": thought.source, "index": index}


def write_call(call: ToolCall, *, nothing: str = "{}") -> JsonObject:
    """A call; `nothing` replaces missing arguments. The signature is where Google's OpenAI-compatible API has it."""
    function = {"name": call.name, "arguments": call.arguments or nothing}
    body: JsonObject = {"id": call.id, "type": "function", "function": function}
    if call.signature:
        body["extra_content"] = {"google": {"thought_signature": call.signature}}
    return body


def _part(part: Part) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image):
        image = {"url": image_url(part)}
        return {"type": "image_url", "image_url": image | ({"detail": part.detail} if part.detail else {})}
    if isinstance(part, File):
        return _file(part)
    if isinstance(part, Verbatim) and part.source == DIALECT:
        return part.value
    raise unsupported_part(part)


def image_url(image: Image) -> str:
    """The address of an image; a data URL if it has none."""
    return image.url or f"data:{image.media_type};base64,{image.data}"


def _file(part: File) -> JsonObject:
    if part.id:
        return {"type": "file", "file": {"file_id": part.id}}
    if not part.data:
        raise ValidationError("messages: this provider takes files only with their content, not as addresses.")
    if kind := AUDIO_FORMATS.get(part.media_type):
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": kind}}
    content = f"data:{part.media_type};base64,{part.data}" if part.media_type else part.data
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": content}}


def tools_of(chat: Chat) -> list[JsonObject]:
    """The functions that the model may call."""
    return [{"type": "function", "function": _function(tool)} for tool in chat.tools]


def _function(tool: Tool) -> JsonObject:
    fields = {"description": tool.description or None, "parameters": _parameters(tool.schema), "strict": tool.strict}
    return {"name": tool.name} | {name: value for name, value in fields.items() if value is not None}


def _parameters(schema: JsonObject | None) -> JsonObject | None:
    """The schema of a function's arguments: OpenAI refuses an object without `properties`."""
    if schema is None or isinstance(schema.get("properties"), dict):
        return schema
    return {"type": "object", **schema, "properties": {}}


def tool_choice_of(chat: Chat) -> str | JsonObject | None:
    """The choice of tools."""
    choice = chat.tool_choice
    if choice is None or not chat.tools:
        return None
    if choice.allowed:
        allowed = {"mode": choice.mode, "tools": [_function_choice(name) for name in choice.allowed]}
        return {"type": "allowed_tools", "allowed_tools": allowed}
    return _function_choice(choice.name) if choice.mode == ToolMode.TOOL else choice.mode


def _function_choice(name: str) -> JsonObject:
    return {"type": "function", "function": {"name": name}}


def response_format_of(chat: Chat) -> JsonObject | None:
    """The form of the answer."""
    output = chat.output
    if output is None:
        return None
    if output.kind == OutputKind.JSON:
        return {"type": "json_object"}
    fields = {"schema": output.schema, "strict": output.strict, "description": output.description or None}
    schema = {"name": output.name or "answer"} | {name: value for name, value in fields.items() if value is not None}
    return {"type": "json_schema", "json_schema": schema}


def effort_of(thinking: Thinking | None, model: str) -> str | None:
    """The effort: the client's, or one for the client's budget if the model is known to think."""
    if thinking is None or thinking.effort or thinking.budget is None or not REASONING_MODELS.match(model):
        return thinking.effort or None if thinking is not None else None
    return next((effort for most, effort in EFFORTS if thinking.budget <= most), "high")
