"""Conversations for providers that require alternating turns, and tool results in user turns."""

from gateway_project.errors import ValidationError
from providers.formats.neutral.chat import Chat, Tool
from providers.formats.neutral.messages import Message, Part, Reasoning, Refusal, Role, Text, ToolCall, ToolResult
from providers.formats.parts import answers_as_text


def alternate_turns(messages: list[Message], source: str) -> list[Message]:
    """The messages as alternating turns of user and assistant; neighbours of one role are merged.

    Tool results come first in their turn, and images of an answer move to the user turn. Texts of white space, which
    these providers refuse, and thoughts of other formats than `source` are left out. A final assistant turn loses white
    space at its end, for the same reason. Raises ValidationError if nothing is left.
    """
    turns: list[Message] = []
    for message in answers_as_text(messages):
        role: Role = "assistant" if message.role == "assistant" else "user"
        parts = [_as_text(part) for part in message.parts if _says_something(part, source)]
        if not parts:
            continue
        if turns and turns[-1].role == role:
            turns[-1].parts += parts
        else:
            turns.append(Message(role, parts))
    if not turns:
        raise ValidationError("The messages contain nothing that the model could answer.", field="messages")
    for turn in turns:
        if turn.role == "user" and len(turn.parts) > 1:
            turn.parts.sort(key=_is_no_result)
    _trim_end(turns[-1])
    return turns


def called_tools(chat: Chat) -> list[Tool]:
    """A tool for each name that the conversation calls: providers refuse calls without tools."""
    names = {part.name: None for message in chat.messages for part in message.parts if isinstance(part, ToolCall)}
    return [Tool(name) for name in names]


def is_blank(part: Part) -> bool:
    """Whether the part is a text of white space."""
    return isinstance(part, Text | Refusal) and not part.text.strip()


def _says_something(part: Part, source: str) -> bool:
    return part.source == source if isinstance(part, Reasoning) else not is_blank(part)


def _as_text(part: Part) -> Part:
    return Text(part.text) if isinstance(part, Refusal) else part


def _is_no_result(part: Part) -> bool:
    return not isinstance(part, ToolResult)


def _trim_end(turn: Message) -> None:
    last = turn.parts[-1]
    if turn.role == "assistant" and isinstance(last, Text):
        turn.parts[-1] = Text(last.text.rstrip(), last.cache)
