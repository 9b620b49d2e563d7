"""A whole answer of Gemini (GenerateContentResponse) as a neutral reply: parts, usage, finish reason."""

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.gemini.grounding import GROUNDING, citations_of
from providers.formats.gemini.request import NAME
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral.messages import Image, Part, Reasoning, Text, ToolCall, Verbatim
from providers.formats.neutral.reply import FinishReason, Reply
from providers.formats.parts import arguments_text, derived_call_id, normalise_reason, text_of
from providers.formats.usage import Usage, count_or_zero, read_count

FINISH_REASONS = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "MALFORMED_FUNCTION_CALL": FinishReason.ERROR,
    "UNEXPECTED_TOOL_CALL": FinishReason.ERROR,
    "TOO_MANY_TOOL_CALLS": FinishReason.ERROR,
    "NO_IMAGE": FinishReason.ERROR,
    "OTHER": FinishReason.ERROR,
} | dict.fromkeys(
    (
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "LANGUAGE",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_OTHER",
    ),
    FinishReason.FILTER,
)


def read_reply(value: JsonObject) -> Reply:
    """The reply in an answer's body. Raises ProviderError for a body without one."""
    reply_id = as_text(value.get("responseId"))
    reply = Reply(id=reply_id, model=as_text(value.get("modelVersion")), usage=usage_of(value.get("usageMetadata")))
    candidate = candidate_of(value)
    if candidate is None:
        reply.provider_finish_reason = block_reason(value)
        if not reply.provider_finish_reason:
            raise ProviderError("The provider answered 200 without candidates.")
        reply.finish_reason = FinishReason.FILTER
        return reply
    begins: dict[int, int] = {}  # the position of each part's text in the whole text
    size = 0
    for number, part in enumerate(parts_of(candidate)):
        _add_parts(reply.parts, read := _read_part(part, reply_id, number))
        begins[number], size = size, size + len(text_of(read))
    if grounding := candidate.get(GROUNDING):
        reply.citations, reply.dropped_kinds = citations_of(grounding, reply.text, begins)
    calls = any(isinstance(part, ToolCall) for part in reply.parts)
    reply.provider_finish_reason = as_text(candidate.get("finishReason"))
    reply.finish_reason = normalise_reason(FINISH_REASONS, reply.provider_finish_reason, called=calls)
    return reply


def _add_parts(parts: list[Part], more: list[Part]) -> None:
    """Add parts. Consecutive texts are joined: Google splits text anywhere, and many clients read only one part."""
    for part in more:
        if isinstance(part, Text) and parts and isinstance(last := parts[-1], Text):
            parts[-1] = Text(last.text + part.text)
        else:
            parts.append(part)


def usage_of(value: object) -> Usage | None:
    """Usage in disjoint buckets. Google counts thoughts beside the candidates, and cached content in the prompt."""
    if not isinstance(value, dict):
        return None
    prompt, output = read_count(value.get("promptTokenCount")), read_count(value.get("candidatesTokenCount"))
    thoughts, cached = read_count(value.get("thoughtsTokenCount")), read_count(value.get("cachedContentTokenCount"))
    if prompt is None and output is None and thoughts is None:
        return None
    if prompt is not None:
        if cached is not None and cached > prompt:  # the part exceeds the whole: believe the whole
            cached = None
        prompt += (read_count(value.get("toolUsePromptTokenCount")) or 0) - (cached or 0)
    visible, hidden = (count_or_zero(value.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount"))
    return Usage(prompt, cached, None, None if visible is None or hidden is None else visible + hidden, thoughts)


def candidate_of(value: JsonObject) -> JsonObject | None:
    """The first candidate; None without one."""
    candidates = value.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return first if isinstance(first, dict) else None


def block_reason(value: JsonObject) -> str:
    """Why Google blocked the prompt; '' if it did not."""
    return as_text(as_dict(value.get("promptFeedback")).get("blockReason"))


def parts_of(candidate: JsonObject) -> list[JsonObject]:
    """The candidate's parts, without drafts of images, which the model makes while it thinks."""
    parts = as_dict(candidate.get("content")).get("parts")
    return [part for part in as_list(parts) if isinstance(part, dict) and not _is_draft(part)]


def _is_draft(part: JsonObject) -> bool:
    return part.get("thought") is True and "inlineData" in part


def _read_part(part: JsonObject, reply_id: str, number: int) -> list[Part]:
    signature = as_text(part.get("thoughtSignature"))
    if part.get("thought") is True:
        return [Reasoning(as_text(part.get("text")), signature, source=NAME)]
    signed: list[Part] = [Reasoning(signature=signature, source=NAME)] if signature else []
    if isinstance(part.get("text"), str):
        return [Text(part["text"])] * bool(part["text"]) + signed
    if isinstance(part.get("functionCall"), dict):
        return [tool_call(part, reply_id, number)]
    if image := image_of(part):
        return [image, *signed]
    return [Verbatim(part, NAME)]


def image_of(part: JsonObject) -> Image | None:
    """The image in a part; None for anything else."""
    data = as_dict(part.get("inlineData"))
    kind = as_text(data.get("mimeType"))
    return Image(data=as_text(data.get("data")), media_type=kind) if kind.startswith("image/") else None


def tool_call(part: JsonObject, reply_id: str, number: int) -> ToolCall:
    """A tool call. One without an id gets the same id each time that this answer is read."""
    call = part["functionCall"]
    name, arguments = as_text(call.get("name")), arguments_text(call.get("args") or {})
    call_id = as_text(call.get("id")) or derived_call_id(reply_id, str(number), name, arguments)
    return ToolCall(call_id, name, arguments, as_text(part.get("thoughtSignature")))
