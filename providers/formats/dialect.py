"""The interface of dialects, and the work request that they read."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import dump_value
from providers.formats.neutral.chat import Chat, Embedding
from providers.formats.neutral.deltas import Delta, deltas_of
from providers.formats.neutral.reply import Reply, Vectors
from providers.formats.usage import Usage

COUNT_TOKENS = "count_tokens"  # the operation that counts a conversation's tokens and asks for no answer


class Dialect:
    """One client-side wire shape, without I/O: reads requests in it, writes answers in it.

    A dialect is for conversations or for embeddings and implements the methods of its kind.
    """

    name: str = ""  # formats with this name in `native_dialects` pass its bytes unchanged
    output_bounds: tuple[str, ...] = ()  # the parameters that bound an answer's tokens, the one to add first
    conversation = ""  # the member with the messages, to which more can be added; a text alone is the user's
    stateful_unsupported_code = ""  # the error code, if any, that tells clients that conversations are not stored

    def read_chat(self, body: JsonObject) -> Chat:
        """The conversation in a request body. Raises ValidationError naming the invalid field."""
        raise NotImplementedError

    def runs_in_background(self, body: JsonObject) -> bool:
        """Whether the provider answers at once and then works in the background, without a client."""
        return False

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
        """A whole answer as a stream, for a client that asked for one."""
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
    """A client's request. `raw` is `body` as JSON: the client's own bytes, unless the path names another model."""

    operation: str  # chat, completion, embedding or count_tokens
    model: str  # as the client named it
    body: JsonObject
    raw: bytes
    stream: bool = False
    dialect: Dialect = NO_DIALECT  # the shape of the body
    via_door: bool = False  # whether the answer has the dialect's shape; else (/work) the provider's own
    id: str = ""  # the request's id, for answers that need one and get none from the provider
    created: int = 0  # when the request arrived, in seconds since 1970
    added_bound: str = ""  # the name of the parameter by which the gateway bounds the answer: the client sent none
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
        return dump_value({**self.body, **changes}) if changes else self.raw

    @property
    def runs_in_background(self) -> bool:
        """Whether the provider goes on with it after its answer; on /work the body may be of any API that has this."""
        return self.dialect.runs_in_background(self.body) or (not self.via_door and bool(self.body.get("background")))

    @property
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
