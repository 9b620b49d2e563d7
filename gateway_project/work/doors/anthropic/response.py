"""Answers as Anthropic's clients read them: a whole message, or the events of a stream."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.anthropic.foreign import foreign_citation, mark_signature
from providers.formats.anthropic.request import NAME
from providers.formats.anthropic.stream import AnthropicReader
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
from providers.formats.neutral.messages import Image, Part, Reasoning, Refusal, Text, ToolCall, Verbatim
from providers.formats.neutral.reply import Citation, FinishReason, Reply, cited_parts
from providers.formats.parts import exact_json
from providers.formats.usage import Usage

Block: TypeAlias = JsonObject

STOP_REASONS = {
    FinishReason.STOP: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL: "tool_use",
    FinishReason.FILTER: "refusal",
    FinishReason.PAUSE: "pause_turn",
}
CALL_SIGNED = ".call"  # the source of a thought that is the signature of the call behind it


def reply_body(work: WorkRequest, reply: Reply) -> JsonObject:
    """A whole message."""
    refused = any(isinstance(part, Refusal) for part in reply.parts)
    whole = _without_fragments(reply) if reply.finish_reason == FinishReason.LENGTH else reply
    return {
        **_head(work, reply.id, reply.model),
        "content": [block for part in cited_parts(whole) for block in _blocks(*part)],
        "stop_reason": stop_reason(reply.finish_reason, reply.provider_finish_reason, reply.stop_sequence, refused),
        "stop_sequence": reply.stop_sequence,
        "usage": usage_body(reply.usage),
    }


def _without_fragments(reply: Reply) -> Reply:
    """An answer that reached its token limit, without the incomplete arguments of its last call."""
    return replace(reply, parts=[_without_fragment(part) for part in reply.parts])


def _without_fragment(part: Part) -> Part:
    if isinstance(part, ToolCall) and exact_json(part.arguments) is None:
        return replace(part, arguments="")
    return part


def stop_reason(reason: FinishReason, provider_reason: str, stop_sequence: str | None, refused: bool) -> str | None:
    """The reason in Anthropic's words; a reason that Anthropic does not have keeps the provider's word.

    A refusal is never `end_turn`. OpenAI reports a refusal beside the text and stops with `stop`.
    """
    if reason == FinishReason.STOP and refused:
        return "refusal"
    if reason == FinishReason.STOP and stop_sequence is not None:
        return "stop_sequence"
    return STOP_REASONS.get(reason) or provider_reason or reason or None


def usage_body(usage: Usage | None) -> JsonObject:
    """Tokens as Anthropic counts them: input without cached tokens, and the cached tokens by themselves."""
    usage = usage or Usage()
    body: JsonObject = {
        "input_tokens": usage.input or 0,
        "cache_creation_input_tokens": usage.cache_write or 0,
        "cache_read_input_tokens": usage.cache_read or 0,
        "output_tokens": usage.output or 0,
    }
    if usage.reasoning is not None:
        body["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return body


def stream_reader() -> AnthropicReader:
    """A reader for a recorded stream."""
    return AnthropicReader(WorkRequest("chat", "", {}, b""))


def _head(work: WorkRequest, reply_id: str, model: str) -> JsonObject:
    about = {"id": reply_id or f"msg_{work.id}", "type": "message", "role": "assistant"}
    return about | {"model": model or work.model}


def _blocks(part: Part, begin: int, citations: list[Citation]) -> list[Block]:
    if citations and isinstance(part, Text):
        return _split_by_citations(part.text, [citation.clipped_to(begin, len(part.text)) for citation in citations])
    write = WRITTEN.get(type(part))
    return write(part) if write else []


def _split_by_citations(text: str, citations: list[Citation]) -> list[Block]:
    """A text in blocks: each block has the citations of all of its words, so overlapping citations share a block."""
    blocks: list[Block] = []
    at = 0
    for start, end, together in _spans(citations):
        blocks += _text(Text(text[at:start]))
        blocks += [
            block | {"citations": [foreign_citation(page) for page in together]}
            for block in _text(Text(text[start:end]))
        ]
        at = end
    return blocks + _text(Text(text[at:]))


def _spans(citations: list[Citation]) -> list[tuple[int, int, list[Citation]]]:
    """The spans of cited words (start and end), each with all of its citations."""
    spans: list[tuple[int, int, list[Citation]]] = []
    for citation in sorted(citations, key=lambda citation: citation.start):
        if spans and citation.start < spans[-1][1]:
            start, end, together = spans.pop()
            together.append(citation)
            spans.append((start, max(end, citation.end), together))
        else:
            spans.append((citation.start, citation.end, [citation]))
    return spans


def _text(part: Text | Refusal) -> list[Block]:
    return [{"type": "text", "text": part.text}] if part.text else []


def _thought(part: Reasoning) -> list[Block]:
    if part.data:
        return [{"type": "redacted_thinking", "data": mark_signature(part.source, part.data)}]
    return [{"type": "thinking", "thinking": part.text, "signature": mark_signature(part.source, part.signature)}]


def _call(part: ToolCall) -> list[Block]:
    arguments = exact_json(part.arguments) if part.arguments.strip() else {}
    if not isinstance(arguments, dict):
        raise ProviderError(f"The provider's model calls {part.name} with arguments that are not a JSON object.")
    call = {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}
    return [*_call_signature(part.signature), call]


def _call_signature(signature: str) -> list[Block]:
    """Gemini's signature of a call: Anthropic has no field for one, so a thought before the call carries it."""
    return [{"type": "redacted_thinking", "data": mark_signature(CALL_SIGNED, signature)}] if signature else []


def _image(part: Image) -> list[Block]:
    source = {"type": "url", "url": part.url}
    if part.data:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return [{"type": "image", "source": source}]


def _verbatim(part: Verbatim) -> list[Block]:
    return [part.value] if part.source == NAME else []


WRITTEN: dict[type, Callable[[Any], list[Block]]] = {
    Text: _text,
    Refusal: _text,
    Reasoning: _thought,
    ToolCall: _call,
    Image: _image,
    Verbatim: _verbatim,
}


class MessagesWriter(StreamWriter):
    """Writes named events, one block after the other.

    Nothing is written before the first text, thought, image or call, so that another provider can take over from one
    that fails. The input tokens are reported at the end, where other providers report them. Clients act on a call once
    its block ends. Some providers mix parallel calls: a call waits until the arguments of the call before it are
    complete.
    """

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._id, self._model = "", ""
        self._started = False
        self._kind = ""  # of the block that is open
        self._index = -1  # of the block that is open, or else of the last one
        self._unsigned = ""  # the signature of an open thought, if the provider sends none
        self._calls: dict[int, int] = {}  # the block of each call, by the index of the call
        self._arguments: list[str] = []  # of the call that is open
        self._waiting: dict[int, tuple[CallStart, list[str]]] = {}  # calls with their arguments, in order
        self._ending = AnswerEnd(FinishReason.UNKNOWN)
        self._refused = False

    def write(self, deltas: list[Delta]) -> bytes:
        return b"".join([EVENTS[type(delta)](self, delta) for delta in deltas])

    def end(self, usage: Usage | None) -> bytes:
        ending = self._ending
        reason = stop_reason(ending.reason, ending.provider_reason, ending.stop_sequence, self._refused)
        delta = {"stop_reason": reason, "stop_sequence": ending.stop_sequence}
        last = _event("message_delta", {"delta": delta, "usage": usage_body(usage)})
        return self._start() + self._all_calls() + self._close() + last + _event("message_stop", {})

    def _start(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        head = _head(self.work, self._id, self._model)
        rest: JsonObject = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage_body(None)}
        return _event("message_start", {"message": head | rest})

    def _open(self, kind: str, block: Block) -> bytes:
        before = self._start() + self._all_calls() + self._close()
        self._kind, self._index = kind, self._index + 1
        return before + _event("content_block_start", {"index": self._index, "content_block": block})

    def _close(self) -> bytes:
        if not self._kind:
            return b""
        self._kind = ""
        signature, self._unsigned = self._unsigned, ""
        signed = self._delta({"type": "signature_delta", "signature": signature}) if signature else b""
        return signed + _event("content_block_stop", {"index": self._index})

    def _delta(self, delta: Block) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": delta})

    def _answer_start(self, delta: AnswerStart) -> bytes:
        self._id, self._model = delta.id or self._id, delta.model or self._model
        return b""

    def _text(self, delta: TextDelta | RefusalDelta) -> bytes:
        opened = b"" if self._kind == "text" else self._open("text", {"type": "text", "text": ""})
        return opened + TEXT % (self._index, dump_value(delta.text))

    def _citation(self, delta: Citation) -> bytes:
        opened = b"" if self._kind == "text" else self._open("text", {"type": "text", "text": ""})
        return opened + self._delta({"type": "citations_delta", "citation": foreign_citation(delta)})

    def _refusal(self, delta: RefusalDelta) -> bytes:
        self._refused = True
        return self._text(delta)

    def _reasoning(self, delta: ReasoningDelta) -> bytes:
        if delta.data:
            block = {"type": "redacted_thinking", "data": mark_signature(delta.source, delta.data)}
            return self._open("redacted", block) + self._close()
        events = b""
        if delta.begins or self._kind != "thinking":
            events = self._open("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            self._unsigned = mark_signature(delta.source, "")
        if delta.text:
            events += self._delta({"type": "thinking_delta", "thinking": delta.text})
        if delta.signature:
            self._unsigned = mark_signature(delta.source, delta.signature)
        return events

    def _image(self, delta: ImageDelta) -> bytes:
        return b"".join([self._open("image", block) + self._close() for block in _image(delta.image)])

    def _call_start(self, delta: CallStart) -> bytes:
        if self._waiting or (self._kind == "call" and exact_json("".join(self._arguments)) is None):
            self._waiting[delta.index] = (delta, [])
            return b""
        return self._open_call(delta)

    def _open_call(self, delta: CallStart) -> bytes:
        signed = b"".join(self._open("redacted", block) + self._close() for block in _call_signature(delta.signature))
        block = {"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}}
        opened = self._open("call", block)
        self._calls[delta.index], self._arguments = self._index, []
        return signed + opened

    def _call_delta(self, delta: CallDelta) -> bytes:
        if delta.index in self._waiting:
            self._waiting[delta.index][1].append(delta.arguments)
            return b""
        index = self._calls.get(delta.index, self._index)
        if index == self._index:
            self._arguments.append(delta.arguments)
        return JSON % (index, dump_value(delta.arguments))

    def _all_calls(self) -> bytes:
        """The calls that have waited for the call before them."""
        waiting, self._waiting = self._waiting, {}
        events = []
        for start, arguments in waiting.values():
            events.append(self._open_call(start))
            events += [self._call_delta(CallDelta(start.index, piece)) for piece in arguments]
        return b"".join(events)

    def _answer_end(self, delta: AnswerEnd) -> bytes:
        self._ending = delta
        return b""


EVENTS: dict[type, Callable[[MessagesWriter, Any], bytes]] = {
    AnswerStart: MessagesWriter._answer_start,
    TextDelta: MessagesWriter._text,
    RefusalDelta: MessagesWriter._refusal,
    ReasoningDelta: MessagesWriter._reasoning,
    ImageDelta: MessagesWriter._image,
    Citation: MessagesWriter._citation,
    CallStart: MessagesWriter._call_start,
    CallDelta: MessagesWriter._call_delta,
    AnswerEnd: MessagesWriter._answer_end,
}
DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":'
TEXT = DELTA + b'{"type":"text_delta","text":%b}}\n\n'
JSON = DELTA + b'{"type":"input_json_delta","partial_json":%b}}\n\n'


def _event(name: str, about: JsonObject) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dump_value({"type": name, **about}))
