"""OpenAI's Responses as a stream: named and numbered events, from the beginning to the end of each item."""

from collections.abc import Callable
from typing import Any, ClassVar

from gateway_project.errors import GatewayError
from gateway_project.work.doors.openai.door import error_body
from gateway_project.work.doors.openai.responses_items import (
    IMAGE,
    Json,
    call_item,
    ending_members,
    envelope,
    image_item,
    item_id,
    message_item,
    reasoning_item,
    refusal_part,
    signature_item,
    summary_part,
    text_part,
    usage_body,
)
from providers.formats.base import CONTEXT_LENGTH_EXCEEDED
from providers.formats.dialect import StreamWriter, WorkRequest
from providers.formats.json_values import dump_value
from providers.formats.neutral.deltas import (
    AnswerEnd,
    AnswerStart,
    CallDelta,
    CallStart,
    Delta,
    ImageDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from providers.formats.neutral.messages import Image, Reasoning, ToolCall
from providers.formats.neutral.reply import Citation, FinishReason
from providers.formats.openai.annotations import annotation
from providers.formats.usage import Usage

TEXT = "output_text"


class ResponsesWriter(StreamWriter):
    """Writes the events of one response.

    Nothing is written before the first content, so that another provider can still take over from one that fails.
    """

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self.output: list[Json] = []
        self._about = envelope(work, "", "")
        self._end = ending_members(FinishReason.UNKNOWN, "")
        self._number = 0
        self.words = 0  # of all texts so far, in characters
        self._message: Message | None = None  # the open item is this message
        self._thought: Thought | None = None  # or this thought
        self._calls: dict[int, Call] = {}  # all stay open until the end

    def event(self, name: str, /, **fields: object) -> bytes:
        """One event, with the next number."""
        body = dump_value({"type": name, "sequence_number": self._number, **fields})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (name.encode(), body)

    def write(self, deltas: list[Delta]) -> bytes:
        return b"".join([WRITERS[type(delta)](self, delta) for delta in deltas])

    def end(self, usage: Usage | None) -> bytes:
        events = self._opening_events() + self._close_all()
        body = None if usage is None else usage_body(usage)
        self._about |= self._end | {"output": self.output, "usage": body}
        return events + self.event(f"response.{self._about['status']}", response=self._about)

    def resume(self, last: Json, about: Json) -> None:
        number = last.get("sequence_number")
        # A server that has begun may not number its events.
        self._number = number + 1 if type(number) is int else len(last) and 1
        self._about = about or self._about

    def end_with_error(self, error: GatewayError, work: WorkRequest | None = None) -> bytes:
        number = self._number
        event = self._failure(error)
        self._number = number  # it is written once for each client of the stream
        return event

    def _failure(self, error: GatewayError) -> bytes:
        body = error_body(error)["error"]
        # A failed response knows few codes, the error event knows any.
        code = "rate_limit_exceeded" if error.code == 429 else "server_error"
        if error.reason == CONTEXT_LENGTH_EXCEEDED:  # by which clients know that they have to shorten the conversation
            code = error.reason
        about = {"status": "failed", "error": {"code": code, "message": error.message}}
        events = self._opening_events() + self.event("response.failed", response=self._about | about)
        # Flat, as documented, and nested, since the SDKs raise on that.
        flat = {name: body[name] for name in ("code", "message", "param")}
        return events + self.event("error", **flat, error=body)

    def _opening_events(self) -> bytes:
        if self._number:
            return b""
        names = ("response.created", "response.in_progress")
        return b"".join([self.event(name, response=self._about) for name in names])

    def _answer_start(self, delta: AnswerStart) -> bytes:
        self._about = envelope(self.work, delta.id, delta.model)
        return b""

    def _text(self, delta: TextDelta) -> bytes:
        events, message = self._open_message()
        return events + message.emit("output_text", delta.text)

    def _refusal(self, delta: RefusalDelta) -> bytes:
        events, message = self._open_message()
        return events + message.emit("refusal", delta.text)

    def _citation(self, delta: Citation) -> bytes:
        events, message = self._open_message()
        return events + message.cite(delta)

    def _reasoning(self, delta: ReasoningDelta) -> bytes:
        events, thought = self._open_thought(is_new=delta.begins)
        return events + thought.think(delta)

    def _image(self, delta: ImageDelta) -> bytes:
        events = self._opening_events() + self._close()
        return events + Picture(self, delta.image).write()

    def _call_start(self, delta: CallStart) -> bytes:
        events = self._opening_events() + self._close()
        if delta.signature:
            events += self._signature(delta)
        self._calls[delta.index] = call = Call(self, ToolCall(delta.id, delta.name))
        return events + call.announce()

    def _call_delta(self, delta: CallDelta) -> bytes:
        call = self._calls.get(delta.index)
        return b"" if call is None else call.add_arguments(delta.arguments)

    def _answer_end(self, delta: AnswerEnd) -> bytes:
        self._end = ending_members(delta.reason, delta.provider_reason)
        return self._opening_events() + self._close_all()

    def _signature(self, delta: CallStart) -> bytes:
        index = len(self.output)
        item = signature_item(item_id(self.work, "rs", index), delta.id, delta.signature)
        self.output.append(item)
        names = ("response.output_item.added", "response.output_item.done")
        return b"".join([self.event(name, output_index=index, item=item) for name in names])

    def _open_message(self) -> "tuple[bytes, Message]":
        """The open message, which begins here unless it is open already, and the events that open it."""
        if self._message is not None:
            return b"", self._message
        events = self._opening_events() + self._close()
        self._message = Message(self)
        return events + self._message.announce(), self._message

    def _open_thought(self, *, is_new: bool) -> "tuple[bytes, Thought]":
        """The same for a thought; `is_new`: another one than the open one."""
        if self._thought is not None and not is_new:
            return b"", self._thought
        events = self._opening_events() + self._close()
        self._thought = Thought(self)
        return events + self._thought.announce(), self._thought

    def _close(self) -> bytes:
        item = self._message or self._thought
        self._message = self._thought = None
        return b"" if item is None else item.close()

    def _close_all(self) -> bytes:
        calls, self._calls = list(self._calls.values()), {}
        return self._close() + b"".join([call.close() for call in calls])


WRITERS: dict[type, Callable[[ResponsesWriter, Any], bytes]] = {
    AnswerStart: ResponsesWriter._answer_start,
    TextDelta: ResponsesWriter._text,
    ReasoningDelta: ResponsesWriter._reasoning,
    RefusalDelta: ResponsesWriter._refusal,
    ImageDelta: ResponsesWriter._image,
    Citation: ResponsesWriter._citation,
    CallStart: ResponsesWriter._call_start,
    CallDelta: ResponsesWriter._call_delta,
    AnswerEnd: ResponsesWriter._answer_end,
}


class Item:
    """An item of the output while it is being written."""

    kind: str  # what its id begins with

    def __init__(self, writer: ResponsesWriter) -> None:
        self.writer = writer
        self.index = len(writer.output)
        self.id = item_id(writer.work, self.kind, self.index)
        self.place = {"item_id": self.id, "output_index": self.index}

    def now(self, status: str) -> Json:
        """The item so far."""
        raise NotImplementedError

    def announce(self) -> bytes:
        item = self.now("in_progress")
        self.writer.output.append(item)
        return self.writer.event("response.output_item.added", output_index=self.index, item=item)

    def complete(self) -> bytes:
        item = self.writer.output[self.index] = self.now("completed")
        return self.writer.event("response.output_item.done", output_index=self.index, item=item)


class Message(Item):
    """Texts and refusals."""

    kind = "msg"
    MAKE: ClassVar[dict[str, Callable[[str], Json]]] = {TEXT: text_part, "refusal": refusal_part}

    def __init__(self, writer: ResponsesWriter) -> None:
        super().__init__(writer)
        self._content: list[Json] = []
        self._part = ""  # the type of the open one
        self._texts: list[str] = []
        self._begin = 0  # of the open part's text among all words
        self._annotations: list[Json] = []  # of that text

    def now(self, status: str) -> Json:
        return message_item(self.id, status) | {"content": list(self._content)}

    def emit(self, part: str, text: str) -> bytes:
        events = self._open_part(part)
        self._texts.append(text)
        extra: Json = {}
        if part == TEXT:
            self.writer.words += len(text)
            extra = {"logprobs": []}
        return events + self._event(f"response.{part}.delta", delta=text, **extra)

    def cite(self, citation: Citation) -> bytes:
        events = self._open_part(TEXT)
        cited = annotation(citation.relative_to(self._begin))
        self._annotations.append(cited)
        place = {"annotation_index": len(self._annotations) - 1, "annotation": cited}
        return events + self._event(f"response.{TEXT}.annotation.added", **place)

    def close(self) -> bytes:
        return self._end_part() + self.complete()

    def _event(self, name: str, **fields: object) -> bytes:
        return self.writer.event(name, **self.place, content_index=len(self._content), **fields)

    def _open_part(self, part: str) -> bytes:
        """Open a part of this type unless it is open."""
        return b"" if part == self._part else self._end_part() + self._begin_part(part)

    def _begin_part(self, part: str) -> bytes:
        self._part, self._begin = part, self.writer.words
        return self._event("response.content_part.added", part=self.MAKE[part](""))

    def _end_part(self) -> bytes:
        if not self._part:
            return b""
        kind, text = self._part, "".join(self._texts)
        fields = {"text": text, "logprobs": []} if kind == TEXT else {"refusal": text}
        part = self.MAKE[kind](text) | ({"annotations": self._annotations} if kind == TEXT else {})
        events = self._event(f"response.{kind}.done", **fields) + self._event("response.content_part.done", part=part)
        self._content.append(part)
        self._part, self._texts, self._annotations = "", [], []
        return events


class Thought(Item):
    """One thought, shown as a summary."""

    kind = "rs"

    def __init__(self, writer: ResponsesWriter) -> None:
        super().__init__(writer)
        self._thought = Reasoning()
        self._texts: list[str] = []

    def now(self, status: str) -> Json:
        self._thought.text = "".join(self._texts)
        item = reasoning_item(self.id, self._thought)
        # The signature comes at the end.
        return item if status == "completed" else item | {"encrypted_content": None}

    def think(self, delta: ReasoningDelta) -> bytes:
        thought = self._thought
        thought.signature, thought.data = delta.signature or thought.signature, delta.data or thought.data
        thought.source = delta.source or thought.source
        if not delta.text:
            return b""
        events = b"" if self._texts else self._event("part.added", part=summary_part(""))
        self._texts.append(delta.text)
        return events + self._event("text.delta", delta=delta.text)

    def close(self) -> bytes:
        text = "".join(self._texts)
        events = b""
        if text:
            events = self._event("text.done", text=text) + self._event("part.done", part=summary_part(text))
        return events + self.complete()

    def _event(self, what: str, **fields: object) -> bytes:
        return self.writer.event(f"response.reasoning_summary_{what}", **self.place, summary_index=0, **fields)


class Picture(Item):
    """A picture of the model; it comes whole."""

    kind = "ig"

    def __init__(self, writer: ResponsesWriter, image: Image) -> None:
        super().__init__(writer)
        self._image = image

    def now(self, status: str) -> Json:
        return image_item(self.id, self._image, status)

    def write(self) -> bytes:
        return self.announce() + self.writer.event(f"response.{IMAGE}.completed", **self.place) + self.complete()


class Call(Item):
    """A function call."""

    kind = "fc"

    def __init__(self, writer: ResponsesWriter, call: ToolCall) -> None:
        super().__init__(writer)
        self._call = call
        self._texts: list[str] = []

    def now(self, status: str) -> Json:
        self._call.arguments = "".join(self._texts)
        return call_item(self.id, self._call, status)

    def add_arguments(self, arguments: str) -> bytes:
        self._texts.append(arguments)
        return self.writer.event("response.function_call_arguments.delta", **self.place, delta=arguments)

    def close(self) -> bytes:
        events = b"" if any(self._texts) else self.add_arguments("{}")
        arguments = "".join(self._texts)
        name = "response.function_call_arguments.done"
        return (
            events + self.writer.event(name, **self.place, name=self._call.name, arguments=arguments) + self.complete()
        )
