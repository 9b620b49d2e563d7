"""Anthropic's Messages API, and whatever speaks it (anthropic-sdk-python 2.11, November 2026).

Requests that the gateway makes itself are of the version 2023-06-01: every server of this API takes it, and of the
newer 2026-10-21 it differs in what is refused alone (temperature, top_p, top_k). A client's own version passes.
"""

import re

from gateway_project.errors import GatewayError, ProviderError, ProviderOverloaded, ProviderRejected
from gateway_project.json_types import JsonObject
from providers.formats.anthropic.blocks import (
    FINISH_REASONS,
    FOREIGN,
    SHAPE,
    SOURCE,
    cited,
    pages_of,
    read_part,
    usage_of,
)
from providers.formats.anthropic.models import claude
from providers.formats.anthropic.request import system_of, tool_choice_of, tools_of, turns_of
from providers.formats.anthropic.thinking import (
    can_think,
    conflicting_sampling,
    sampling_of,
    thinking_of,
    unsupported_parameters,
)
from providers.formats.base import COUNT_TOKENS, Answer, Options, StreamReader, WorkRequest, error_message, read_object
from providers.formats.cited_blocks import CitedBlocks
from providers.formats.json_stream import JsonStreamReader
from providers.formats.json_values import as_dict, as_list, as_text, dumped, read_json
from providers.formats.neutral import (
    Began,
    CallBegan,
    CallDelta,
    Chat,
    Finished,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    Reply,
    Text,
    TextDelta,
)
from providers.formats.parts import normalise_reason
from providers.formats.sse import PLAIN
from providers.formats.translated import TranslatedFormat
from providers.formats.usage import count

VERSION = "2023-06-01"
# The status that a kind of error stands for, where it comes with another one or in the middle of a stream.
STATUS_OF = {
    "authentication_error": 401,
    "permission_error": 403,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
# The gateway's account cannot pay: the SDK's error codes of statuses 402 and 429.
BILLING_ERRORS = frozenset(
    {
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "linked_organization_billing_unavailable",
        "linked_organization_spend_limit_reached",
        "organization_on_hold",
    }
)
# An event that says nothing but words; blanks at its end hide how many.
WORDS = re.compile(
    rb'event: content_block_delta\ndata: \{[^\n]*?"(?:text|thinking)": ?"(%b)"\}( *)\}\n\n' % PLAIN.pattern
)
DATED = re.compile(r"\w+_[0-9]{8}")  # the type of a tool that Anthropic itself defines
SERVICE_TIERS = ("auto", "standard_only")  # OpenAI's parameter of the same name means something else


class Anthropic(TranslatedFormat):
    """`POST /messages`."""

    name = SOURCE
    strict = True
    native_dialects = frozenset({SHAPE})
    counts_tokens = True
    translated_parameters = frozenset(
        {
            "tools",
            "tool_choice",
            "parallel_tools",
            "max_tokens",
            "temperature",
            "top_p",
            "top_k",
            "stop",
            "output",
            "thinking",
            "user",
        }
    )
    native_parameters = frozenset(
        {
            "cache_control",
            "container",
            "context_management",
            "diagnostics",
            "inference_geo",
            "mcp_servers",
            "metadata",
            "output_config",
            "service_tier",
            "speed",
            "stop_sequences",
            "system",
            "thinking",
        }
    )

    def path(self, work: WorkRequest, model: str) -> str:
        return "/messages/count_tokens" if work.operation == COUNT_TOKENS else "/messages"

    def passthrough_body(self, work: WorkRequest, model: str) -> bytes:
        if FOREIGN.encode() not in work.raw:
            return super().passthrough_body(work, model)
        messages = [own for message in as_list(work.body.get("messages")) if (own := without_foreign(message))]
        return dumped({**work.body, "model": model, "messages": messages})

    def headers(self, work: WorkRequest) -> dict[str, str]:
        return {"anthropic-version": VERSION} | work.headers

    def is_native_tool(self, kind: str) -> bool:
        return DATED.fullmatch(kind) is not None

    def native_values(self, chat: Chat) -> JsonObject:
        values = super().native_values(chat)
        if values.get("service_tier") not in SERVICE_TIERS:
            values.pop("service_tier", None)
        if as_dict(values.get("metadata")).keys() != {"user_id"}:  # OpenAI's are anything
            values.pop("metadata", None)
        return values

    def unknown_parameters(self, chat: Chat, model: str) -> set[str]:
        return super().unknown_parameters(chat, model) | unsupported_parameters(chat, model)

    def inapplicable_parameters(self, chat: Chat, model: str) -> set[str]:
        return conflicting_sampling(chat, model) | (set() if can_think(chat, model) else {"reasoning_effort"})

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        system, messages = system_of(chat)
        most = _max_tokens(chat, model, options)
        most = options.default_max_tokens if most is None else most
        thinking, effort = thinking_of(chat, model, most)
        more = bool(self.native_tools_in(chat))
        body: JsonObject = {"model": model, "max_tokens": most, "messages": turns_of(messages)}
        parameters = {
            "system": system,
            "tools": tools_of(chat, more=more),
            "tool_choice": tool_choice_of(chat, more=more),
            "stop_sequences": chat.stop,
            "metadata": {"user_id": chat.user} if chat.user else None,
            "stream": work.stream,
            "thinking": thinking,
            "output_config": output_config(chat, effort),
        }
        body.update({name: value for name, value in parameters.items() if value})
        body.update({name: getattr(chat, name) for name in sorted(sampling_of(chat, model))})
        return body

    def added_parameter(self, chat: Chat, model: str, options: Options) -> str:
        return "" if _max_tokens(chat, model, options) is not None else f"max_tokens={options.default_max_tokens}"

    def answer(self, work: WorkRequest, body: bytes) -> Answer:
        if work.operation != COUNT_TOKENS:
            return super().answer(work, body)
        if count(read_object(body).get("input_tokens")) is None:
            raise ProviderError("The provider answered 200 without a number of tokens.")
        return Answer(body)

    def read_reply(self, value: JsonObject) -> Reply:
        content = value.get("content")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise ProviderError("The provider answered 200 without a message.")
        reason = value.get("stop_reason")
        reason = reason if isinstance(reason, str) else ""
        stop_sequence = value.get("stop_sequence")
        reply = Reply(
            finish_reason=normalise_reason(FINISH_REASONS, reason),
            provider_finish_reason=reason,
            usage=usage_of(value.get("usage")),
            id=as_text(value.get("id")),
            model=as_text(value.get("model")),
            stop_sequence=stop_sequence if isinstance(stop_sequence, str) else None,
        )
        blocks = CitedBlocks(reply.dropped_kinds.append)
        for block in content:
            reply.parts.append(part := read_part(block))
            if isinstance(part, Text):
                reply.citations += blocks.add_block(part.text, pages_of(block))
        if why := _why(value, reason):
            reply.parts.append(Refusal(why))
        return reply

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return AnthropicReader(work)

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        error = as_dict(as_dict(read_json(body)).get("error"))
        kind = as_text(error.get("type"))
        if kind == "billing_error" or as_text(as_dict(error.get("details")).get("error_code")) in BILLING_ERRORS:
            return super().refusal(ProviderRejected.PAYMENT_REQUIRED, body)
        return super().refusal(STATUS_OF.get(kind, status), body, retry_after)


class AnthropicReader(JsonStreamReader):
    """Named events, of which `message_stop` is the last."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._calls: dict[int, int] = {}  # the calls among the blocks: which one of the answer's
        self._begins = False  # a thought of which nothing has been said yet
        self._said: JsonObject = {}  # the usage: counts are totals, the last of each is the one
        self._blocks = CitedBlocks(self.drop)

    def _event(self, event: bytes) -> bytes:
        # Most events say nothing that is read here: where they are handed on, they pass unparsed.
        if self.deltas is not None or not event.startswith((b"event: content_block_", b"event: ping")):
            return super()._event(event)
        if text := WORDS.fullmatch(event):
            self.learn_template(event, text.span(1), text.span(2))
        return b"" if self.is_over else event

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        if value.get("type") != "error":
            return super().error_in_event(value)
        kind = as_text(as_dict(value.get("error")).get("type"))
        text = f"The provider failed in the middle of its answer: {error_message(value)}"
        if kind in ("overloaded_error", "rate_limit_error"):
            return ProviderOverloaded(text, code=429 if kind == "rate_limit_error" else 503)
        return ProviderError(text)

    def read(self, value: JsonObject) -> None:
        if read := EVENTS.get(as_text(value.get("type"))):
            read(self, value)

    def _started(self, value: JsonObject) -> None:
        message = as_dict(value.get("message"))
        self.emit(Began(as_text(message.get("id")), as_text(message.get("model"))))
        # What is answered is counted at the end: the count of the beginning is that of nothing said yet.
        self._count({**as_dict(message.get("usage")), "output_tokens": None})

    def _block_started(self, value: JsonObject) -> None:
        block = as_dict(value.get("content_block"))
        kind, index = block.get("type"), value.get("index")
        self._cite()  # some servers leave out that a block stops
        if kind == "text":
            self._said_text(as_text(block.get("text")))
            for page in pages_of(block):
                self._blocks.add_citation(page)
        elif kind == "thinking":
            self._begins = True
            self._thought(as_text(block.get("thinking")), as_text(block.get("signature")))
        elif kind == "redacted_thinking":
            self.emit(ReasoningDelta(data=as_text(block.get("data")), source=SOURCE, begins=True))
        elif kind == "tool_use" and isinstance(index, int):
            number = self._calls[index] = len(self._calls)
            self.emit(CallBegan(number, as_text(block.get("id")), as_text(block.get("name"))))
            if arguments := block.get("input"):  # some servers give it whole
                self.emit(CallDelta(number, dumped(arguments).decode()))
        else:
            self.drop(as_text(kind))

    def _block_continued(self, value: JsonObject) -> None:
        delta = as_dict(value.get("delta"))
        kind = delta.get("type")
        if kind == "text_delta":
            self._said_text(as_text(delta.get("text")))
        elif kind == "input_json_delta":
            index, arguments = value.get("index"), as_text(delta.get("partial_json"))
            if arguments and isinstance(index, int) and index in self._calls:
                self.emit(CallDelta(self._calls[index], arguments))
        elif kind == "thinking_delta":
            self._thought(as_text(delta.get("thinking")), "")
        elif kind == "signature_delta":
            self._thought("", as_text(delta.get("signature")))
        elif kind == "citations_delta":
            self._blocks.add_citation(cited(as_dict(delta.get("citation"))))

    def _block_stopped(self, value: JsonObject) -> None:
        self._cite()

    def _message_continued(self, value: JsonObject) -> None:
        self._cite()
        delta = as_dict(value.get("delta"))
        self._count(as_dict(value.get("usage")))
        reason = as_text(delta.get("stop_reason"))
        if why := _why(delta, reason):
            self.emit(RefusalDelta(why))
        if reason:
            self.finish(normalise_reason(FINISH_REASONS, reason), reason)
            self.emit(Finished(self.finish_reason, reason, as_text(delta.get("stop_sequence")) or None))

    def _stopped(self, value: JsonObject) -> None:
        self.done = True

    def _said_text(self, text: str) -> None:
        if text:
            self.emit(TextDelta(text))
            self._blocks.add_text(text)

    def _cite(self) -> None:
        for citation in self._blocks.end_block():
            self.emit(citation)

    def _thought(self, text: str, signature: str) -> None:
        if text or signature:
            self.emit(ReasoningDelta(text, signature, source=SOURCE, begins=self._begins))
            self._begins = False

    def _count(self, usage: JsonObject) -> None:
        self._said.update({name: value for name, value in usage.items() if value is not None})
        self.usage = usage_of(self._said) or self.usage


EVENTS = {
    "message_start": AnthropicReader._started,
    "content_block_start": AnthropicReader._block_started,
    "content_block_delta": AnthropicReader._block_continued,
    "content_block_stop": AnthropicReader._block_stopped,
    "message_delta": AnthropicReader._message_continued,
    "message_stop": AnthropicReader._stopped,
}


def _why(stopped: JsonObject, reason: str) -> str:
    """Why the model was kept from answering, '' where it was not, or that is not said."""
    is_refusal = FINISH_REASONS.get(reason) == "filter"
    return as_text(as_dict(stopped.get("stop_details")).get("explanation")) if is_refusal else ""


def without_foreign(message: object) -> object:
    """A turn without what others thought and cited, which Anthropic would refuse; None where it holds nothing else."""
    turn = as_dict(message)
    content = turn.get("content")
    if not isinstance(content, list):
        return message
    own = [rest for block in content if (rest := _without_foreign(block)) is not None]
    return {**turn, "content": own} if own else None


def _without_foreign(block: object) -> object:
    fields = as_dict(block)
    locations = as_list(fields.get("citations"))
    if _is_foreign(fields):
        return None
    own = [location for location in locations if as_dict(location).get("encrypted_index") != FOREIGN]
    if len(own) == len(locations):
        return block
    return {**fields, "citations": own or None} if fields.get("text") else None


def _is_foreign(block: JsonObject) -> bool:
    proof = {"thinking": "signature", "redacted_thinking": "data"}.get(as_text(block.get("type")), "")
    return as_text(block.get(proof)).startswith(FOREIGN)


def output_config(chat: Chat, effort: str) -> JsonObject:
    """How the answer is to be given: the effort, and the schema that it has to fit."""
    config: JsonObject = {"effort": effort} if effort else {}
    if chat.output is not None and chat.output.kind == "schema":
        config["format"] = {"type": "json_schema", "schema": chat.output.schema or {}}
    return config


def _max_tokens(chat: Chat, model: str, options: Options) -> int | None:
    """The maximum length of the answer: the client's, else the model's; None if neither is known."""
    if chat.max_tokens is not None:
        return chat.max_tokens
    return options.max_output_tokens or claude(model).max_output
