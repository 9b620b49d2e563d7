"""AWS Bedrock: Converse, ConverseStream, InvokeModel of embeddings (botocore's bedrock-runtime, November 2026)."""

from collections.abc import Mapping, Set
from dataclasses import replace

from gateway_project.errors import GatewayError, ProviderError, ProviderOverloaded, ProviderRejected, ProviderTimeout
from gateway_project.json_types import JsonObject
from providers.formats.anthropic.models import NO_CLAUDE, claude
from providers.formats.anthropic.thinking import (
    SAMPLING,
    can_think,
    conflicting_sampling,
    sampling_of,
    thinking_of,
    unsupported_parameters,
)
from providers.formats.base import Answer, Options, StreamReader, WorkRequest, read_object
from providers.formats.bedrock import embedding as bedrock_embedding
from providers.formats.bedrock.embedding import family_of, reported_usage
from providers.formats.bedrock.event_stream import (
    MEDIA_TYPE,
    Frame,
    FrameSplitter,
    InvalidFrame,
    read_frame,
    write_frame,
)
from providers.formats.bedrock.request import (
    SOURCE,
    cannot_refuse_tools,
    output_config,
    system_of,
    tool_config,
    turns_of,
    without_signed_thoughts,
)
from providers.formats.cited_blocks import WEB, CitedBlocks
from providers.formats.json_stream import JsonStreamReader
from providers.formats.json_values import as_dict, as_list, as_text, dumped
from providers.formats.neutral import (
    Began,
    CallBegan,
    CallDelta,
    Chat,
    Citation,
    Embedding,
    Finished,
    Image,
    Part,
    Reasoning,
    ReasoningDelta,
    Reply,
    Text,
    TextDelta,
    ToolCall,
    Vectors,
    Verbatim,
)
from providers.formats.parts import normalise_reason, path_segment, text_of
from providers.formats.translated import TranslatedFormat
from providers.formats.usage import Usage, count

FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool",
    "guardrail_intervened": "filter",
    "content_filtered": "filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
INFERENCE = {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP", "stop": "stopSequences"}
MODEL_TIMEOUT, MODEL_ERROR = 408, 424
# What an exception in a stream means, and what an error of ours is called in one; all others are the server's fault.
OVERLOADS = {"throttlingException": 429, "serviceUnavailableException": 503}
QUOTA = "ServiceQuotaExceededException"
EVENT, EXCEPTION = "event", "exception"


class Bedrock(TranslatedFormat):
    """The model's name is part of the path; streams are binary."""

    name = SOURCE
    translated_parameters = frozenset({*INFERENCE, "top_k", "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset(
        {
            "additionalModelRequestFields",
            "additionalModelResponseFieldPaths",
            "guardrailConfig",
            "inferenceConfig",
            "outputConfig",
            "performanceConfig",
            "promptVariables",
            "requestMetadata",
            "serviceTier",
        }
    )

    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = bedrock_embedding.NATIVE

    def path(self, work: WorkRequest, model: str) -> str:
        chat = "converse-stream" if work.stream else "converse"
        return f"/model/{path_segment(model)}/{'invoke' if work.operation == 'embedding' else chat}"

    def is_stream(self, content_type: str) -> bool:
        return content_type.partition(";")[0].strip().lower() == MEDIA_TYPE

    def unknown_parameters(self, chat: Chat, model: str) -> set[str]:
        return super().unknown_parameters(chat, model) | unsupported_parameters(chat, model)

    def inapplicable_parameters(self, chat: Chat, model: str) -> set[str]:
        names = set() if can_think(chat, model, SOURCE) else {"reasoning_effort"}
        return (
            names
            | conflicting_sampling(chat, model, SOURCE)
            | ({"tool_choice"} if cannot_refuse_tools(chat) else set())
        )

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        system, messages = system_of(chat)
        if claude(model, on_bedrock=True) is NO_CLAUDE:
            messages = without_signed_thoughts(messages)
        # Without a bound the model's own is reserved out of the account's quota: an administrator may know better.
        most = chat.max_tokens if chat.max_tokens is not None else options.max_output_tokens
        thinking, effort = thinking_of(chat, model, most or claude(model).max_output or 0, SOURCE)
        fields = {
            "system": system,
            "messages": turns_of(messages),
            "inferenceConfig": _inference(chat, model, most),
            "toolConfig": tool_config(chat),
            "outputConfig": output_config(chat, effort),
            "additionalModelRequestFields": _additional(chat, model, thinking),
        }
        return {name: value for name, value in fields.items() if value}

    def read_reply(self, value: JsonObject) -> Reply:
        message = as_dict(value.get("output")).get("message")
        if not isinstance(message, dict):
            raise ProviderError("The provider answered 200 without a message.")
        reason = as_text(value.get("stopReason"))
        reply = Reply([], normalise_reason(FINISH_REASONS, reason), reason, usage_of(value.get("usage")))
        blocks = CitedBlocks(reply.dropped_kinds.append)
        for block in map(as_dict, as_list(message.get("content"))):
            reply.parts += (parts := _read_part(block))
            reply.citations += blocks.add_block(text_of(parts), _pages_of(as_dict(block.get("citationsContent"))))
        return reply

    def embedding_parameters(self, model: str) -> tuple[Set[str], Set[str]]:
        family = family_of(model)
        return self.translated_embedding_parameters if family.dimensions else frozenset(), family.native_parameters

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        return family_of(model).body(embedding, floats=self.translates(work))

    def read_vectors(self, value: JsonObject) -> Vectors:
        return bedrock_embedding.read_vectors(value)

    def answer_from_response(self, work: WorkRequest, headers: Mapping[str, str], body: bytes) -> Answer:
        usage = reported_usage(headers) if work.operation == "embedding" else None
        if usage is None:
            return super().answer_from_response(work, headers, body)
        return self.build_embedding_answer(work, body, replace(self.read_vectors(read_object(body)), usage=usage))

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return BedrockReader(work)

    def refusal_from_response(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        if headers.get("x-amzn-errortype", "").partition(":")[0] == QUOTA:
            return self.refusal(ProviderRejected.PAYMENT_REQUIRED, body)  # it comes with 400
        return super().refusal_from_response(status, headers, body)

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        if status == MODEL_TIMEOUT:
            return ProviderTimeout("The provider's model did not answer in time.")
        if status == MODEL_ERROR:
            text = self.error_text(body)
            return ProviderError("The provider's model failed." + (f" It said: {text}" if text else ""))
        return super().refusal(status, body, retry_after)


class BedrockReader(JsonStreamReader):
    """Frames, of which `messageStop` says that the answer is whole, and `metadata` behind it what it used."""

    def __init__(self, work: WorkRequest) -> None:
        self._frames = FrameSplitter()
        super().__init__(work)
        self._frame = Frame({}, b"")
        self._stopped = False
        self._calls: dict[int, int] = {}  # the calls among the blocks: which one of the answer's
        self._thought: object = -1  # the block of the last thought
        self._blocks = CitedBlocks(self.drop)

    def splitter(self) -> FrameSplitter:
        return self._frames

    def feed(self, piece: bytes) -> bytes:
        handed_on = super().feed(piece)
        if self._frames.problem and not self.done and self.error is None:
            self.error = _no_frame(self._frames.problem)
        return handed_on

    def _event(self, event: bytes) -> bytes:
        try:
            return super()._event(event)
        except InvalidFrame as error:
            self.error = _no_frame(error)
            return b""

    def end(self, is_complete: bool) -> bytes:
        self.done = self.done or self._stopped  # an answer without what it used is whole all the same
        return b""

    def native_error(self, error: GatewayError) -> bytes:
        status = error.code
        kind = next((name for name, code in OVERLOADS.items() if code == status), "internalServerException")
        headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": EXCEPTION}
        return write_frame(headers, dumped(error.body()))

    def data(self, event: bytes) -> bytes:
        self._frame = frame = read_frame(event)
        return frame.payload or b"{}"

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        headers = self._frame.headers
        if headers.get(":message-type", EVENT) == EVENT:
            return None
        kind = headers.get(":exception-type") or headers.get(":error-code", "")
        reason = as_text(value.get("message")) or headers.get(":error-message", "") or kind
        text = f"The provider failed in the middle of its answer: {reason}"
        return ProviderOverloaded(text, code=OVERLOADS[kind]) if kind in OVERLOADS else ProviderError(text)

    def read(self, value: JsonObject) -> None:
        if read := EVENTS.get(self._frame.headers.get(":event-type", "")):
            read(self, value)

    def _started(self, value: JsonObject) -> None:
        self.emit(Began())

    def _block_started(self, value: JsonObject) -> None:
        call, index = as_dict(as_dict(value.get("start")).get("toolUse")), value.get("contentBlockIndex")
        if call and isinstance(index, int):
            number = self._calls[index] = len(self._calls)
            self.emit(CallBegan(number, as_text(call.get("toolUseId")), as_text(call.get("name"))))
        else:
            self.drop(next(iter(as_dict(value.get("start"))), ""))

    def _block_continued(self, value: JsonObject) -> None:
        delta, index = as_dict(value.get("delta")), value.get("contentBlockIndex")
        if text := as_text(delta.get("text")):
            self.emit(TextDelta(text))
            self._blocks.add_text(text)
        elif arguments := as_text(as_dict(delta.get("toolUse")).get("input")):
            if isinstance(index, int) and index in self._calls:
                self.emit(CallDelta(self._calls[index], arguments))
        elif thought := as_dict(delta.get("reasoningContent")):
            begins, self._thought = index != self._thought, index
            words, signature = as_text(thought.get("text")), as_text(thought.get("signature"))
            self.emit(ReasoningDelta(words, signature, as_text(thought.get("redactedContent")), SOURCE, begins))
        elif place := as_dict(delta.get("citation")):
            self._blocks.add_citation(_cited(place))

    def _block_stopped(self, value: JsonObject) -> None:
        for citation in self._blocks.end_block():
            self.emit(citation)

    def _message_stopped(self, value: JsonObject) -> None:
        reason = as_text(value.get("stopReason"))
        self._stopped = True
        self.finish(normalise_reason(FINISH_REASONS, reason), reason)
        self.emit(Finished(self.finish_reason, reason))

    def _ended(self, value: JsonObject) -> None:
        self.usage = usage_of(value.get("usage"))
        self.done = self._stopped


EVENTS = {
    "messageStart": BedrockReader._started,
    "contentBlockStart": BedrockReader._block_started,
    "contentBlockDelta": BedrockReader._block_continued,
    "contentBlockStop": BedrockReader._block_stopped,
    "messageStop": BedrockReader._message_stopped,
    "metadata": BedrockReader._ended,
}


def _no_frame(why: object) -> ProviderError:
    return ProviderError(f"The provider sent an invalid frame: {why}.")


def usage_of(value: object) -> Usage | None:
    """Usage in disjoint buckets. Bedrock counts cached input apart from the input. Where the total shows that the
    input includes it, it is subtracted."""
    usage = as_dict(value)
    prompt, output = count(usage.get("inputTokens")), count(usage.get("outputTokens"))
    if prompt is None and output is None:
        return None
    read, write = count(usage.get("cacheReadInputTokens")), count(usage.get("cacheWriteInputTokens"))
    cached = (read or 0) + (write or 0)
    if prompt is not None and cached and usage.get("totalTokens") == prompt + (output or 0):
        if cached > prompt:  # the parts exceed the whole: believe the whole
            return Usage(prompt, output=output)
        prompt -= cached
    return Usage(prompt, read, write, output)


def _inference(chat: Chat, model: str, most: int | None) -> JsonObject:
    unsupported = SAMPLING - sampling_of(chat, model, SOURCE)
    values = {theirs: getattr(chat, ours) for ours, theirs in INFERENCE.items() if ours not in unsupported}
    return {name: value for name, value in {**values, "maxTokens": most}.items() if value not in (None, [])}


def _additional(chat: Chat, model: str, thinking: JsonObject | None) -> JsonObject:
    """What Converse has no place for goes to the model as it is."""
    fields: JsonObject = {"thinking": thinking} if thinking else {}
    if "top_k" in sampling_of(chat, model, SOURCE):
        fields["top_k"] = chat.top_k
    return fields


def _read_part(block: JsonObject) -> list[Part]:
    if isinstance(text := block.get("text"), str):
        return [Text(text)]
    if call := as_dict(block.get("toolUse")):
        arguments = dumped(as_dict(call.get("input"))).decode()
        return [ToolCall(as_text(call.get("toolUseId")), as_text(call.get("name")), arguments)]
    if thought := as_dict(block.get("reasoningContent")):
        return [_read_thought(thought)]
    if cited := as_dict(block.get("citationsContent")):
        return [Text(as_text(as_dict(piece).get("text"))) for piece in as_list(cited.get("content"))]
    if image := as_dict(block.get("image")):
        data = as_text(as_dict(image.get("source")).get("bytes"))
        return [Image(data=data, media_type=f"image/{as_text(image.get('format'))}")]
    return [Verbatim(block, SOURCE)]


def _pages_of(cited: JsonObject) -> list[Citation | None]:
    return [_cited(as_dict(place)) for place in as_list(cited.get("citations"))]


def _cited(place: JsonObject) -> Citation | None:
    """The page that a citation names; None for a place in a document."""
    addresses = as_text(as_dict(as_dict(place.get("location")).get("web")).get("url")), as_text(place.get("source"))
    url = next((address for address in addresses if address.startswith(WEB)), "")
    quote = "".join(as_text(as_dict(piece).get("text")) for piece in as_list(place.get("sourceContent")))
    return Citation(url, as_text(place.get("title")), quote) if url else None


def _read_thought(thought: JsonObject) -> Reasoning:
    text = as_dict(thought.get("reasoningText"))
    data = as_text(thought.get("redactedContent"))
    return Reasoning(as_text(text.get("text")), as_text(text.get("signature")), data, SOURCE)
