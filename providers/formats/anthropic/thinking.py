"""What a Claude model takes no parameter for, and how much it is to think.

By budget for the older ones, by effort for those that decide themselves.
"""

from gateway_project.json_types import JsonObject
from providers.formats.anthropic.blocks import SOURCE
from providers.formats.anthropic.models import claude
from providers.formats.neutral import Chat, Reasoning, Thinking, ToolCall

LEAST_BUDGET = 1024
# The share of max_tokens that an effort stands for, as OpenRouter has it (docs, reasoning tokens).
SHARES = {"minimal": 0.1, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.95, "max": 0.95}
EFFORTS = {"minimal": "low"}  # every other one is called the same
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
EITHER = frozenset({"temperature", "top_p"})
LEAST_TOP_P = 0.95  # of a model that thinks (Anthropic's documentation, extended thinking, feature compatibility)


def unsupported_parameters(chat: Chat, model: str) -> set[str]:
    """Parameters of the conversation that are known and that no Claude, or not this one, takes."""
    lost = SAMPLING if not claude(model).samples else frozenset()
    named = {name for name in lost if getattr(chat, name) is not None}
    free = chat.output is not None and chat.output.kind == "json"  # there is only the kind with a schema
    return named | {"response_format"} if free else named


def thinking_of(chat: Chat, model: str, max_tokens: int, source: str = SOURCE) -> tuple[JsonObject | None, str]:
    """The parameter `thinking`, and the effort in `output_config`; None and '' where nothing is to be said."""
    thinking, about = chat.thinking, claude(model)
    if thinking is None or not can_think(chat, model, source):
        return None, ""
    if _unwanted(thinking):
        return None if about.rests else {"type": "disabled"}, ""
    if about.thinking == "budget":
        return {"type": "enabled", "budget_tokens": _budget(thinking, max_tokens)}, ""
    return None if _is_forced(chat) else {"type": "adaptive"}, EFFORTS.get(thinking.effort, thinking.effort)


def sampling_of(chat: Chat, model: str, source: str = SOURCE) -> set[str]:
    """What the client says of how the next token is chosen, as far as the model takes it."""
    if not claude(model).samples:
        return set()
    wide = chat.top_p is not None and chat.top_p >= LEAST_TOP_P
    takes = (
        {"temperature": chat.temperature == 1, "top_p": wide, "top_k": False} if _thinks(chat, model, source) else {}
    )
    names = {name for name in SAMPLING if getattr(chat, name) is not None and takes.get(name, True)}
    if claude(model).either and names >= EITHER:
        names.remove("temperature" if chat.temperature == 1 else "top_p")  # 1 is what it has by itself
    return names


def conflicting_sampling(chat: Chat, model: str, source: str = SOURCE) -> set[str]:
    """What the client says of it that the model would take if it did not think, or were not told it twice."""
    if not claude(model).samples:
        return set()
    return {name for name in SAMPLING if getattr(chat, name) is not None} - sampling_of(chat, model, source)


def _thinks(chat: Chat, model: str, source: str) -> bool:
    thinking, _ = thinking_of(chat, model, LEAST_BUDGET, source)
    return thinking is not None and thinking["type"] != "disabled"


def can_think(chat: Chat, model: str, source: str = SOURCE) -> bool:
    """Whether what the client wants of thinking can be had in this conversation; true where it wants nothing.

    `source` is the format that the model is asked by: whose thoughts the history has to hold.
    """
    thinking, about = chat.thinking, claude(model, on_bedrock=source != SOURCE)
    if thinking is None:
        return True
    if _unwanted(thinking):
        return not about.always_thinks
    if about.thinking == "budget":
        has_room = chat.max_tokens is None or chat.max_tokens > LEAST_BUDGET
        return has_room and not _is_forced(chat) and not _lacks_thoughts(chat, source)
    return about.thinking == "adaptive"


def _budget(thinking: Thinking, max_tokens: int) -> int:
    """The tokens to think with: fewer than all, so that something is left for the answer."""
    tokens = thinking.budget or int(max_tokens * SHARES.get(thinking.effort, 0.5))
    return max(min(tokens, max_tokens - 1), LEAST_BUDGET)


def _unwanted(thinking: Thinking) -> bool:
    return thinking.enabled is False or thinking.effort == "none"


def _is_forced(chat: Chat) -> bool:
    """Whether the answer has to be a call: a model that must call cannot think before it."""
    return chat.tool_choice is not None and chat.tool_choice.kind in ("required", "tool")


def _lacks_thoughts(chat: Chat, source: str) -> bool:
    """Whether the model's last turn made calls, and the thoughts that led to them are not there.

    A model with a budget takes the results of calls only behind its own signed thoughts, which clients of other
    shapes often do not keep.
    """
    for message in reversed(chat.messages):
        if message.role == "assistant":
            called = any(isinstance(part, ToolCall) for part in message.parts)
            return called and not any(isinstance(part, Reasoning) and part.source == source for part in message.parts)
    return False
