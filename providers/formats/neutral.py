"""What every shape of chat and embedding is translated into and out of. Each field has one meaning whoever wrote it.

A conversation goes from a client's dialect through `Chat` into a provider's format, the answer back through `Reply`
or, in a stream, through deltas. Where both sides speak the same shape, none of this is made: bytes pass untouched.
"""

from dataclasses import dataclass, field, replace

from gateway_project.json_types import JsonObject
from providers.formats.usage import Usage

# --- What a message consists of ---


@dataclass(slots=True)
class Text:
    """Words. `cache` is a mark to cache the prompt up to here, as Anthropic writes it ({"type": "ephemeral", …})."""

    text: str
    cache: JsonObject | None = None


@dataclass(slots=True)
class Image:
    """A picture: an address, or base64 `data` of a media type; `detail` is OpenAI's low, high or auto."""

    url: str = ""
    data: str = ""
    media_type: str = ""
    detail: str = ""
    cache: JsonObject | None = None


@dataclass(slots=True)
class File:
    """A document or sound: base64 `data` of a media type, an address, or the id of one that the provider keeps."""

    data: str = ""
    media_type: str = ""
    name: str = ""
    url: str = ""
    id: str = ""
    cache: JsonObject | None = None


@dataclass(slots=True)
class Reasoning:
    """What a model thought: its text, and what proves it or hides it to others, carried verbatim.

    `source` is the name of the format that made it: a signature is worth nothing anywhere else.
    """

    text: str = ""
    signature: str = ""  # belongs to the text
    data: str = ""  # instead of the text: redacted or encrypted
    source: str = ""
    id: str = ""  # of a Responses item


@dataclass(slots=True)
class ToolCall:
    """A call that the model wants made; `arguments` is JSON as text, '' for none, maybe invalid."""

    id: str
    name: str
    arguments: str = ""
    signature: str = ""  # Gemini signs calls instead of thoughts
    cache: JsonObject | None = None


@dataclass(slots=True)
class ToolResult:
    """What a call came to: texts and images."""

    call_id: str
    parts: list["Text | Image | File | Verbatim"]
    name: str = ""  # of the tool, where it is known
    is_error: bool = False
    cache: JsonObject | None = None


@dataclass(slots=True)
class Refusal:
    """The model's own words on why it does not answer."""

    text: str


@dataclass(slots=True)
class Verbatim:
    """A part that only the shape named by `source` knows: it goes through unchanged there, and nowhere else."""

    value: JsonObject
    source: str

    @property
    def kind(self) -> str:
        """Its type; of a part without one, the name of what it holds."""
        kind = self.value.get("type")
        return kind if isinstance(kind, str) else next(iter(self.value), "")


Part = Text | Image | File | Reasoning | ToolCall | ToolResult | Refusal | Verbatim


@dataclass(slots=True)
class Message:
    """One turn: `role` is system (developer too), user, assistant or tool (results alone)."""

    role: str
    parts: list[Part]
    name: str = ""


# --- What is asked for ---


@dataclass(slots=True)
class Tool:
    """A function that the model may call; `schema` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    schema: JsonObject | None = None
    strict: bool | None = None
    cache: JsonObject | None = None


@dataclass(slots=True)
class ToolChoice:
    """`kind` is auto, none, required or tool, the last with its name; `allowed` are the names it is confined to."""

    kind: str
    name: str = ""
    allowed: list[str] = field(default_factory=list)


@dataclass(slots=True)
class OutputFormat:
    """`kind` is json (any object) or schema."""

    kind: str
    schema: JsonObject | None = None
    name: str = ""
    strict: bool | None = None
    description: str = ""


@dataclass(slots=True)
class Thinking:
    """How much to think: `effort` none, minimal, low, medium, high, xhigh or max, or a budget in tokens."""

    effort: str = ""
    budget: int | None = None
    enabled: bool | None = None  # False: not at all; True with neither of the others: as the model likes


@dataclass(slots=True)
class Chat:
    """A conversation and how to go on with it; None and empty mean that the client did not say.

    `extra` holds the parameters that no field has, by the name and in the value that the client's dialect gave them.
    """

    messages: list[Message] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    tool_choice: ToolChoice | None = None
    parallel_tools: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] = field(default_factory=list)
    seed: int | None = None
    choices: int | None = None  # OpenAI's n
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    output: OutputFormat | None = None
    thinking: Thinking | None = None
    user: str = ""
    extra: JsonObject = field(default_factory=dict)
    source: str = ""  # the dialect's name


@dataclass(slots=True)
class Embedding:
    """Texts, or lists of token ids, to embed; `base64`: whether the client wants its vectors so."""

    inputs: list[str] | list[list[int]]
    dimensions: int | None = None
    base64: bool = False
    user: str = ""
    extra: JsonObject = field(default_factory=dict)


# --- What is answered ---


@dataclass(frozen=True, slots=True)
class Citation:
    """A page that words of an answer rest on: which ones say `start` and `end`, in characters of all of its words.

    `quote` is what the page says, where the provider tells it.
    """

    url: str
    title: str = ""
    quote: str = ""
    start: int = 0
    end: int = 0

    def since(self, begin: int) -> "Citation":
        """The same counted inside a text that begins there."""
        return replace(self, start=max(self.start - begin, 0), end=max(self.end - begin, 0))

    def within(self, begin: int, size: int) -> "Citation":
        """The same where the text is known to be so long: one that cites no words of it cites them all."""
        start, end = (min(max(place - begin, 0), size) for place in (self.start, self.end))
        return replace(self, start=start if start < end else 0, end=end if start < end else size)


@dataclass(slots=True)
class Reply:
    """A whole answer. `finish_reason` is normalised: stop, length, tool, filter, error, pause or other."""

    parts: list[Part] = field(default_factory=list)
    finish_reason: str = ""
    provider_finish_reason: str = ""
    usage: Usage | None = None
    id: str = ""
    model: str = ""
    stop_sequence: str | None = None  # the one that ended it, where the provider tells
    citations: list[Citation] = field(default_factory=list)
    # Kinds of content that only the provider's own shape has.
    dropped_kinds: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What a reader of the answer sees."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(slots=True)
class Vectors:
    """One vector for each input, in their order."""

    vectors: list[list[float]]
    usage: Usage | None = None
    model: str = ""


# --- What comes in a stream: few kinds, in the order in which they happen ---


@dataclass(slots=True)
class Began:
    """The answer has begun; both may be ''."""

    id: str = ""
    model: str = ""


@dataclass(slots=True)
class TextDelta:
    """More words of the answer."""

    text: str


@dataclass(slots=True)
class ReasoningDelta:
    """More of a thought; a signature or data comes whole, behind its text. `begins`: another thought than before."""

    text: str = ""
    signature: str = ""
    data: str = ""
    source: str = ""
    begins: bool = False


@dataclass(slots=True)
class RefusalDelta:
    """More of the model's refusal."""

    text: str


@dataclass(slots=True)
class ImageDelta:
    """A picture, whole."""

    image: Image


@dataclass(slots=True)
class CallBegan:
    """A tool call has begun; `index` counts the calls of this answer from 0, `id` is never empty."""

    index: int
    id: str
    name: str
    signature: str = ""


@dataclass(slots=True)
class CallDelta:
    """More of a call's arguments, as JSON text."""

    index: int
    arguments: str


@dataclass(slots=True)
class Finished:
    """The model has stopped; the usage may come before or after."""

    reason: str
    provider_reason: str = ""
    stop_sequence: str | None = None


# A citation comes whole, before or behind its words.
Delta = Began | TextDelta | ReasoningDelta | RefusalDelta | ImageDelta | CallBegan | CallDelta | Citation | Finished


def words_of(delta: Delta) -> str:
    """What a model has written with it: words, thoughts, or the arguments of a call."""
    if isinstance(delta, CallDelta):
        return delta.arguments
    return delta.text if isinstance(delta, TextDelta | ReasoningDelta | RefusalDelta) else ""


def cited_parts(reply: Reply) -> list[tuple[Part, int, list[Citation]]]:
    """Each part; where there are citations, with how many characters of words stand before it and those in it."""
    if not reply.citations:
        return [(part, 0, []) for part in reply.parts]
    last = max((number for number, part in enumerate(reply.parts) if isinstance(part, Text)), default=-1)
    cited, begin, citations = [], 0, sorted(reply.citations, key=lambda citation: citation.start)[::-1]
    for number, part in enumerate(reply.parts):
        end = begin + (len(part.text) if isinstance(part, Text) else 0)
        here = []
        while citations and (citations[-1].start < end or number == last):
            here.append(citations.pop())
        cited.append((part, begin, here))
        begin = end
    return cited


def deltas_of(reply: Reply) -> list[Delta]:
    """A whole answer as a stream would have said it; parts that no stream knows are left out."""
    deltas: list[Delta] = [Began(reply.id, reply.model)]
    calls = thoughts = 0
    for part, _, citations in cited_parts(reply):
        if isinstance(part, Text):
            deltas += [TextDelta(part.text), *citations]
        elif isinstance(part, Refusal):
            deltas.append(RefusalDelta(part.text))
        elif isinstance(part, Reasoning):
            deltas.append(ReasoningDelta(part.text, part.signature, part.data, part.source, begins=thoughts > 0))
            thoughts += 1
        elif isinstance(part, Image):
            deltas.append(ImageDelta(part))
        elif isinstance(part, ToolCall):
            deltas += [CallBegan(calls, part.id, part.name, part.signature), CallDelta(calls, part.arguments)]
            calls += 1
    return [*deltas, Finished(reply.finish_reason, reply.provider_finish_reason, reply.stop_sequence)]
