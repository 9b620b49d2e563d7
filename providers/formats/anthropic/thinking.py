"""How much a Claude model thinks, and which sampling parameters it takes.

Older models take a budget in tokens, newer ones an effort.
"""

from gateway_project.json_types import JsonObject
from providers.formats.anthropic.models import claude
from providers.formats.anthropic.request import NAME
from providers.formats.neutral.chat import FORCING, Chat, OutputKind, Thinking
from providers.formats.neutral.messages import Reasoning, ToolCall

LEAST_BUDGET = 1024
# The share of max_tokens for each effort, as in OpenRouter's documentation (reasoning tokens).
SHARES = {"minimal": 0.1, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.95, "max": 0.95}
EFFORTS = {"minimal": "low"}  # the others have the same name
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
EITHER = frozenset({"temperature", "top_p"})
LEAST_TOP_P = 0.95  # while a model thinks (Anthropic's documentation, extended thinking, feature compatibility)


def unsupported_parameters(chat: Chat, model: str) -> set[str]:
    """Known parameters of the conversation that this model does not take."""
    unsupported = SAMPLING if not claude(model).samples else frozenset()
    present = {name for name in unsupported if getattr(chat, name) is not None}
    free = chat.output is not None and chat.output.kind == OutputKind.JSON  # JSON without a schema
    return present | {"response_format"} if free else present


def thinking_of(chat: Chat, model: str, max_tokens: int, source: str = NAME) -> tuple[JsonObject | None, str]:
    """The parameter `thinking` (None: left out), and the effort in `output_config` ('': left out)."""
    thinking, about = chat.thinking, claude(model)
    if thinking is None or not can_think(chat, model, source):
        return None, ""
    if _is_turned_off(thinking):
        return None if about.rests else {"type": "disabled"}, ""
    if about.thinking == "budget":
        return {"type": "enabled", "budget_tokens": _budget(thinking, max_tokens)}, ""
    return None if _is_forced(chat) else {"type": "adaptive"}, EFFORTS.get(thinking.effort, thinking.effort)


def sampling_of(chat: Chat, model: str, source: str = NAME) -> set[str]:
    """The client's sampling parameters that the model takes in this conversation."""
    if not claude(model).samples:
        return set()
    wide = chat.top_p is not None and chat.top_p >= LEAST_TOP_P
    takes = (
        {"temperature": chat.temperature == 1, "top_p": wide, "top_k": False}
        if _will_think(chat, model, source)
        else {}
    )
    names = {name for name in SAMPLING if getattr(chat, name) is not None and takes.get(name, True)}
    if claude(model).either and names >= EITHER:
        names.remove("temperature" if chat.temperature == 1 else "top_p")  # 1 is the default
    return names


def conflicting_sampling(chat: Chat, model: str, source: str = NAME) -> set[str]:
    """The client's sampling parameters that conflict with thinking, or with each other."""
    if not claude(model).samples:
        return set()
    return {name for name in SAMPLING if getattr(chat, name) is not None} - sampling_of(chat, model, source)


def _will_think(chat: Chat, model: str, source: str) -> bool:
    thinking, _ = thinking_of(chat, model, LEAST_BUDGET, source)
    return thinking is not None and thinking["type"] != "disabled"


def can_think(chat: Chat, model: str, source: str = NAME) -> bool:
    """Whether the model can think as the client wants in this conversation; true if the client does not say.

    `source` is the format of the request: the history must contain thoughts of this format.
    """
    thinking, about = chat.thinking, claude(model, on_bedrock=source != NAME)
    if thinking is None:
        return True
    if _is_turned_off(thinking):
        return not about.always_thinks
    if about.thinking == "budget":
        has_room = chat.max_tokens is None or chat.max_tokens > LEAST_BUDGET
        return has_room and not _is_forced(chat) and not _lacks_thoughts(chat, source)
    return about.thinking == "adaptive"


def _budget(thinking: Thinking, max_tokens: int) -> int:
    """The tokens for thinking: fewer than max_tokens, to leave some for the answer."""
    tokens = thinking.budget or int(max_tokens * SHARES.get(thinking.effort, 0.5))
    return max(min(tokens, max_tokens - 1), LEAST_BUDGET)


def _is_turned_off(thinking: Thinking) -> bool:
    return thinking.enabled is False or thinking.effort == "none"


def _is_forced(chat: Chat) -> bool:
    """Whether the answer must be a tool call: then the model cannot think before it."""
    return chat.tool_choice is not None and chat.tool_choice.mode in FORCING


def _lacks_thoughts(chat: Chat, source: str) -> bool:
    """Whether the model's last turn has tool calls, but not the thoughts that led to them.

    A model with a budget accepts tool results only after its own signed thoughts. Clients of other shapes often do not
    keep these.
    """
    for message in reversed(chat.messages):
        if message.role == "assistant":
            called = any(isinstance(part, ToolCall) for part in message.parts)
            return called and not any(isinstance(part, Reasoning) and part.source == source for part in message.parts)
    return False
