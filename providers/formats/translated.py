"""The base of formats that translate through the neutral form, and the policy for unknown parameters."""

from abc import abstractmethod
from collections.abc import Mapping, Set
from dataclasses import fields, replace

from gateway_project.errors import ProviderError, ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.base import (
    DEFAULT_OPTIONS,
    EVENT_STREAM,
    NO_HEADERS,
    ClientResponse,
    Format,
    Options,
    OutgoingRequest,
    read_object,
)
from providers.formats.dialect import WorkRequest
from providers.formats.dropped import answer_names
from providers.formats.json_values import dump_value
from providers.formats.neutral.chat import Chat, Embedding, ToolChoice
from providers.formats.neutral.messages import Message, Text, Verbatim
from providers.formats.neutral.reply import Reply, Vectors
from providers.formats.parts import paragraphs_of

# Fields of Chat whose names for clients (OpenAI's) differ.
CLIENT_NAMES = {
    "choices": "n",
    "output": "response_format",
    "thinking": "reasoning_effort",
    "parallel_tools": "parallel_tool_calls",
}
# Values that every provider has as its default.
DEFAULT_VALUES = (("choices", 1), ("parallel_tools", True), ("presence_penalty", 0), ("frequency_penalty", 0))
# Parameters that help a provider to distinguish users or to use its cache. They do not change the answer. A format that
# does not know one drops it, whatever the policy, and names it in X-Svc-Dropped.
HINTS = frozenset(
    {
        "cache_control",
        "client_metadata",
        "context_management",
        "diagnostics",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "store",
        "user",
    }
)
# Parameters that add to the provider's own answer what no translated answer can hold.
LOGPROB_PARAMETERS = frozenset({"logprobs", "top_logprobs"})
NOT_PARAMETERS = {"messages", "extra", "source"}
TOOLS_PREFIX = "tools."  # of names in `extra`: tools other than functions, by type
PARAMETERS = tuple(field.name for field in fields(Chat) if field.name not in NOT_PARAMETERS)


class TranslatedFormat(Format):
    """A format that takes conversations in the neutral form.

    It translates the fields of Chat in `translated_parameters`. `native_parameters` and `native_tools` are names of the
    provider's own, which pass unchanged. The provider's policy decides about all other parameters.
    """

    translated_parameters: frozenset[str]
    native_parameters: frozenset[str] = frozenset()
    native_tools: frozenset[str] = frozenset()  # types of tools that the provider itself runs
    translated_embedding_parameters: frozenset[str] = frozenset()  # of dimensions and user
    native_embedding_parameters: frozenset[str] = frozenset()

    @abstractmethod
    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        """The body of a chat request, without native and unknown parameters. Raises ValidationError."""

    @abstractmethod
    def read_reply(self, value: JsonObject) -> Reply:
        """The answer in a provider's JSON object. Raises ProviderError if it holds none."""

    @abstractmethod
    def path(self, work: WorkRequest, model: str) -> str:
        """The request's path, relative to the base URL."""

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        """The body of an embedding request. Raises ValidationError."""
        raise ValidationError(f"Providers of the format {self.name} have no embeddings.")

    def read_vectors(self, value: JsonObject) -> Vectors:
        """The vectors in a provider's JSON object. Raises ProviderError if it holds none."""
        raise NotImplementedError

    def headers(self, work: WorkRequest) -> Mapping[str, str]:
        """The request's headers, apart from the credential's."""
        return NO_HEADERS

    def passthrough_body(self, work: WorkRequest, model: str) -> bytes:
        """The request body for a client whose dialect is native."""
        return work.body_for(model)

    def request(self, work: WorkRequest, model: str, options: Options = DEFAULT_OPTIONS) -> OutgoingRequest:
        path, headers = self.path(work, model), self.headers(work)
        if work.dialect.name in self.native_dialects:
            return OutgoingRequest(path, self.passthrough_body(work, model), headers)
        if work.operation == "embedding":
            unknown: Set[str] = self.unknown_embedding_parameters(work.embedding, model)
            inapplicable: Set[str] = frozenset()
            body, added = self.embedding_body(work, work.embedding, model), ""
        else:
            chat = self.restrict_tools(work.chat)
            native = self.native_values(chat)
            useless = native.keys() & LOGPROB_PARAMETERS if self.translates(work) else frozenset()
            unknown = self.unknown_parameters(chat, model)
            inapplicable = self.inapplicable_parameters(chat, model) | useless
            body = self.chat_body(work, chat, model, options)
            _add_native(body, {name: value for name, value in native.items() if name not in useless})
            _add_tools(body, self.native_tools_in(chat))
            added = self.added_parameter(chat, model, options)
        hints = unknown & HINTS
        dropped = _apply_policy(options.unknown_parameters, unknown - hints, inapplicable, work, body)
        return OutgoingRequest(path, dump_value(body), headers, tuple(sorted(dropped | hints)), added)

    def added_parameter(self, chat: Chat, model: str, options: Options) -> str:
        """`name=value` of a parameter that chat_body() adds because the provider requires it; '' if there is none."""
        return ""

    def restrict_tools(self, chat: Chat) -> Chat:
        """The conversation with only the tools that may be called, for providers that cannot forbid one."""
        if chat.tool_choice is None or not chat.tool_choice.allowed:
            return chat
        tools = [tool for tool in chat.tools if tool.name in chat.tool_choice.allowed]
        return replace(chat, tools=tools, tool_choice=ToolChoice(chat.tool_choice.mode))

    def native_values(self, chat: Chat) -> JsonObject:
        """The values of native parameters, which pass unchanged."""
        return {name: value for name, value in chat.extra.items() if name in self.native_parameters}

    def is_native_tool(self, kind: str) -> bool:
        """Whether the provider itself runs tools of this type."""
        return kind in self.native_tools

    def native_tools_in(self, chat: Chat) -> dict[str, list[JsonObject]]:
        """The client's tools that the provider itself runs, by their name in `extra`."""
        prefix = TOOLS_PREFIX
        kinds = ((name, name.removeprefix(prefix)) for name in sorted(chat.extra) if name.startswith(prefix))
        return {name: chat.extra[name] for name, kind in kinds if self.is_native_tool(kind)}

    def inapplicable_parameters(self, chat: Chat, model: str) -> Set[str]:
        """Parameters that the format knows, but that cannot apply to this conversation."""
        return frozenset()

    def unknown_parameters(self, chat: Chat, model: str) -> set[str]:
        """The client's parameters that the format does not know, by their names in the client's dialect."""
        untranslated = (name for name in PARAMETERS if name not in self.translated_parameters)
        names = {CLIENT_NAMES.get(name, name) for name in untranslated if _is_set(name, getattr(chat, name))}
        return names | (chat.extra.keys() - self.native_values(chat).keys() - self.native_tools_in(chat).keys())

    def unknown_embedding_parameters(self, embedding: Embedding, model: str) -> set[str]:
        """The same for an embedding's parameters."""
        supports, native = self.embedding_parameters(model)
        names = {name for name in ("dimensions", "user") if getattr(embedding, name)}
        return (names - supports) | (embedding.extra.keys() - native)

    def embedding_parameters(self, model: str) -> tuple[Set[str], Set[str]]:
        """The embedding parameters that are translated for the model, and its native ones."""
        return self.translated_embedding_parameters, self.native_embedding_parameters

    def native_embedding_values(self, embedding: Embedding) -> JsonObject:
        """The values of an embedding's native parameters."""
        return {name: value for name, value in embedding.extra.items() if name in self.native_embedding_parameters}

    def answer(self, work: WorkRequest, body: bytes) -> ClientResponse:
        value = read_object(body)
        if work.operation == "embedding":
            return self.build_embedding_answer(work, body, self.read_vectors(value))
        return self.build_answer(work, body, self.read_reply(value))

    def build_answer(self, work: WorkRequest, body: bytes, reply: Reply) -> ClientResponse:
        """The answer for a reply that was read from this body."""
        dropped: tuple[str, ...] = ()
        if work.via_door and work.stream:  # the provider sent no stream, but the client waits for one
            body, dropped = work.dialect.write_stream(work, reply), answer_names(_dropped_kinds(reply))
        elif self.translates(work):
            body, dropped = work.dialect.write_reply(work, reply), answer_names(_dropped_kinds(reply))
        return ClientResponse(
            body,
            EVENT_STREAM if work.via_door and work.stream else "application/json",
            text=reply.text,
            usage=reply.usage,
            finish_reason=reply.finish_reason,
            provider_finish_reason=reply.provider_finish_reason,
            dropped=dropped,
        )

    def build_embedding_answer(self, work: WorkRequest, body: bytes, vectors: Vectors) -> ClientResponse:
        """The answer for vectors that were read from this body."""
        if self.translates(work):
            _check_vectors(vectors, len(work.embedding.inputs))
            body = work.dialect.write_vectors(work, vectors)
        return ClientResponse(body, usage=vectors.usage)


def _dropped_kinds(reply: Reply) -> list[str]:
    """The kinds of content in an answer that no other shape can hold."""
    return [part.kind for part in reply.parts if isinstance(part, Verbatim)] + reply.dropped_kinds


def _check_vectors(vectors: Vectors, inputs: int) -> None:
    """Raise ProviderError unless there is a list of numbers for each input; other encodings are for /work only."""
    if len(vectors.vectors) != inputs or not all(isinstance(vector, list) for vector in vectors.vectors):
        raise ProviderError(f"The provider answered 200 without {inputs} vectors of numbers.")


def _add_native(body: JsonObject, values: JsonObject) -> None:
    """Set native parameters: they override translated ones; objects are merged field by field."""
    for name, value in values.items():
        ours = body.get(name)
        body[name] = {**ours, **value} if isinstance(ours, dict) and isinstance(value, dict) else value


def _add_tools(body: JsonObject, native_tools: dict[str, list[JsonObject]]) -> None:
    """Append the provider's own tools to the functions."""
    if own := [tool for tools in native_tools.values() for tool in tools]:
        body["tools"] = [*body.get("tools", ()), *own]


def _apply_policy(
    policy: str, unknown: Set[str], inapplicable: Set[str], work: WorkRequest, body: JsonObject
) -> Set[str]:
    """Refuse, drop or pass unknown parameters; the names of those that are dropped. Raises ValidationError."""
    if not unknown and not inapplicable:
        return unknown
    if policy == "refuse":
        raise ValidationError(
            f"This provider does not take {', '.join(sorted(unknown | inapplicable))} here; leave it out."
        )
    if policy == "pass":
        passed = {name: work.body[name] for name in sorted(unknown) if name in work.body and name not in body}
        body.update(passed)
        unknown = unknown - passed.keys()  # only parameters with a field of their own in the client's body can pass
    return unknown | inapplicable


def _is_set(name: str, value: object) -> bool:
    """Whether a parameter has a value other than the default."""
    if value is None or value in ("", []):
        return False
    return (name, value) not in DEFAULT_VALUES


def system_text(chat: Chat) -> tuple[str, list[Message]]:
    """The leading system messages and their blocks as one text, joined with blank lines, and all other messages.

    A later system message cannot be moved without changing its meaning: it becomes a user's turn that says so.
    """
    head, messages = split_system(chat)
    return paragraphs_of([part for message in head for part in message.parts]), messages


def split_system(chat: Chat) -> tuple[list[Message], list[Message]]:
    """The leading system messages, and all others, in which later system messages are users' turns."""
    number = next((at for at, message in enumerate(chat.messages) if message.role != "system"), len(chat.messages))
    return chat.messages[:number], [system_as_user(message) for message in chat.messages[number:]]


def system_as_user(message: Message) -> Message:
    """A system message as a user's turn that says so; any other message unchanged."""
    if message.role != "system":
        return message
    return Message("user", [Text("[System instruction]\n"), *message.parts])
