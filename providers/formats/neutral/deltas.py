"""The pieces of a streamed answer, in the order in which the provider sends them."""

from dataclasses import dataclass

from providers.formats.neutral.messages import Image, Reasoning, Refusal, Text, ToolCall
from providers.formats.neutral.reply import Citation, FinishReason, Reply, cited_parts


@dataclass(slots=True)
class AnswerStart:
    """The answer begins. Both fields may be ''."""

    id: str = ""
    model: str = ""


@dataclass(slots=True)
class TextDelta:
    """More text of the answer."""

    text: str


@dataclass(slots=True)
class ReasoningDelta:
    """More of a thought. A signature or `data` comes whole, after the text. `begins`: this is the next thought."""

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
    """A whole image."""

    image: Image


@dataclass(slots=True)
class CallStart:
    """A tool call begins. `index` counts the calls of this answer from 0; `id` is never empty."""

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
class AnswerEnd:
    """The model has stopped. The usage may come before or after."""

    reason: FinishReason
    provider_reason: str = ""
    stop_sequence: str | None = None


# A citation comes whole, before or after its text.
Delta = (
    AnswerStart | TextDelta | ReasoningDelta | RefusalDelta | ImageDelta | CallStart | CallDelta | Citation | AnswerEnd
)


def words_of(delta: Delta) -> str:
    """The text that the model has generated in this delta: answer, thought or arguments of a call."""
    if isinstance(delta, CallDelta):
        return delta.arguments
    return delta.text if isinstance(delta, TextDelta | ReasoningDelta | RefusalDelta) else ""


def deltas_of(reply: Reply) -> list[Delta]:
    """A whole answer as the deltas of a stream. Parts without a delta are left out."""
    deltas: list[Delta] = [AnswerStart(reply.id, reply.model)]
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
            deltas += [CallStart(calls, part.id, part.name, part.signature), CallDelta(calls, part.arguments)]
            calls += 1
    return [*deltas, AnswerEnd(reply.finish_reason, reply.provider_finish_reason, reply.stop_sequence)]
