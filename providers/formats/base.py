"""The interfaces of wire formats and dialects, and what they exchange: work request, answer, stream reader, options."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gateway_project.errors import GatewayError, ProviderError, ProviderOverloaded, ProviderRejected
from gateway_project.json_types import JsonObject
from providers.formats.context_length import CONTEXT_LENGTH_EXCEEDED, exceeds_context_length
from providers.formats.dropped import answer_names, dropped_comment
from providers.formats.json_values import as_dict, dumped, read_json
from providers.formats.neutral import Chat, Delta, Embedding, Reply, Vectors, deltas_of
from providers.formats.sse import ChunkTemplate
from providers.formats.surrogates import SurrogateJoiner
from providers.formats.usage import Usage
from providers.transport.retry_after import retry_after as seconds_of

EVENT_STREAM = "text/event-stream; charset=utf-8"
MAX_CODE_LENGTH = 128
COUNT_TOKENS = "count_tokens"  # the operation that counts a conversation's tokens and asks for no answer


class Dialect:
    """One client-side wire shape, without I/O: reads requests in it, writes answers in it.

    A dialect is for conversations or for embeddings and implements the methods of its kind.
    """

    name: str = ""  # a format that has it in `native_dialects` takes and returns this shape's bytes unchanged
    stateful_unsupported_code = ""  # error code by which its clients know that conversations are not stored, if any

    def read_chat(self, body: JsonObject) -> Chat:
        """The conversation in a request body. Raises ValidationError naming the invalid field."""
        raise NotImplementedError

    def stateful_parameter(self, body: JsonObject) -> str:
        """The name of a parameter that refers to state stored by a single provider, '' if there is none."""
        return ""

    def read_embedding(self, body: JsonObject) -> Embedding:
        """The texts to embed. Raises ValidationError naming the invalid field."""
        raise NotImplementedError

    def write_reply(self, work: "WorkRequest", reply: Reply) -> bytes:
        """The body of a whole answer."""
        raise NotImplementedError

    def write_vectors(self, work: "WorkRequest", vectors: Vectors) -> bytes:
        """The body of an embedding answer."""
        raise NotImplementedError

    def writer(self, work: "WorkRequest") -> "StreamWriter":
        """A writer for one stream."""
        raise NotImplementedError

    def write_stream(self, work: "WorkRequest", reply: Reply) -> bytes:
        """A whole answer as the stream that the client asked for."""
        writer = self.writer(work)
        return writer.write(deltas_of(reply)) + writer.end(reply.usage)

    def text(self, events: bytes) -> str:
        """The answer's text in a stream of this dialect."""
        raise NotImplementedError

    def generated_text(self, events: bytes) -> str:
        """Everything the model generated in such a stream, including tool calls and reasoning."""
        return self.text(events)

    def error_event(self, work: "WorkRequest", error: GatewayError) -> bytes:
        """The event that reports an error in the middle of a stream."""
        raise NotImplementedError


NO_DIALECT = Dialect()


class StreamWriter(ABC):
    """Writes one stream in a dialect's shape."""

    def __init__(self, work: "WorkRequest") -> None:
        self.work = work

    @abstractmethod
    def write(self, deltas: list[Delta]) -> bytes:
        """The events for these deltas."""

    @abstractmethod
    def end(self, usage: Usage | None) -> bytes:
        """The events that end a complete stream, terminal mark included."""

    def resume(self, last: JsonObject, about: JsonObject) -> None:
        """Continue after the provider's own events, given the last event and the answer's description in them."""
        return  # in most shapes events do not depend on earlier ones

    def end_with_error(self, error: GatewayError, work: "WorkRequest | None" = None) -> bytes:
        """The events that end an incomplete stream; `work` is another request that gets the same stream."""
        return self.work.dialect.error_event(work or self.work, error)


@dataclass
class WorkRequest:
    """What a client asked for. `raw` is `body` as JSON: the client's own bytes, unless the path names another model."""

    operation: str  # chat, completion, embedding or count_tokens
    model: str  # as the client named it
    body: JsonObject
    raw: bytes
    stream: bool = False
    dialect: Dialect = NO_DIALECT  # the shape of the body
    via_door: bool = False  # whether the answer has the dialect's shape; else (/work) the provider's own
    id: str = ""  # the request's id, for answers that need one and get none from the provider
    created: int = 0  # when the request arrived, in seconds since 1970
    headers: dict[str, str] = field(default_factory=dict)  # client headers that are forwarded to the provider

    @property
    def wants_usage(self) -> bool:
        """Whether the client asked for usage in its stream."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    def body_for(self, model: str, **changes: object) -> bytes:
        """The client's body for this model name and these changes: its own bytes if nothing differs."""
        if model != self.model:
            changes["model"] = model
        return dumped({**self.body, **changes}) if changes else self.raw

    @cached_property
    def stateful_parameter(self) -> str:
        """The name of a parameter that refers to state stored by a single provider, '' if there is none."""
        return self.dialect.stateful_parameter(self.body)

    @cached_property
    def chat(self) -> Chat:
        """The body as a conversation. Raises ValidationError."""
        return self.dialect.read_chat(self.body)

    @cached_property
    def embedding(self) -> Embedding:
        """The body as texts to embed. Raises ValidationError."""
        return self.dialect.read_embedding(self.body)


@dataclass(slots=True)
class Answer:
    """A whole answer: the body for the client, and what the format read from the provider's."""

    body: bytes
    content_type: str = "application/json"
    text: str = ""
    usage: Usage | None = None
    finish_reason: str = ""  # normalised: stop, length, tool, filter, error, pause or other
    provider_finish_reason: str = ""
    estimated: bool = False  # calculated by the gateway, not reported by a provider
    dropped: tuple[str, ...] = ()  # names of content that the client's shape cannot hold


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request in the provider's shape; `path` is relative to the provider's base URL."""

    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()  # names of client parameters that the provider does not get
    added: str = ""  # what the provider gets although the client did not send it: name=value


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a provider and of a model that affect translation."""

    unknown_parameters: str = "pass"  # the policy for parameters that the format does not know: refuse, drop or pass
    max_output_tokens: int | None = None  # of the model, for formats whose requests must state a maximum
    default_max_tokens: int = 8192  # for these, where the maximum of the model is not known


DEFAULT_OPTIONS = Options()


class StreamReader(ABC):
    """Reads one stream: returns the bytes to forward for each piece, and collects usage and finish reason.

    Only the provider's terminal mark sets `done`; an error inside the stream sets `error`.
    """

    def __init__(self, work: WorkRequest) -> None:
        self.work = work
        self.deltas: list[Delta] | None = None  # a list to fill if the stream is translated
        self._surrogates = SurrogateJoiner()
        self.done = False
        self.error: GatewayError | None = None
        self.usage: Usage | None = None
        self.finish_reason = ""
        self.provider_finish_reason = ""
        self.dropped_kinds: dict[str, None] = {}  # an ordered set: kinds of content that no other shape can hold

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended: nothing that follows belongs to it."""
        return self.done or self.error is not None

    @property
    def template(self) -> ChunkTemplate | None:
        """A template for the next piece: one that matches may be forwarded as it is, without feed()."""
        return None

    def parse_json(self, data: bytes) -> Any:
        """The JSON in an event, parsed by read_json()."""
        return read_json(data) if self.deltas is None else read_json(data, self._surrogates.placeholder)

    def take_deltas(self) -> list[Delta]:
        """The deltas since the last call."""
        deltas, self.deltas = self._surrogates.join(self.deltas or []), []
        return deltas

    @abstractmethod
    def feed(self, piece: bytes) -> bytes:
        """Take in a piece of the body; the bytes to forward, b"" for none."""

    @abstractmethod
    def end(self, is_complete: bool) -> bytes:
        """The last bytes to forward when the body ends; `is_complete`: whether HTTP's framing marked the end."""

    @abstractmethod
    def text(self, events: bytes) -> str:
        """The answer's text in a recorded stream."""

    def generated_text(self, events: bytes) -> str:
        """Everything the model generated in a recorded stream, calls and reasoning too, to estimate tokens from."""
        return self.text(events)

    def native_error(self, error: GatewayError) -> bytes:
        """The error in the provider's own stream shape, for clients of /work; b"" for events and lines of JSON."""
        return b""

    def end_with_error(self, error: GatewayError, work: WorkRequest | None = None) -> bytes:
        """The events that end an incomplete stream for a client of a door, as of a StreamWriter."""
        return self.work.dialect.error_event(work or self.work, error)


class TranslatingReader(StreamReader):
    """Reads a provider's stream with its format's reader and writes it in the client's dialect."""

    def __init__(self, reader: StreamReader) -> None:
        super().__init__(reader.work)
        reader.deltas = []
        self._reader = reader
        self._writer = reader.work.dialect.writer(reader.work)

    def feed(self, piece: bytes) -> bytes:
        self._reader.feed(piece)
        return self._forward()

    def end(self, is_complete: bool) -> bytes:
        self._reader.end(is_complete)
        return self._forward()

    def text(self, events: bytes) -> str:
        return self.work.dialect.text(events)

    def generated_text(self, events: bytes) -> str:
        return self.work.dialect.generated_text(events)

    def end_with_error(self, error: GatewayError, work: WorkRequest | None = None) -> bytes:
        return self._writer.end_with_error(error, work)

    def _forward(self) -> bytes:
        reader, was_done = self._reader, self.done
        self.done, self.error, self.usage = reader.done, reader.error, reader.usage
        self.finish_reason, self.provider_finish_reason = reader.finish_reason, reader.provider_finish_reason
        written = self._writer.write(reader.take_deltas()) if reader.deltas else b""
        if self.done and self.error is None and not was_done:
            written += dropped_comment(answer_names(reader.dropped_kinds)) + self._writer.end(self.usage)
        return written


class Format(ABC):
    """One provider-side wire format, without I/O: writes requests, reads answers, streams and refusals."""

    name: str
    native_dialects: frozenset[str] = frozenset()  # dialects whose bytes pass unchanged in both directions
    strict = False  # whether its providers refuse requests with unknown parameters
    counts_tokens = False  # whether its providers offer an operation that counts a conversation's tokens

    @abstractmethod
    def request(self, work: WorkRequest, model: str, options: Options = DEFAULT_OPTIONS) -> OutgoingRequest:
        """The request for the provider; `model` is the provider's name of the model. Raises ValidationError."""

    @abstractmethod
    def answer(self, work: WorkRequest, body: bytes) -> Answer:
        """The answer in the body of a 200, in the client's shape. Raises ProviderError if it holds none."""

    def answer_from_response(self, work: WorkRequest, headers: Mapping[str, str], body: bytes) -> Answer:
        """As answer(), for formats that also read headers; their names are in lower case."""
        return self.answer(work, body)

    @abstractmethod
    def native_reader(self, work: WorkRequest) -> StreamReader:
        """A reader for one stream that forwards the provider's bytes, or fills `deltas` if that is a list."""

    def reader(self, work: WorkRequest) -> StreamReader:
        """A reader for one stream that returns bytes in the client's shape."""
        reader = self.native_reader(work)
        return TranslatingReader(reader) if self.translates(work) else reader

    def translates(self, work: WorkRequest) -> bool:
        """Whether the client gets a shape other than the provider's."""
        return work.via_door and work.dialect.name not in self.native_dialects

    def url(self, base: str, path: str) -> str:
        """The full URL of a path of this format."""
        return base.rstrip("/") + path

    def is_stream(self, content_type: str) -> bool:
        """Whether a response with this Content-Type is a stream."""
        return content_type.partition(";")[0].strip().lower() == "text/event-stream"

    def error_text(self, body: bytes) -> str:
        """The provider's error message in the body of a refusal, '' if there is none."""
        return error_message(read_json(body))

    def refusal_from_response(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        """The error for our client that a response with a status other than 200 stands for."""
        return self.refusal(status, body, seconds_of(headers))

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        """As refusal_from_response(), from the status and the body; `retry_after` is in seconds."""
        text = self.error_text(body)
        if status in (429, 503, 529):
            return ProviderOverloaded(text, code=429 if status == 429 else 503, retry_after=retry_after)
        if status in (401, 403):
            return ProviderError(f"The provider refused the gateway's credential (status {status}).")
        if 400 <= status < 500:
            error = as_dict(as_dict(read_json(body)).get("error"))
            code = _short_text(error.get("code") or as_dict(error.get("details")).get("error_code"))
            too_long = exceeds_context_length(self.name, text, code, _short_text(error.get("type")))
            return ProviderRejected(
                text or f"The provider refused the request with status {status}.",
                code=status,
                reason=CONTEXT_LENGTH_EXCEEDED if too_long else code,
                field=_short_text(error.get("param")),
            )
        if 300 <= status < 400:
            return ProviderError(f"The provider answered with a redirect (status {status}), which is not followed.")
        return ProviderError(f"The provider failed with status {status}." + (f" It said: {text}" if text else ""))


def _short_text(value: object) -> str:
    """A code or name from a provider; '' if it is not a short printable string."""
    return value if isinstance(value, str) and len(value) <= MAX_CODE_LENGTH and value.isprintable() else ""


def read_object(body: bytes) -> JsonObject:
    """The JSON object in the body of a 200. Raises ProviderError if there is none, or if it holds an error."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise ProviderError("The provider answered 200 with something that is not a JSON object.")
    if error := error_in(value):
        raise error
    return value


def error_message(value: object) -> str:
    """The message in any of the error shapes that providers use: nested, flat, wrapped in a list, or FastAPI's."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return ""
    error = value.get("error")
    message = error.get("message") if isinstance(error, dict) else error or value.get("message") or value.get("detail")
    return message if isinstance(message, str) else json.dumps(message) if message else ""


def error_in(value: JsonObject) -> ProviderError | None:
    """The error inside the body of a 200, if there is one."""
    error = value.get("error")
    if not error:
        return None
    text = error_message(value)
    return ProviderError("The provider answered 200 with an error" + (f": {text}" if text else "."))
