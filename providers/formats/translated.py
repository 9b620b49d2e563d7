"""What the formats share that translate conversations: the way through the neutral form, and foreign parameters."""

from abc import abstractmethod
from collections.abc import Set
from dataclasses import fields, replace
from typing import Any

from gateway_project.errors import ProviderError, ValidationError
from providers.formats.base import AS_IS, EVENT_STREAM, Answer, Format, Options, Outgoing, WorkRequest, read_object
from providers.formats.documents import dumped
from providers.formats.dropped import named
from providers.formats.neutral import Chat, Embedding, Message, Reply, Text, ToolChoice, Vectors, Verbatim
from providers.formats.parts import paragraphs_of

# How the parameters of Chat are called where a client is told of them: as OpenAI calls them.
NAMES = {
    "choices": "n",
    "output": "response_format",
    "thinking": "reasoning_effort",
    "parallel_tools": "parallel_tool_calls",
}
# Values that mean what every provider does unasked.
DEFAULTS = (("choices", 1), ("parallel_tools", True), ("presence_penalty", 0), ("frequency_penalty", 0))
# What helps a provider to tell users apart or to find what it has cached. The answer is the same without it: where it
# is not known it is left out whatever the policy, and named.
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
# What these ask for stands in the provider's own answer alone: no other shape is written with it.
OF_TOKENS = frozenset({"logprobs", "top_logprobs"})
# What every format has to translate itself.
ALWAYS = {"messages", "extra", "source"}
TOOLS = "tools."  # how the name of a kind of tools in `extra` begins
PARAMETERS = tuple(field.name for field in fields(Chat) if field.name not in ALWAYS)


class TranslatedFormat(Format):
    """A format that takes conversations in the neutral form.

    `supports` are the parameters of Chat that it translates, `native` the names of further parameters that the
    provider knows by itself, `own_tools` its tools: those go through as they are. Whatever else a client asks for
    meets the provider's policy.
    """

    supports: frozenset[str]
    native: frozenset[str] = frozenset()
    own_tools: frozenset[str] = frozenset()  # kinds of tools that the provider runs itself
    embedding_supports: frozenset[str] = frozenset()  # of dimensions and user
    embedding_native: frozenset[str] = frozenset()

    @abstractmethod
    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> dict[str, Any]:
        """The body of a chat request, without native and unknown parameters. Raises ValidationError."""

    @abstractmethod
    def read_reply(self, value: dict[str, Any]) -> Reply:
        """The answer in a provider's JSON object. Raises ProviderError where it is none."""

    @abstractmethod
    def path(self, work: WorkRequest, model: str) -> str:
        """Where below the base URL the request goes."""

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> dict[str, Any]:
        """The body of an embedding request. Raises ValidationError."""
        raise ValidationError(f"Providers of the format {self.name} have no embeddings.")

    def read_vectors(self, value: dict[str, Any]) -> Vectors:
        """The vectors in a provider's JSON object. Raises ProviderError where there are none."""
        raise NotImplementedError

    def headers(self, work: WorkRequest) -> dict[str, str]:
        """Headers that the request needs beside the credential's."""
        return {}

    def passed(self, work: WorkRequest, model: str) -> bytes:
        """The body of a client that speaks the format's own shape."""
        return work.asking(model)

    def request(self, work: WorkRequest, model: str, options: Options = AS_IS) -> Outgoing:
        path, headers = self.path(work, model), self.headers(work)
        if work.dialect.name in self.speaks:
            return Outgoing(path, self.passed(work, model), headers)
        if work.operation == "embedding":
            foreign, left_out = self.foreign_to_embedding(work.embedding, model), frozenset()
            body = self.embedding_body(work, work.embedding, model)
        else:
            chat = self.asked(work.chat)
            natives = self.natives(chat)
            lost = natives.keys() & OF_TOKENS if self.translates(work) else frozenset()
            foreign, left_out = self.foreign(chat, model), self.left_out(chat, model) | lost
            body = self.chat_body(work, chat, model, options)
            _add_native(body, {name: value for name, value in natives.items() if name not in lost})
            _add_tools(body, self.its_tools(chat))
        hints = foreign & HINTS
        dropped = _met(options.unknown_parameters, foreign - hints, left_out, work, body)
        return Outgoing(path, dumped(body), headers, tuple(sorted(dropped | hints)))

    def asked(self, chat: Chat) -> Chat:
        """The conversation with no other tools than those that may be called: who cannot forbid a tool offers none."""
        if chat.tool_choice is None or not chat.tool_choice.allowed:
            return chat
        tools = [tool for tool in chat.tools if tool.name in chat.tool_choice.allowed]
        return replace(chat, tools=tools, tool_choice=ToolChoice(chat.tool_choice.kind))

    def natives(self, chat: Chat) -> dict[str, Any]:
        """The parameters that go through as they are."""
        return {name: value for name, value in chat.extra.items() if name in self.native}

    def runs(self, kind: str) -> bool:
        """Whether tools of this kind are the provider's own."""
        return kind in self.own_tools

    def its_tools(self, chat: Chat) -> dict[str, list[dict[str, Any]]]:
        """The tools among a client's that are the provider's own, by the name that their kind has in `extra`."""
        kinds = ((name, name.removeprefix(TOOLS)) for name in sorted(chat.extra) if name.startswith(TOOLS))
        return {name: chat.extra[name] for name, kind in kinds if self.runs(kind)}

    def left_out(self, chat: Chat, model: str) -> Set[str]:
        """Parameters that the format knows and this conversation cannot have: they are dropped unless refused."""
        return frozenset()

    def foreign(self, chat: Chat, model: str) -> set[str]:
        """Parameters that the client gave and the format does not know, as the client's dialect calls them."""
        unsupported = (name for name in PARAMETERS if name not in self.supports)
        named = {NAMES.get(name, name) for name in unsupported if _says_something(name, getattr(chat, name))}
        return named | (chat.extra.keys() - self.natives(chat).keys() - self.its_tools(chat).keys())

    def foreign_to_embedding(self, embedding: Embedding, model: str) -> set[str]:
        """The same for an embedding's parameters."""
        supports, native = self.embedding_parameters(model)
        given = {name for name in ("dimensions", "user") if getattr(embedding, name)}
        return (given - supports) | (embedding.extra.keys() - native)

    def embedding_parameters(self, model: str) -> tuple[Set[str], Set[str]]:
        """The parameters of an embedding that are translated for the model, and those that it knows by itself."""
        return self.embedding_supports, self.embedding_native

    def native_to_embedding(self, embedding: Embedding) -> dict[str, Any]:
        """The parameters of an embedding that the provider knows by itself."""
        return {name: value for name, value in embedding.extra.items() if name in self.embedding_native}

    def answer(self, work: WorkRequest, body: bytes) -> Answer:
        value = read_object(body)
        if work.operation == "embedding":
            return self.embedded(work, body, self.read_vectors(value))
        return self.replied(work, body, self.read_reply(value))

    def replied(self, work: WorkRequest, body: bytes, reply: Reply) -> Answer:
        """The answer that says this, which came in this body."""
        dropped: tuple[str, ...] = ()
        if work.door and work.stream:  # the client waits for events, whatever the provider made of its request
            body, dropped = work.dialect.streamed(work, reply), named(_lost(reply))
        elif self.translates(work):
            body, dropped = work.dialect.reply(work, reply), named(_lost(reply))
        return Answer(
            body,
            EVENT_STREAM if work.door and work.stream else "application/json",
            text=reply.text,
            usage=reply.usage,
            finish_reason=reply.finish_reason,
            provider_finish_reason=reply.provider_finish_reason,
            dropped=dropped,
        )

    def embedded(self, work: WorkRequest, body: bytes, vectors: Vectors) -> Answer:
        """The answer with these vectors, which came in this body."""
        if self.translates(work):
            _check_vectors(vectors, len(work.embedding.inputs))
            body = work.dialect.vectors(work, vectors)
        return Answer(body, usage=vectors.usage)


def _lost(reply: Reply) -> list[str]:
    """What there was to an answer that no other shape has a place for."""
    return [part.kind for part in reply.parts if isinstance(part, Verbatim)] + reply.lost


def _check_vectors(vectors: Vectors, inputs: int) -> None:
    """Raises ProviderError where there is not one list of numbers for each input; other kinds are for /work."""
    if len(vectors.vectors) != inputs or not all(isinstance(vector, list) for vector in vectors.vectors):
        raise ProviderError(f"The provider answered 200 with something else than {inputs} vectors of numbers.")


def _add_native(body: dict[str, Any], given: dict[str, Any]) -> None:
    """Native parameters go before translated ones; of two objects, field by field."""
    for name, value in given.items():
        ours = body.get(name)
        body[name] = {**ours, **value} if isinstance(ours, dict) and isinstance(value, dict) else value


def _add_tools(body: dict[str, Any], its_tools: dict[str, list[dict[str, Any]]]) -> None:
    """The provider's own tools stand behind the functions."""
    if own := [tool for tools in its_tools.values() for tool in tools]:
        body["tools"] = [*body.get("tools", ()), *own]


def _met(policy: str, foreign: Set[str], left_out: Set[str], work: WorkRequest, body: dict[str, Any]) -> Set[str]:
    """What the policy makes of foreign parameters: the body may get them, the names are of those that it does not."""
    if not foreign and not left_out:
        return foreign
    if policy == "refuse":
        raise ValidationError(
            f"This provider does not take {', '.join(sorted(foreign | left_out))} here; leave it out."
        )
    if policy == "pass":
        passed = {name: work.body[name] for name in sorted(foreign) if name in work.body and name not in body}
        body.update(passed)
        foreign = foreign - passed.keys()  # what has no place there cannot be passed
    return foreign | left_out


def _says_something(name: str, value: Any) -> bool:
    """Whether leaving the parameter out would ask for something else."""
    if value is None or value in ("", []):
        return False
    return (name, value) not in DEFAULTS


def system_text(chat: Chat) -> tuple[str, list[Message]]:
    """System messages at the head, and the blocks of each, joined with blank lines, and all other messages.

    One in mid-conversation cannot be moved without changing what it means: it becomes a user's turn, marked.
    """
    head, messages = split_system(chat)
    return paragraphs_of([part for message in head for part in message.parts]), messages


def split_system(chat: Chat) -> tuple[list[Message], list[Message]]:
    """The system messages at the head, and all others, none of which is one any more."""
    number = next((at for at, message in enumerate(chat.messages) if message.role != "system"), len(chat.messages))
    return chat.messages[:number], [marked(message) for message in chat.messages[number:]]


def marked(message: Message) -> Message:
    """A system message as a user's turn that says so; any other as it is."""
    if message.role != "system":
        return message
    return Message("user", [Text("[System instruction]\n"), *message.parts])
