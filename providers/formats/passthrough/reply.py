"""Usage, text and finish reason of any JSON service, read from familiar places."""

from gateway_project.json_types import JsonObject
from providers.formats.anthropic import reply as anthropic
from providers.formats.neutral.reply import FinishReason
from providers.formats.openai import responses as openai_responses
from providers.formats.openai.reply import FINISH_REASONS, usage_of
from providers.formats.usage import Usage


def familiar_usage(value: JsonObject) -> Usage | None:
    """Usage as OpenAI or Anthropic write it."""
    usage = value.get("usage")
    if not isinstance(usage, dict):
        return None
    if "input_tokens" not in usage and "output_tokens" not in usage:
        return usage_of(usage)
    if "input_tokens_details" in usage:
        return openai_responses.usage_of(usage)
    return anthropic.usage_of(usage)


def familiar_text(value: JsonObject) -> str:
    """The text of an answer, or of a piece of one, as OpenAI, Anthropic, Ollama or Cohere write it."""
    choices = value.get("choices")
    inner = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else value
    inner = next((holder for name in ("message", "delta") if isinstance(holder := inner.get(name), dict)), inner)
    text = next((inner[name] for name in ("content", "text", "response") if inner.get(name)), "")
    parts = text if isinstance(text, list) else [text]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def familiar_finish(value: JsonObject) -> tuple[str, FinishReason]:
    """The finish reason in the provider's words, and normalised."""
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else value
    reason = first.get("finish_reason") or first.get("stop_reason")
    if not isinstance(reason, str):
        return "", FinishReason.UNKNOWN
    return reason, FINISH_REASONS.get(reason, FinishReason.OTHER)
