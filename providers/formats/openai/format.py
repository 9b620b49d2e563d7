"""OpenAI's chat completions, completions and embeddings, and whatever speaks them (openai-openapi, August 2026)."""

import re

from gateway_project.errors import GatewayError, ProviderError, ProviderRejected
from gateway_project.json_types import JsonObject
from providers.formats.base import Answer, Options, StreamReader, WorkRequest, read_object
from providers.formats.json_stream import JsonStreamReader
from providers.formats.json_values import as_dict, as_list, as_text, dumped, read_json
from providers.formats.neutral import Chat, Reply
from providers.formats.openai.calls import CallIndexes
from providers.formats.openai.embedding import check_embeddings, in_encoding
from providers.formats.openai.reply import (
    AUDIO,
    ChunkReader,
    check_one_choice,
    finish_reason,
    read_completion,
    read_reply,
    stream_produced,
    stream_text,
    usage_of,
)
from providers.formats.openai.request import (
    DIALECT,
    REASONING_MODELS,
    effort_of,
    messages_of,
    response_format_of,
    tool_choice_of,
    tools_of,
)
from providers.formats.sse import PLAIN, is_one_line
from providers.formats.translated import PARAMETERS, TranslatedFormat

PATHS = {"chat": "/chat/completions", "completion": "/completions", "embedding": "/embeddings"}
DONE = b"[DONE]"
# What an account that cannot pay is told, with the status of one that asks too often.
BILLING_ERRORS = {"insufficient_quota", "credit_balance_exhausted"}
# Most chunks say nothing that is read here; these spellings let them pass unparsed.
NOTHING_FINISHED = (b'"finish_reason":null', b'"finish_reason": null')
CALLS = re.compile(rb'"tool_calls"\s*:\s*\[\s*\{')
# The only piece of a call in an event, which continues it by its index: nearly all of OpenAI's own are written so.
CONTINUED = re.compile(
    rb'"tool_calls": ?\[\{"index": ?\d{1,9}, ?"function": ?\{"arguments": ?"[^"\\]*(?:\\.[^"\\]*)*"\}\}\]'
)
NO_USAGE = (b'"usage":null', b'"usage": null')
CONTENT = re.compile(rb'"(?:reasoning_)?content": ?"((?!")%b)"' % PLAIN.pattern)
# Random letters that hide how long the text is (stream_options.include_obfuscation, on unless told otherwise).
OBFUSCATION = re.compile(rb'"obfuscation": ?"(%b)"' % PLAIN.pattern)


class OpenAI(TranslatedFormat):
    """A body in OpenAI's shape passes through as it came, but for the model's name and the usage of streams."""

    name = "openai"
    native_dialects = frozenset({DIALECT, "openai-completion", "openai-embedding"})
    translated_parameters = frozenset(PARAMETERS) - {"top_k"}
    # What clients of OpenAI's other doors may say in the same words.
    native_parameters = frozenset({"prompt_cache_key", "prompt_cache_retention", "verbosity", "top_logprobs", "store"})

    def path(self, work: WorkRequest, model: str) -> str:
        return PATHS[work.operation]

    def passthrough_body(self, work: WorkRequest, model: str) -> bytes:
        if work.stream and work.operation != "embedding" and not work.wants_usage:
            reported = {**as_dict(work.body.get("stream_options")), "include_usage": True}
            return work.body_for(model, stream_options=reported)
        return work.body_for(model)

    def restrict_tools(self, chat: Chat) -> Chat:
        return chat  # the choice says which tools may be called

    def inapplicable_parameters(self, chat: Chat, model: str) -> set[str]:
        """What a budget comes to is known of models that are known to think."""
        thinking = chat.thinking
        lost = thinking is not None and thinking.budget is not None and effort_of(thinking, model) is None
        return {"reasoning_effort"} if lost else set()

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        parameters = {
            "tools": tools_of(chat) or None,
            "tool_choice": tool_choice_of(chat),
            "parallel_tool_calls": chat.parallel_tools if chat.tools else None,
            # Models that think refuse the old name, other servers may not know the new one.
            "max_completion_tokens" if REASONING_MODELS.match(model) else "max_tokens": chat.max_tokens,
            "temperature": chat.temperature,
            "top_p": chat.top_p,
            "stop": chat.stop or None,
            "seed": chat.seed,
            "n": chat.choices,
            "presence_penalty": chat.presence_penalty,
            "frequency_penalty": chat.frequency_penalty,
            "response_format": response_format_of(chat),
            "reasoning_effort": effort_of(chat.thinking, model),
            "user": chat.user or None,
        }
        body: JsonObject = {"model": model, "messages": messages_of(chat)}
        if work.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body | {name: value for name, value in parameters.items() if value is not None}

    def answer(self, work: WorkRequest, body: bytes) -> Answer:
        if work.operation == "embedding":
            return _read_embeddings(work, body)
        if work.via_door and work.stream:
            check_one_choice(read_object(body))
        if work.operation == "completion":
            return self.build_answer(work, body, read_completion(read_object(body)))
        return super().answer(work, body)

    def read_reply(self, value: JsonObject) -> Reply:
        return read_reply(value)

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return OpenAIReader(work)

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        error = as_dict(as_dict(read_json(body)).get("error"))
        if BILLING_ERRORS & {as_text(error.get("code")), as_text(error.get("type"))}:
            return super().refusal(ProviderRejected.PAYMENT_REQUIRED, body)
        return super().refusal(status, body, retry_after)


class OpenAIReader(JsonStreamReader):
    """Hands events on whole; the usage only to a client that asked for it."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._wants_usage = work.wants_usage
        self._chunks = ChunkReader()
        self._called = False
        self._call_indexes = CallIndexes() if work.via_door else None  # /work gets the provider's own words
        self._chosen = False  # whether there was anything of an answer

    def text(self, events: bytes) -> str:
        return stream_text(events)

    def generated_text(self, events: bytes) -> str:
        return stream_produced(events)

    def is_end_mark(self, data: bytes) -> bool:
        return data.startswith(DONE)

    def on_end_mark(self) -> None:
        self.done = True
        if not self._chosen:
            self.error = ProviderError("The provider's stream ended without an answer.")

    def can_skip(self, event: bytes, data: bytes) -> bool:
        has_calls = b'"tool_calls"' in data and CALLS.search(data) is not None
        self._called = self._called or has_calls
        if self.deltas is not None or not _says_nothing(data) or (has_calls and self._may_lack_index(data)):
            return False
        self._chosen = True
        if is_one_line(event) and (text := CONTENT.search(event)):
            letters = OBFUSCATION.search(event, text.end())
            self.learn_template(event, text.span(1), letters.span(1) if letters else None)
        return True

    def _may_lack_index(self, data: bytes) -> bool:
        indexes = self._call_indexes
        return indexes is not None and (indexes.has_changed or CONTINUED.search(data) is None)

    def read(self, value: JsonObject) -> bytes | None:
        if self.deltas is not None:
            self.deltas += self._chunks.read(value)
            if self._chunks.has_sound:
                self.drop(AUDIO)
        choices = as_list(value.get("choices"))
        self._chosen = self._chosen or bool(choices)
        for choice in choices:
            if isinstance(choice, dict) and (reason := as_text(choice.get("finish_reason"))):
                self.finish(finish_reason(reason, called=self._called), reason)
        is_changed = self._call_indexes is not None and self.deltas is None and self._call_indexes.complete(value)
        usage = usage_of(value.get("usage"))
        if usage is not None:
            self.usage = usage
            if not self._wants_usage:
                return _without_usage(value)
        return _event(value) if is_changed else None


def _without_usage(value: JsonObject) -> bytes:
    """The chunk as it would be had nobody asked for the usage; b"" where there would be none."""
    if not value.get("choices"):
        return b""
    del value["usage"]
    return _event(value)


def _event(value: JsonObject) -> bytes:
    return b"data: " + dumped(value) + b"\n\n"


def _says_nothing(data: bytes) -> bool:
    if b'"error"' in data:
        return False
    quiet = b'"usage"' not in data or NO_USAGE[0] in data or NO_USAGE[1] in data
    return quiet and (NOTHING_FINISHED[0] in data or NOTHING_FINISHED[1] in data) and data.endswith(b"}")


def _read_embeddings(work: WorkRequest, body: bytes) -> Answer:
    value = read_object(body)
    data = check_embeddings(value)
    if work.via_door:
        body = in_encoding(value, data, body, work.body.get("encoding_format"))
    return Answer(body, usage=usage_of(value.get("usage")))
