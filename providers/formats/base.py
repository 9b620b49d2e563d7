"""The interface of wire formats, and what its methods take and return."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from gateway_project.errors import GatewayError, ProviderError, ProviderOverloaded, ProviderRejected
from gateway_project.json_types import JsonObject
from providers.formats.dialect import WorkRequest
from providers.formats.dropped import answer_names, dropped_comment
from providers.formats.json_values import as_dict, read_json
from providers.formats.kept_state import Reference, files_in
from providers.formats.neutral.deltas import Delta
from providers.formats.neutral.reply import FinishReason
from providers.formats.sse import ChunkTemplate
from providers.formats.surrogates import SurrogateJoiner
from providers.formats.usage import Usage
from providers.transport.retry_after import retry_after as seconds_of

EVENT_STREAM = "text/event-stream; charset=utf-8"
MAX_CODE_LENGTH = 128
# Statuses from 400 to 499 that are no fault of the request: the gateway's credential, the provider's time, a limit.
NOT_OF_THE_REQUEST = frozenset({401, 403, 408, 429})
CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
NO_HEADERS: Mapping[str, str] = {}  # a Mapping: nobody may add to it


@dataclass(slots=True)
class ClientResponse:
    """A whole answer: the body for the client, and what the format read from the provider's."""

    body: bytes
    content_type: str = "application/json"
    text: str = ""
    usage: Usage | None = None
    finish_reason: str = ""  # a FinishReason, or its text from the cache
    provider_finish_reason: str = ""
    estimated: bool = False  # calculated by the gateway, not reported by a provider
    dropped: tuple[str, ...] = ()  # names of content that the client's shape cannot hold
    state_ids: tuple[str, ...] = ()  # ids of what the provider keeps under the gateway's account


class OutgoingRequest(NamedTuple):
    """A request in the provider's shape; `path` is relative to the provider's base URL."""

    path: str
    body: bytes
    headers: Mapping[str, str] = NO_HEADERS
    dropped: tuple[str, ...] = ()  # names of client parameters that the provider does not get
    added: str = ""  # a parameter that the client did not send: name=value


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a provider and of a model that affect translation."""

    unknown_parameters: str = "pass"  # the policy for parameters that the format does not know: refuse, drop or pass
    max_output_tokens: int | None = None  # of the model; some formats require a maximum in each request
    default_max_tokens: int = 8192  # for those formats, if the model's maximum is not known


DEFAULT_OPTIONS = Options()


class StreamReader(ABC):
    """Reads one stream: returns the bytes to forward for each piece, and collects usage and finish reason.

    The provider's terminal mark sets `done`. An error inside the stream sets `error`.
    """

    def __init__(self, work: WorkRequest) -> None:
        self.work = work
        self.deltas: list[Delta] | None = None  # a list to fill if the stream is translated
        self._surrogates = SurrogateJoiner()
        self.done = False
        self.error: GatewayError | None = None
        self.usage: Usage | None = None
        self.finish_reason = FinishReason.UNKNOWN
        self.provider_finish_reason = ""
        self.dropped_kinds: dict[str, None] = {}  # an ordered set: kinds of content that no other shape can hold
        self.state_ids: dict[str, None] = {}  # an ordered set: the ids of what the provider keeps of the answer so far

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended: nothing that follows belongs to it."""
        return self.done or self.error is not None

    @property
    def template(self) -> ChunkTemplate | None:
        """A template for the next piece. A piece that matches can be forwarded without feed()."""
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
        """Everything the model generated in a recorded stream, with calls and reasoning, to estimate its tokens."""
        return self.text(events)

    def has_text(self, events: bytes) -> bool:
        """Whether the model generated anything of these events."""
        return bool(self.generated_text(events))

    def native_error(self, error: GatewayError) -> bytes:
        """The error in the provider's own stream shape, for clients of /work; b"" for events and lines of JSON."""
        return b""

    def end_with_error(self, error: GatewayError, work: WorkRequest | None = None) -> bytes:
        """The events that end an incomplete stream for a client of a door, as StreamWriter.end_with_error()."""
        return self.work.dialect.error_event(work or self.work, error)


class TranslatingReader(StreamReader):
    """Reads a provider's stream with its format's reader and writes it in the client's dialect."""

    def __init__(self, reader: StreamReader) -> None:
        super().__init__(reader.work)
        reader.deltas = []
        self._reader = reader
        self.state_ids = reader.state_ids
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
        events = self._writer.write(reader.take_deltas()) if reader.deltas else b""
        if self.done and self.error is None and not was_done:
            events += dropped_comment(answer_names(reader.dropped_kinds)) + self._writer.end(self.usage)
        return events


class Format(ABC):
    """One provider-side wire format, without I/O: writes requests, reads answers, streams and refusals."""

    name: str
    native_dialects: frozenset[str] = frozenset()  # dialects whose bytes pass unchanged in both directions
    strict = False  # whether its providers refuse requests with unknown parameters
    counts_tokens = False  # whether its providers offer an operation that counts a conversation's tokens
    has_known_shape: ClassVar[bool] = True  # whether an operation says what a provider does with a request
    # What an error's message, code or type says of a conversation that is longer than the model's context: most
    # providers report that only in the message. Clients that get its code shorten the conversation.
    too_long_pattern: ClassVar[re.Pattern[str] | None] = None
    # Path and query of the list of models, relative to the provider's URL, if it is not /models.
    models_path: ClassVar[str] = ""

    @abstractmethod
    def request(self, work: WorkRequest, model: str, options: Options = DEFAULT_OPTIONS) -> OutgoingRequest:
        """The request for the provider; `model` is the provider's name of the model. Raises ValidationError."""

    @abstractmethod
    def answer(self, work: WorkRequest, body: bytes) -> ClientResponse:
        """The answer in the body of a 200, in the client's shape. Raises UpstreamError if it holds none."""

    def answer_from_response(self, work: WorkRequest, headers: Mapping[str, str], body: bytes) -> ClientResponse:
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

    def references(self, work: WorkRequest) -> tuple[Reference, ...]:
        """The ids in a request of what providers of this format keep. Raises ValidationError for an invalid one."""
        return files_in(work.raw, work.body)

    def is_kept(self, work: WorkRequest) -> bool:
        """Whether the provider keeps the answer, so that its user can refer to it."""
        return False

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
            own_message = f"The provider is overloaded (status {status})."
            return ProviderOverloaded(
                text, code=429 if status == 429 else 503, own_message=own_message, retry_after=retry_after
            )
        if status in (401, 403):
            refusal = ProviderError(f"The provider refused the gateway's credential (status {status}).")
            refusal.refuses_account = status == 401  # 403 may be about the model
            return refusal
        if 400 <= status < 500:
            error = as_dict(as_dict(read_json(body)).get("error"))
            code = _short_text(error.get("code") or as_dict(error.get("details")).get("error_code"))
            phrase = self._too_long_phrase(text, code, _short_text(error.get("type")))
            own_message = f"The provider refused the request with status {status}."
            rejection = ProviderRejected(
                text or own_message,
                code=status,
                own_message=own_message,
                reason=CONTEXT_LENGTH_EXCEEDED if phrase else code,
                field=_short_text(error.get("param")),
            )
            rejection.context_length_phrase = phrase
            rejection.refuses_account = status == ProviderRejected.PAYMENT_REQUIRED
            return rejection
        if 300 <= status < 400:
            return ProviderError(f"The provider answered with a redirect (status {status}), which is not followed.")
        return failure_with_words(f"The provider failed with status {status}.", text)

    def _too_long_phrase(self, *texts: str) -> str:
        """The phrase in an error's texts that says that the conversation is too long; '' if there is none."""
        pattern = self.too_long_pattern
        matches = (pattern.search(text) for text in texts) if pattern else ()
        return next((match[0] for match in matches if match), "")


def _short_text(value: object) -> str:
    """A code or name from a provider; '' if it is not a short printable string."""
    return value if isinstance(value, str) and len(value) <= MAX_CODE_LENGTH and value.isprintable() else ""


def read_object(body: bytes) -> JsonObject:
    """The JSON object in the body of a 200. Raises ProviderError if there is none, and the error if it holds one."""
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


def failure_with_words(message: str, words: str) -> ProviderError:
    """The failure that this message tells, with the provider's words, if it has said any."""
    return ProviderError(f"{message} It said: {words}", own_message=message) if words else ProviderError(message)


def error_in(value: JsonObject) -> ProviderError | ProviderRejected | None:
    """The error inside the body of a 200, if there is one."""
    error = value.get("error")
    if not error:
        return None
    text = error_message(value)
    if is_refusal(status := status_in(value)):
        return late_rejection(text, status, code_in(value))
    if not text:
        return ProviderError("The provider answered 200 with an error.")
    message = "The provider answered 200 with an error"
    return ProviderError(f"{message}: {text}", own_message=f"{message}.")


def status_in(value: JsonObject) -> int:
    """The status that an error inside a 200 has as its code, as a number or in digits (LiteLLM's); 0 if it has none."""
    code = code_in(value)
    if code == CONTEXT_LENGTH_EXCEEDED:
        return 400
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:
        return int(code)
    return code if isinstance(code, int) else 0


def code_in(value: JsonObject) -> object:
    """The code of the error in an object."""
    return as_dict(value.get("error")).get("code")


def is_refusal(status: int) -> bool:
    """Whether an error inside a 200 is the fault of the request, and not of a credential, a limit or the time."""
    return 400 <= status < 500 and status not in NOT_OF_THE_REQUEST


def late_rejection(message: str, status: int = 400, code: object = "") -> ProviderRejected:
    """The error for a request that its provider refuses inside a 200: that is no failure of the provider."""
    reason = CONTEXT_LENGTH_EXCEEDED if code == CONTEXT_LENGTH_EXCEEDED else ""
    text = f"The provider refused the request: {message}" if message else ""
    error = ProviderRejected(text, code=status, reason=reason, own_message=ProviderRejected.default_message)
    error.context_length_phrase = reason
    error.may_have_worked, error.refuses_account = True, status == ProviderRejected.PAYMENT_REQUIRED
    return error
