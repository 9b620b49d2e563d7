"""What a client wants: the next turn of a conversation, or vectors of texts."""

from dataclasses import dataclass, field
from enum import StrEnum

from gateway_project.json_types import JsonObject
from providers.formats.neutral.messages import Message


@dataclass(slots=True)
class Tool:
    """A function that the model may call; `schema` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    schema: JsonObject | None = None
    strict: bool | None = None
    cache: JsonObject | None = None


class ToolMode(StrEnum):
    """Whether the model may, must not or must call tools; TOOL: it must call a certain one."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    TOOL = "tool"


FORCING = frozenset({ToolMode.REQUIRED, ToolMode.TOOL})  # the modes in which the model must call a tool


@dataclass(slots=True)
class ToolChoice:
    """Which tools the model may call: `name` is set for the mode TOOL, `allowed` (if not empty) limits the others."""

    mode: ToolMode
    name: str = ""
    allowed: list[str] = field(default_factory=list)


class OutputKind(StrEnum):
    """JSON is any object, SCHEMA an object that a JSON schema describes."""

    JSON = "json"
    SCHEMA = "schema"


@dataclass(slots=True)
class OutputFormat:
    """The form of the answer, if it is not to be plain text."""

    kind: OutputKind
    schema: JsonObject | None = None
    name: str = ""
    strict: bool | None = None
    description: str = ""


@dataclass(slots=True)
class Thinking:
    """How much to think: an `effort` (none, minimal, low, medium, high, xhigh, max), or a `budget` in tokens."""

    effort: str = ""
    budget: int | None = None
    enabled: bool | None = None  # False: not at all; True without effort and budget: the model decides


@dataclass(slots=True)
class Chat:
    """A request for the next turn of a conversation. A field that is None or empty was not set by the client.

    `extra` has all parameters without a field, by the name and with the value in the client's dialect.
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
    """Texts, or lists of token ids, to embed. `base64`: the client wants its vectors in base64."""

    inputs: list[str] | list[list[int]]
    dimensions: int | None = None
    base64: bool = False
    user: str = ""
    extra: JsonObject = field(default_factory=dict)
