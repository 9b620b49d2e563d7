"""OpenAI's Responses API, of OpenAI itself and compatible servers: its clients' requests pass unchanged.

Only this format supports conversations that the provider keeps. For servers that have only chat completions, use the
format `openai`: Responses are translated for it.
"""

from collections.abc import Iterable

from gateway_project.errors import GatewayError, ProviderError, ProviderOverloaded, ProviderRejected, UpstreamError
from gateway_project.json_types import JsonObject
from providers.formats.base import (
    CONTEXT_LENGTH_EXCEEDED,
    EVENT_STREAM,
    ClientResponse,
    StreamReader,
    error_message,
    late_rejection,
    read_object,
)
from providers.formats.dialect import WorkRequest
from providers.formats.json_stream import JsonStreamReader
from providers.formats.json_values import as_dict, as_list, as_text, dump_value, read_json
from providers.formats.kept_state import Reference
from providers.formats.neutral.deltas import ReasoningDelta, TextDelta
from providers.formats.neutral.reply import FinishReason
from providers.formats.openai.foreign import SEAL_SPELLING, without_sealed
from providers.formats.openai.format import BILLING_ERRORS, OpenAI, with_member
from providers.formats.openai.kept_state import ids_in, ids_of_item, keeps_state, references_in
from providers.formats.parts import normalise_reason
from providers.formats.usage import Usage, read_count

DIALECT = "openai-responses"
INCOMPLETE = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.FILTER}
# The status of a response that is not complete, such as one that runs in the background.
UNFINISHED = {
    "queued": FinishReason.PAUSE,
    "in_progress": FinishReason.PAUSE,
    "cancelled": FinishReason.ERROR,
    "failed": FinishReason.ERROR,
}
# The codes of a failed response that say that the request is wrong (ResponseError in OpenAI's reference).
REFUSALS = frozenset({
    *("invalid_prompt", "invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url"),
    *("invalid_image_mode", "image_too_large", "image_too_small", "image_parse_error", "image_file_too_large"),
    *("image_content_policy_violation", "unsupported_image_media_type", "empty_image_file", "image_file_not_found"),
    *("failed_to_download_image", CONTEXT_LENGTH_EXCEEDED),
})  # fmt: skip
RATE_LIMITED = "rate_limit_exceeded"
AT_WORK = {status for status, reason in UNFINISHED.items() if reason is FinishReason.PAUSE}
# Events with text that a model generates.
GENERATED_EVENTS = frozenset(
    f"response.{name}.delta"
    for name in (
        *("output_text", "refusal", "reasoning_text", "reasoning_summary_text"),
        *("function_call_arguments", "custom_tool_call_input", "mcp_call_arguments"),
    )
)
# Events of which only the text matters: if nobody needs it, they pass unparsed.
QUIET = (b"event: response.output_text.", b"event: response.function_call_arguments.", b"event: response.reasoning")


class OpenAIResponses(OpenAI):
    """`POST /responses` for clients of this shape, chat completions for all others."""

    name = "openai-responses"
    native_dialects = OpenAI.native_dialects | {DIALECT}

    def path(self, work: WorkRequest, model: str) -> str:
        return "/responses" if work.dialect.name == DIALECT else super().path(work, model)

    def passthrough_body(self, work: WorkRequest, model: str) -> bytes:
        if work.dialect.name != DIALECT:
            return super().passthrough_body(work, model)
        if SEAL_SPELLING in work.raw:
            work = with_member(work, "input", without_sealed(work.body.get("input")))
        return work.body_for(model)

    def references(self, work: WorkRequest) -> tuple[Reference, ...]:
        files = super().references(work)
        return (*references_in(work.body), *files) if work.dialect.name == DIALECT else files

    def is_kept(self, work: WorkRequest) -> bool:
        return work.dialect.name == DIALECT and keeps_state(work.body)

    def answer(self, work: WorkRequest, body: bytes) -> ClientResponse:
        if work.dialect.name != DIALECT:
            return super().answer(work, body)
        value = _read(body)
        if not isinstance(value.get("output"), list):
            raise ProviderError("The provider answered 200 without output.")
        reason, provider_reason = finish_of(value)
        content, kind = (_as_stream(value), EVENT_STREAM) if work.stream else (body, "application/json")
        state_ids = tuple(dict.fromkeys(ids_in(value))) if keeps_state(work.body) else ()
        usage = usage_of_response(value)
        return ClientResponse(content, kind, text_of(value), usage, reason, provider_reason, state_ids=state_ids)

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return ResponsesReader(work) if work.dialect.name == DIALECT else super().native_reader(work)


class ResponsesReader(JsonStreamReader):
    """Reads named, numbered events. The last one has the whole response."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._last = b""  # the last event that was forwarded
        self._response: JsonObject = {}  # as in the first event
        self._is_kept = keeps_state(work.body)

    def end_with_error(self, error: GatewayError, work: WorkRequest | None = None) -> bytes:
        writer = self.work.dialect.writer(self.work)
        writer.resume(as_dict(read_json(self.data(self._last))), self._response)
        return writer.end_with_error(error, work)

    def _event(self, event: bytes) -> bytes:
        if self.deltas is None and event.startswith(QUIET):
            handed_on = b"" if self.is_over else event
        else:
            handed_on = super()._event(event)
        if handed_on and not handed_on.startswith(b":"):  # not a comment, which only keeps the connection open
            self._last = handed_on
        return handed_on

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        if value.get("type") == "error":
            holder = value
        elif value.get("type") == "response.failed":
            holder = as_dict(value.get("response"))
        else:
            return None
        error = _failure(holder)
        error.usage = usage_of(as_dict(value.get("response")).get("usage"))
        return error

    def read(self, value: JsonObject) -> None:
        kind = value.get("type")
        if kind == "response.created":
            self._response = as_dict(value.get("response"))
            self._keep(ids_in(self._response))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._keep(ids_of_item(as_dict(value.get("item"))))
        elif kind == "response.output_text.delta":
            self.emit(TextDelta(as_text(value.get("delta"))))
        elif as_text(kind) in GENERATED_EVENTS:  # never translated: only counted
            self.emit(ReasoningDelta(as_text(value.get("delta"))))
        elif kind in ("response.completed", "response.incomplete"):
            response = as_dict(value.get("response"))
            self.usage = usage_of_response(response)
            self.finish(*finish_of(response))
            self._keep(ids_in(response))
            self.done = True

    def _keep(self, ids: Iterable[str]) -> None:
        if self._is_kept:
            self.state_ids.update(dict.fromkeys(ids))


def _failure(holder: JsonObject) -> UpstreamError:
    """The error of a failed response, or of an event of type `error`."""
    code = as_text(holder.get("code") or as_dict(holder.get("error")).get("code"))
    if code in REFUSALS:
        return late_rejection(error_message(holder), code=code)
    if code in BILLING_ERRORS:
        return late_rejection(error_message(holder), ProviderRejected.PAYMENT_REQUIRED)
    text = f"The provider failed in the middle of its answer: {error_message(holder)}"
    return ProviderOverloaded(text, code=429) if code == RATE_LIMITED else ProviderError(text)


def _read(body: bytes) -> JsonObject:
    """As read_object(). The error of a failed response has its usage."""
    try:
        return read_object(body)
    except (ProviderError, ProviderRejected) as error:
        error.usage = usage_of(as_dict(read_json(body)).get("usage"))
        raise


def _as_stream(response: JsonObject) -> bytes:
    """A whole response as events, for a client that waits for a stream: its items, and its texts in pieces."""
    first_body = {"response": {**response, "status": "in_progress", "output": [], "usage": None}}
    events: list[tuple[str, JsonObject]] = [("response.created", first_body), ("response.in_progress", first_body)]
    for index, item in enumerate(as_dict(item) for item in response["output"]):
        place = {"item_id": item.get("id"), "output_index": index}
        content = as_list(item.get("content")) if item.get("type") == "message" else []
        events.append(("response.output_item.added", place | {"item": {**item, "content": []} if content else item}))
        for number, part in enumerate(content):
            events += _pieces(as_dict(part), place | {"content_index": number})
        events.append(("response.output_item.done", place | {"item": item}))
    events.append((f"response.{response.get('status') or 'completed'}", {"response": response}))
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (name.encode(), dump_value({"type": name, "sequence_number": number, **fields}))
        for number, (name, fields) in enumerate(events)
    )


def _pieces(part: JsonObject, place: JsonObject) -> list[tuple[str, JsonObject]]:
    """The events of one part of a message."""
    text_events: list[tuple[str, JsonObject]] = []
    if part.get("type") == "output_text":
        text = as_text(part.get("text"))
        text_events = [
            ("response.output_text.delta", place | {"delta": text, "logprobs": []}),
            ("response.output_text.done", place | {"text": text, "logprobs": []}),
        ]
    emptied = {**part, "text": ""} if text_events else part
    start, end = "response.content_part.added", "response.content_part.done"
    return [(start, place | {"part": emptied}), *text_events, (end, place | {"part": part})]


def finish_of(response: JsonObject) -> tuple[FinishReason, str]:
    """The finish reason of a response: normalised, and in the provider's words."""
    status = as_text(response.get("status"))
    if status == "incomplete":
        reason = as_text(as_dict(response.get("incomplete_details")).get("reason"))
        return INCOMPLETE.get(reason, FinishReason.OTHER), reason
    if status != "completed":
        return normalise_reason(UNFINISHED, status), status
    called = any(as_dict(item).get("type") == "function_call" for item in as_list(response.get("output")))
    return (FinishReason.TOOL if called else FinishReason.STOP), status


def text_of(response: JsonObject) -> str:
    """The texts of the messages in a response."""
    messages = (as_list(as_dict(item).get("content")) for item in as_list(response.get("output")))
    parts = (as_dict(part) for content in messages for part in content)
    return "".join(as_text(part.get("text")) for part in parts if part.get("type") == "output_text")


def usage_of_response(response: JsonObject) -> Usage | None:
    """The usage of a response; None while its model still works: what is reported until then is not all."""
    return None if as_text(response.get("status")) in AT_WORK else usage_of(response.get("usage"))


def usage_of(value: object) -> Usage | None:
    """Usage in disjoint buckets: cached input is counted inside input_tokens."""
    value = as_dict(value)
    prompt, output = read_count(value.get("input_tokens")), read_count(value.get("output_tokens"))
    if prompt is None and output is None:
        return None
    inside = as_dict(value.get("input_tokens_details"))
    read, write = read_count(inside.get("cached_tokens")), read_count(inside.get("cache_write_tokens"))
    rest = None if prompt is None else prompt - (read or 0) - (write or 0)
    if rest is not None and rest < 0:  # the parts exceed the whole: believe the whole
        rest, read, write = prompt, None, None
    reasoning = read_count(as_dict(value.get("output_tokens_details")).get("reasoning_tokens"))
    return Usage(rest, read, write, output, reasoning)
