"""What every wire format speaks of: the work asked for, the answer, its usage, a refusal, a stream being read."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gateway_project.errors import GatewayError, ProviderError, ProviderOverloaded, ProviderRejected
from providers.formats.documents import as_dict, dumped, read_json
from providers.formats.dropped import comment_of, named
from providers.formats.halves import Halves
from providers.formats.neutral import Chat, Delta, Embedding, Reply, Vectors, deltas_of
from providers.formats.sse import Likeness
from providers.formats.too_long import CODE as CONTEXT
from providers.formats.too_long import is_too_long
from providers.formats.usage import Usage
from providers.retry_after import retry_after as seconds_of

EVENT_STREAM = "text/event-stream; charset=utf-8"
WORD_LIMIT = 128
COUNT_TOKENS = "count_tokens"  # the operation that asks how long a conversation is, and for no answer to it


class Dialect:
    """One shape that clients speak, without I/O: requests read out of it, answers written into it.

    A dialect is of conversations or of embeddings, and has the methods of its own kind.
    """

    name: str  # of the shape; a format whose `speaks` holds it takes and gives its bytes as they are
    unkept = ""  # the word by which clients know that a conversation is not kept for them, if they know one

    def chat(self, body: dict[str, Any]) -> Chat:
        """The conversation in a request's body. Raises ValidationError naming the field that is wrong."""
        raise NotImplementedError

    def bound_by(self, body: dict[str, Any]) -> str:
        """The parameter that refers to what one provider alone keeps, '' where there is none."""
        return ""

    def embedding(self, body: dict[str, Any]) -> Embedding:
        """The texts to embed. Raises ValidationError naming the field that is wrong."""
        raise NotImplementedError

    def reply(self, work: "WorkRequest", reply: Reply) -> bytes:
        """A whole answer's body."""
        raise NotImplementedError

    def vectors(self, work: "WorkRequest", vectors: Vectors) -> bytes:
        """An embedding's body."""
        raise NotImplementedError

    def writer(self, work: "WorkRequest") -> "StreamWriter":
        """A writer for one stream."""
        raise NotImplementedError

    def streamed(self, work: "WorkRequest", reply: Reply) -> bytes:
        """A whole answer's body for a client that asked for a stream."""
        writer = self.writer(work)
        return writer.write(deltas_of(reply)) + writer.end(reply.usage)

    def text(self, events: bytes) -> str:
        """The text in a stream that was written."""
        raise NotImplementedError

    def produced(self, events: bytes) -> str:
        """All that a model wrote in such a stream, calls and thoughts too."""
        return self.text(events)

    def error_event(self, work: "WorkRequest", error: GatewayError) -> bytes:
        """What tells an error in the middle of a stream."""
        raise NotImplementedError


class StreamWriter(ABC):
    """Writes one stream in a dialect's shape."""

    def __init__(self, work: "WorkRequest") -> None:
        self.work = work

    @abstractmethod
    def write(self, deltas: list[Delta]) -> bytes:
        """The bytes that say this."""

    @abstractmethod
    def end(self, usage: Usage | None) -> bytes:
        """What ends a stream that is whole, its terminal mark included."""

    def resume(self, last: dict[str, Any], about: dict[str, Any]) -> None:
        """Go on behind a provider's own events: the last of them, and what they said that the answer is."""
        return  # in most shapes, events know nothing of each other

    def broken(self, error: GatewayError) -> bytes:
        """What ends a stream that is not whole."""
        return self.work.dialect.error_event(self.work, error)


@dataclass
class WorkRequest:
    """What a client asked for. `raw` are the bytes that `body` was parsed from."""

    operation: str  # chat, completion, embedding or count_tokens
    model: str  # as the client named it
    body: dict[str, Any]
    raw: bytes
    stream: bool = False
    dialect: Dialect | None = None  # the shape of the body
    door: bool = False  # whether the answer goes back in that shape; else in the provider's own
    id: str = ""  # of the request, for answers that need an id and get none from the provider
    created: int = 0  # when it came, in seconds since 1970
    headers: dict[str, str] = field(default_factory=dict)  # of the client's, those that its provider gets too

    @property
    def wants_usage(self) -> bool:
        """Whether the client asked for the usage of its stream."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    def asking(self, model: str, **changes: Any) -> bytes:
        """The client's own bytes where nothing has to change, else its body with the model's name and the changes."""
        if model != self.model:
            changes["model"] = model
        return dumped({**self.body, **changes}) if changes else self.raw

    @cached_property
    def bound_by(self) -> str:
        """The parameter that refers to what one provider alone keeps, '' where there is none."""
        return self.dialect.bound_by(self.body)

    @cached_property
    def chat(self) -> Chat:
        """The body as a conversation. Raises ValidationError."""
        return self.dialect.chat(self.body)

    @cached_property
    def embedding(self) -> Embedding:
        """The body as texts to embed. Raises ValidationError."""
        return self.dialect.embedding(self.body)


@dataclass(slots=True)
class Answer:
    """A provider's whole answer: the body as it came, and what the format read in it."""

    body: bytes
    content_type: str = "application/json"
    text: str = ""
    usage: Usage | None = None
    finish_reason: str = ""  # normalised: stop, length, tool, filter, error, pause or other
    provider_finish_reason: str = ""
    estimated: bool = False  # no provider said it: the gateway did, by its own lights
    dropped: tuple[str, ...] = ()  # what the client's shape has no place for


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request in the provider's own shape: where below its base URL, and the body."""

    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()  # parameters of the client's that the provider does not get


@dataclass(frozen=True, slots=True)
class Options:
    """What a provider's record says about translating for it, and the model's about itself."""

    unknown_parameters: str = "pass"  # refuse, drop or pass: what becomes of parameters that the format does not know
    max_output_tokens: int | None = None  # of the model, for formats that must name a bound


AS_IS = Options()


class StreamReader(ABC):
    """Reads one stream: what to hand on of each piece, and what the stream turned out to say.

    `done` is set by the provider's terminal mark alone; `error` by an error inside the stream.
    """

    def __init__(self, work: WorkRequest) -> None:
        self.work = work
        self.deltas: list[Delta] | None = None  # a list to be filled, where the stream is translated
        self._halves = Halves()
        self.done = False
        self.error: GatewayError | None = None
        self.usage: Usage | None = None
        self.finish_reason = ""
        self.provider_finish_reason = ""
        self.lost: dict[str, None] = {}  # kinds of what it held that no other shape knows

    @property
    def is_over(self) -> bool:
        """Whether nothing that may follow belongs to the stream."""
        return self.done or self.error is not None

    @property
    def likeness(self) -> Likeness | None:
        """What the next piece may be like: then it can be handed on as it is, and need not be fed."""
        return None

    def parsed(self, data: bytes) -> Any:
        """The JSON in an event, as read_json() has it."""
        return read_json(data) if self.deltas is None else read_json(data, self._halves.mark)

    def told(self) -> list[Delta]:
        """What the stream has said since this was asked for last."""
        told, self.deltas = self._halves.joined(self.deltas), []
        return told

    @abstractmethod
    def feed(self, piece: bytes) -> bytes:
        """The bytes to hand on now that this piece has arrived; b"" when there are none."""

    @abstractmethod
    def end(self, settled: bool) -> bytes:
        """What is left to hand on at the end of the connection; `settled`: the framing said it was the end."""

    @abstractmethod
    def text(self, events: bytes) -> str:
        """The text in a recorded stream."""

    def produced(self, events: bytes) -> str:
        """All that a model wrote in a recorded stream, calls and thoughts too: to estimate tokens nobody counted."""
        return self.text(events)

    def own_error(self, error: GatewayError) -> bytes:
        """What tells a client of /work that its stream is not whole; b"" where events or lines of JSON do."""
        return b""

    def broken(self, error: GatewayError) -> bytes:
        """What tells a client of a door that its stream is not whole."""
        return self.work.dialect.error_event(self.work, error)


class Translated(StreamReader):
    """A provider's stream read by its format and written in the client's dialect."""

    def __init__(self, reader: StreamReader) -> None:
        super().__init__(reader.work)
        reader.deltas = []
        self._reader = reader
        self._writer = reader.work.dialect.writer(reader.work)

    def feed(self, piece: bytes) -> bytes:
        self._reader.feed(piece)
        return self._hand_on()

    def end(self, settled: bool) -> bytes:
        self._reader.end(settled)
        return self._hand_on()

    def text(self, events: bytes) -> str:
        return self.work.dialect.text(events)

    def produced(self, events: bytes) -> str:
        return self.work.dialect.produced(events)

    def broken(self, error: GatewayError) -> bytes:
        return self._writer.broken(error)

    def _hand_on(self) -> bytes:
        reader, was_done = self._reader, self.done
        self.done, self.error, self.usage = reader.done, reader.error, reader.usage
        self.finish_reason, self.provider_finish_reason = reader.finish_reason, reader.provider_finish_reason
        written = self._writer.write(reader.told()) if reader.deltas else b""
        if self.done and self.error is None and not was_done:
            written += comment_of(named(reader.lost)) + self._writer.end(self.usage)
        return written


class Format(ABC):
    """One wire format, without I/O: the request to send, the answer, the stream and the refusals read."""

    name: str
    speaks: frozenset[str] = frozenset()  # dialects whose bytes it takes and gives as they are
    strict = False  # whether its providers refuse a request with a parameter that they do not know
    counts_tokens = False  # whether its providers count the tokens of a conversation when they are asked

    @abstractmethod
    def request(self, work: WorkRequest, model: str, options: Options = AS_IS) -> Outgoing:
        """The request for the provider, asking for the model by this name. Raises ValidationError."""

    @abstractmethod
    def answer(self, work: WorkRequest, body: bytes) -> Answer:
        """The answer in a body of status 200, in the client's shape. Raises ProviderError where it is none."""

    def answered(self, work: WorkRequest, headers: Mapping[str, str], body: bytes) -> Answer:
        """The same out of a whole answer; `headers` have names in small letters."""
        return self.answer(work, body)

    @abstractmethod
    def own_reader(self, work: WorkRequest) -> StreamReader:
        """A reader for one stream that hands on the provider's bytes, or fills `deltas` if they are set."""

    def reader(self, work: WorkRequest) -> StreamReader:
        """A reader for one stream that hands on the client's shape."""
        reader = self.own_reader(work)
        return Translated(reader) if self.translates(work) else reader

    def translates(self, work: WorkRequest) -> bool:
        """Whether the client gets another shape than the provider's own."""
        return work.door and work.dialect.name not in self.speaks

    def url(self, base: str, path: str) -> str:
        """Where a path of the format lies below the provider's base URL."""
        return base.rstrip("/") + path

    def streams(self, content_type: str) -> bool:
        """Whether an answer of this media type is a stream."""
        return content_type.partition(";")[0].strip().lower() == "text/event-stream"

    def error_text(self, body: bytes) -> str:
        """The provider's own words in the body of a refusal, '' where there are none."""
        return error_message(read_json(body))

    def refused(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        """The error that an answer other than 200 means to our client."""
        return self.refusal(status, body, seconds_of(headers))

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        """The same out of the status and the body alone."""
        text = self.error_text(body)
        if status in (429, 503, 529):
            code = 429 if status == 429 else 503
            return ProviderOverloaded(text, code=code, retry_after=retry_after)
        if status in (401, 403):
            return ProviderError(f"The provider refused the gateway's credential (status {status}).")
        if 400 <= status < 500:
            said = as_dict(as_dict(read_json(body)).get("error"))
            code = _word(said.get("code") or as_dict(said.get("details")).get("error_code"))
            too_long = is_too_long(self.name, text, code, _word(said.get("type")))
            return ProviderRejected(
                text or f"The provider refused the request with status {status}.",
                code=status,
                reason=CONTEXT if too_long else code,
                field=_word(said.get("param")),
            )
        if 300 <= status < 400:
            return ProviderError(f"The provider answered with a redirect (status {status}), which is not followed.")
        return ProviderError(f"The provider failed with status {status}." + (f" It said: {text}" if text else ""))


def _word(value: Any) -> str:
    """A code or a name that a provider gave, '' where it is none."""
    return value if isinstance(value, str) and len(value) <= WORD_LIMIT and value.isprintable() else ""


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in an answer of status 200. Raises ProviderError where it is none, or holds an error."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise ProviderError("The provider answered 200 with something that is not a JSON object.")
    if error := error_in(value):
        raise error
    return value


def error_message(value: Any) -> str:
    """The message in the error shapes that providers use: nested, flat, wrapped in a list, or FastAPI's."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return ""
    error = value.get("error")
    found = error.get("message") if isinstance(error, dict) else error or value.get("message") or value.get("detail")
    return found if isinstance(found, str) else json.dumps(found) if found else ""


def error_in(value: dict) -> ProviderError | None:
    """The error that an answer of status 200 holds."""
    error = value.get("error")
    if not error:
        return None
    text = error_message(value)
    return ProviderError("The provider answered 200 with an error" + (f": {text}" if text else "."))
