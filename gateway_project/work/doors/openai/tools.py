"""Tools and the choice of them, as OpenAI's clients write them: `nested` in chats, flat in Responses."""

from gateway_project.json_types import JsonObject
from gateway_project.work.doors import fields
from gateway_project.work.doors.fields import invalid_field, optional, required
from providers.formats.neutral.chat import Chat, Tool, ToolChoice, ToolMode
from providers.formats.translated import TOOLS_PREFIX

WHERE = "tool_choice"
MODE = fields.one_of("none", "auto", "required")
ALLOWED_MODE = fields.one_of("auto", "required")


def read_tools(chat: Chat, body: JsonObject, *, nested: bool) -> None:
    """Set the functions and the choice of tools; tools of other types become unknown parameters."""
    for number, tool in enumerate(optional(body, "tools", fields.items, "", [])):
        where = f"tools[{number}]"
        kind = _kind(tool, where) if nested else required(tool, "type", fields.non_empty, where)
        if kind == "function":
            chat.tools.append(_function(tool, where, nested))
        else:
            chat.extra.setdefault(TOOLS_PREFIX + kind, []).append(tool)
    take_choice(chat, nested=nested)


def _kind(tool: JsonObject, where: str) -> str:
    """A tool's type; Google's tools have none: their only field names them."""
    if "type" not in tool and len(tool) == 1 and "function" not in tool:
        return next(iter(tool))
    return required(tool, "type", fields.non_empty, where)


def _function(tool: JsonObject, where: str, nested: bool) -> Tool:
    function, inside = (
        (required(tool, "function", fields.mapping, where), f"{where}.function") if nested else (tool, where)
    )
    return Tool(
        required(function, "name", fields.non_empty, inside),
        optional(function, "description", fields.text, inside, ""),
        optional(function, "parameters", fields.mapping, inside),
        optional(function, "strict", fields.boolean, inside),
        optional(tool, "cache_control", fields.mapping, where) if nested else None,
    )


def take_choice(chat: Chat, *, nested: bool) -> None:
    """Move the choice from the chat's unknown parameters to `tool_choice`; one of an unknown type stays."""
    choice = chat.extra.get(WHERE)
    if choice is None:
        return
    chat.tool_choice = _read(chat, choice, nested)
    if chat.tool_choice is not None:
        del chat.extra[WHERE]
    elif not nested:  # in a body of another shape it would mean something else: no format knows this name
        chat.extra[f"{WHERE}.{choice.get('type')}"] = chat.extra.pop(WHERE)


def _read(chat: Chat, choice: object, nested: bool) -> ToolChoice | None:
    if type(choice) is str:
        return ToolChoice(ToolMode(MODE(choice, WHERE)))
    value = fields.mapping(choice, WHERE)
    kind = value.get("type")
    if kind == "function":
        return ToolChoice(ToolMode.TOOL, _name(value, WHERE, nested))
    return _read_allowed_tools(chat, *_inner_members(value, WHERE, nested), nested) if kind == "allowed_tools" else None


def _read_allowed_tools(chat: Chat, value: JsonObject, where: str, nested: bool) -> ToolChoice | None:
    mode, tools = required(value, "mode", ALLOWED_MODE, where), required(value, "tools", fields.items, where)
    if any(tool.get("type") != "function" for tool in tools):
        return None
    names = [_name(tool, f"{where}.tools[{number}]", nested) for number, tool in enumerate(tools)]
    if not names or not set(names) <= {tool.name for tool in chat.tools}:
        raise invalid_field(f"{where}.tools", "a non-empty list of tools that the list tools contains")
    return ToolChoice(ToolMode(mode), allowed=names)


def _name(value: JsonObject, where: str, nested: bool) -> str:
    function, where = _inner_members(value, where, nested)
    return required(function, "name", fields.non_empty, where)


def _inner_members(value: JsonObject, where: str, nested: bool) -> tuple[JsonObject, str]:
    """The members beside the type: in chats they are in a field that is named like the type."""
    kind = value["type"]
    return (required(value, kind, fields.mapping, where), f"{where}.{kind}") if nested else (value, where)
