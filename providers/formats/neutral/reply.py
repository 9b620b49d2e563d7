"""A whole answer of a model, and its citations."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from providers.formats.neutral.messages import Part, Text
from providers.formats.usage import Usage


@dataclass(frozen=True, slots=True)
class Citation:
    """A page that the answer cites for its text from `start` to `end`, in characters of the answer's whole text.

    `quote` is the cited text of the page, if the provider sends it.
    """

    url: str
    title: str = ""
    quote: str = ""
    start: int = 0
    end: int = 0

    def relative_to(self, begin: int) -> "Citation":
        """The same citation, with positions relative to a text that begins at `begin`."""
        return replace(self, start=max(self.start - begin, 0), end=max(self.end - begin, 0))

    def clipped_to(self, begin: int, size: int) -> "Citation":
        """The same relative to a text of `size` characters. A citation outside of it applies to the whole text."""
        start, end = (min(max(place - begin, 0), size) for place in (self.start, self.end))
        return replace(self, start=start if start < end else 0, end=end if start < end else size)


class FinishReason(StrEnum):
    """Why a model stopped. OTHER: for a reason that the format does not know; UNKNOWN: the provider has not said."""

    STOP = "stop"
    LENGTH = "length"
    TOOL = "tool"
    FILTER = "filter"
    ERROR = "error"
    PAUSE = "pause"
    OTHER = "other"
    UNKNOWN = ""


@dataclass(slots=True)
class Reply:
    """A whole answer of a model."""

    parts: list[Part] = field(default_factory=list)
    finish_reason: FinishReason = FinishReason.UNKNOWN
    provider_finish_reason: str = ""
    usage: Usage | None = None
    id: str = ""
    model: str = ""
    stop_sequence: str | None = None  # that ended the answer, if the provider reports it
    citations: list[Citation] = field(default_factory=list)
    # Kinds of content that the neutral form cannot express.
    dropped_kinds: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All texts of the answer."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])


@dataclass(slots=True)
class Vectors:
    """One vector for each input, in their order."""

    vectors: list[list[float]]
    usage: Usage | None = None
    model: str = ""


def cited_parts(reply: Reply) -> list[tuple[Part, int, list[Citation]]]:
    """Each part with its position in the answer's text, in characters, and its citations (0 and [] without any)."""
    if not reply.citations:
        return [(part, 0, []) for part in reply.parts]
    last = max((number for number, part in enumerate(reply.parts) if isinstance(part, Text)), default=-1)
    cited, begin, citations = [], 0, sorted(reply.citations, key=lambda citation: citation.start)[::-1]
    for number, part in enumerate(reply.parts):
        end = begin + (len(part.text) if isinstance(part, Text) else 0)
        own = []
        while citations and (citations[-1].start < end or number == last):
            own.append(citations.pop())
        cited.append((part, begin, own))
        begin = end
    return cited
