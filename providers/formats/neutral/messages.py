"""The turns of a conversation and their parts."""

from dataclasses import dataclass
from typing import Literal

from gateway_project.json_types import JsonObject


@dataclass(slots=True)
class Text:
    """A text. `cache` marks the end of a prompt to cache, in Anthropic's form: {"type": "ephemeral", …}."""

    text: str
    cache: JsonObject | None = None


@dataclass(slots=True)
class Image:
    """An image: an address, or base64 `data` of a media type. `detail` is OpenAI's: low, high or auto."""

    url: str = ""
    data: str = ""
    media_type: str = ""
    detail: str = ""
    cache: JsonObject | None = None


@dataclass(slots=True)
class File:
    """A document or sound: base64 `data` of a media type, an address, or the id of a file that the provider stores."""

    data: str = ""
    media_type: str = ""
    name: str = ""
    url: str = ""
    id: str = ""
    cache: JsonObject | None = None


@dataclass(slots=True)
class Reasoning:
    """A model's thought: its text and the provider's signature of it, or encrypted `data`; both are carried verbatim.

    `source` is the name of the format that read it: only its provider can verify the signature.
    """

    text: str = ""
    signature: str = ""  # belongs to the text
    data: str = ""  # instead of the text: redacted or encrypted
    source: str = ""
    id: str = ""  # of a Responses item


@dataclass(slots=True)
class ToolCall:
    """A tool call by the model. `arguments` is JSON as text, perhaps invalid, and '' for none."""

    id: str
    name: str
    arguments: str = ""
    signature: str = ""  # Gemini signs calls instead of thoughts
    cache: JsonObject | None = None


@dataclass(slots=True)
class ToolResult:
    """The result of a tool call."""

    call_id: str
    parts: list["Text | Image | File | Verbatim"]
    name: str = ""  # of the tool, where it is known
    is_error: bool = False
    cache: JsonObject | None = None


@dataclass(slots=True)
class Refusal:
    """A refusal in the model's own words."""

    text: str


@dataclass(slots=True)
class Verbatim:
    """A part that only the format or dialect `source` knows. It passes there unchanged, and nowhere else."""

    value: JsonObject
    source: str

    @property
    def kind(self) -> str:
        """Its `type`; without one, the name of its first member."""
        kind = self.value.get("type")
        return kind if isinstance(kind, str) else next(iter(self.value), "")


Part = Text | Image | File | Reasoning | ToolCall | ToolResult | Refusal | Verbatim


# Who speaks; `system` includes OpenAI's `developer`. No enum: orjson takes much longer to write its members.
Role = Literal["system", "user", "assistant", "tool"]


@dataclass(slots=True)
class Message:
    """One turn; one of the role `tool` has results alone."""

    role: Role
    parts: list[Part]
    name: str = ""
