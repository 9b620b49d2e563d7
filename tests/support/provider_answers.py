"""What a scripted provider can be told to say, turned into the bytes to send."""

import base64
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal, NamedTuple, Protocol

Json = dict[str, Any]
BLOCK = 64 * 1024


class Request(Protocol):
    """What an answer needs to know of the request."""

    path: str
    body: bytes


class Reply(NamedTuple):
    """The bytes of an answer, piece by piece, and how they are sent."""

    head: bytes
    pieces: Iterable[bytes]
    pace: float
    keep_alive: bool


@dataclass
class Answer:
    """One scripted answer; without any field set it echoes the last user message as OpenAI would."""

    text: str | None = None  # what the model says; the last user message unless given
    status: int = 200
    body: bytes | Json | list[Any] | None = None  # sent as it is, in place of a made-up one
    headers: dict[str, str] = field(default_factory=dict)  # added, or put in the place of ours
    usage: Json | None = None  # counted unless given; {} leaves usage out
    finish_reason: str | None = "stop"
    delay: float = 0  # seconds before the first byte
    # Sent one after the other, exactly: bytes and str as they are, a dict as the event `data: {…}`.
    # Nothing is added, so a list that shall end well has to hold "data: [DONE]\n\n" itself.
    stream: Sequence[bytes | str | Json] | None = None
    pace: float = 0  # seconds between the chunks
    cut_after: int | None = None  # close abruptly after so many bytes of the body
    reset: bool = False  # end the connection with RST in place of FIN (with cut_after, or after the answer)
    no_terminal: bool = False  # a stream without [DONE]
    silent: bool = False  # send nothing until the client leaves
    silent_after: int | None = None  # so many chunks, then nothing until the client leaves; 0 sends the head
    silent_limit: float = 60  # seconds after which silence ends by closing the connection
    drip: bool | float = False  # a byte a second, or a byte each so many seconds
    oversize: int | None = None  # a valid JSON body of so many bytes
    framing: Literal["chunked", "length", "close"] | None = None  # chunked for streams, else length
    raw: bytes | None = None  # exactly these bytes, head included, then close
    # True says `Connection: close` and does it; "unannounced" only does it.
    close_connection: bool | Literal["unannounced"] = False

    def reply(self, request: Request) -> Reply:
        """The bytes with which to answer a request."""
        pace = float(self.drip) or self.pace
        if self.raw is not None:
            return Reply(b"", self.dripped([self.raw]), pace, keep_alive=False)
        query = json_object(request.body)
        streams = self.stream is not None or (self.speaks() and query.get("stream") is True)
        framing = self.framing or ("chunked" if streams else "length")
        chunks, length = self.payload(request, query, streams)
        head = self.head(streams, framing, length)
        ends = framing == "close" or self.close_connection or self.cut_after is not None or self.reset
        return Reply(head, self.framed(self.dripped(self.cut(chunks)), framing), pace, keep_alive=not ends)

    def speaks(self) -> bool:
        """Whether the answer is the model's speech rather than an error or a given body."""
        return self.status < 300 and self.body is None and self.oversize is None

    def payload(self, request: Request, asked: Json, streams: bool) -> tuple[Iterable[bytes], int]:
        """The body in chunks, and its length (-1 when only sending it would tell)."""
        if self.oversize is not None:
            return oversized(self.oversize), self.oversize
        if not streams:
            body = self.whole_body(request, asked)
            return [body] if body else [], len(body)
        chunks = [as_chunk(item) for item in self.events(request, asked)]
        return chunks, sum(map(len, chunks))

    def whole_body(self, request: Request, asked: Json) -> bytes:
        """The body of an answer that is no stream."""
        body = self.body
        if body is None:
            body = error(self.status) if self.status >= 300 else speech(request.path, asked).whole(self, asked)
        return body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()

    def events(self, request: Request, asked: Json) -> Iterable[bytes | str | Json]:
        """What a stream consists of: the script's own list, or the text word by word."""
        if self.stream is not None:
            return self.stream
        spoken = speech(request.path, asked).stream(self, asked)
        return spoken if self.no_terminal else [*spoken, "data: [DONE]\n\n"]

    def head(self, streams: bool, framing: str, length: int) -> bytes:
        """The status line and the header fields."""
        headers = {"Content-Type": "text/event-stream" if streams else "application/json"}
        if framing == "length":
            headers["Content-Length"] = str(length)
        elif framing == "chunked":
            headers["Transfer-Encoding"] = "chunked"
        if framing == "close" or self.close_connection is True:
            headers["Connection"] = "close"
        values = {name.lower() for name in self.headers}
        headers = {name: value for name, value in headers.items() if name.lower() not in values} | self.headers
        lines = [f"HTTP/1.1 {self.status} {phrase(self.status)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "\r\n"]).encode("latin-1")

    def cut(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks up to the byte after which the connection is to break."""
        rest = self.cut_after
        for chunk in chunks:
            if rest is None:
                yield chunk
            elif rest:
                yield chunk[:rest]
                rest -= len(chunk[:rest])

    def dripped(self, chunks: Iterable[bytes]) -> Iterable[bytes]:
        """The chunks, byte by byte if the answer is to drip."""
        return (bytes([byte]) for chunk in chunks for byte in chunk) if self.drip else chunks

    def framed(self, chunks: Iterable[bytes], framing: str) -> Iterator[bytes]:
        """The chunks as they go over the wire; a body that is cut has no last chunk."""
        if framing != "chunked":
            yield from chunks
            return
        yield from (b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
        if self.cut_after is None:
            yield b"0\r\n\r\n"


class Chat:
    """`chat/completions`: the only difference between the operations is where the text lies."""

    whole_object, part_object, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl"

    def prompt(self, asked: Json) -> str:
        """The last user message."""
        messages = [m for m in asked.get("messages") or [] if isinstance(m, dict)]
        contents = [text_of(m.get("content")) for m in messages if m.get("role") == "user"]
        return contents[-1] if contents else ""

    def whole(self, answer: Answer, asked: Json) -> Json:
        text = self.prompt(asked) if answer.text is None else answer.text
        choice = {"index": 0, **self.said(text), "finish_reason": answer.finish_reason}
        return self.envelope(asked, self.whole_object, [choice]) | self.usage(answer, asked, text)

    def stream(self, answer: Answer, asked: Json) -> list[Json]:
        """The events of a stream, the usage chunk last if it was asked for."""
        text = self.prompt(asked) if answer.text is None else answer.text
        words = [word if number == 0 else f" {word}" for number, word in enumerate(text.split(" "))]
        choices = [{"index": 0, **self.part(word), "finish_reason": None} for word in words]
        choices.append({"index": 0, **self.part(None), "finish_reason": answer.finish_reason})
        events = [self.envelope(asked, self.part_object, [choice]) for choice in choices]
        if (asked.get("stream_options") or {}).get("include_usage"):
            events.append(self.envelope(asked, self.part_object, []) | self.usage(answer, asked, text))
        return events

    def said(self, text: str) -> Json:
        return {"message": {"role": "assistant", "content": text}}

    def part(self, word: str | None) -> Json:
        return {"delta": {} if word is None else {"role": "assistant", "content": word}}

    def envelope(self, asked: Json, name: str, choices: list[Json]) -> Json:
        model = asked.get("model", "scripted")
        return {"id": f"{self.prefix}-1", "object": name, "created": 1, "model": model, "choices": choices}

    def usage(self, answer: Answer, asked: Json, text: str) -> Json:
        if answer.usage is not None:
            return {"usage": answer.usage} if answer.usage else {}
        request, reply = len(self.prompt(asked).split()), len(text.split())
        return {"usage": {"prompt_tokens": request, "completion_tokens": reply, "total_tokens": request + reply}}


class Completion(Chat):
    """`completions`."""

    whole_object, part_object, prefix = "text_completion", "text_completion", "cmpl"

    def prompt(self, asked: Json) -> str:
        return text_of(asked.get("prompt"))

    def said(self, text: str) -> Json:
        return {"text": text}

    def part(self, word: str | None) -> Json:
        return {"text": word or ""}


class Embedding(Chat):
    """`embeddings`: three numbers for each input, as floats or base64."""

    def whole(self, answer: Answer, asked: Json) -> Json:
        values = asked.get("input")
        texts = values if isinstance(values, list) and not all(isinstance(i, int) for i in values) else [values]
        encode = base64_floats if asked.get("encoding_format") == "base64" else list
        data = [
            {"object": "embedding", "index": index, "embedding": encode([0.5, -0.25, len(str(text))])}
            for index, text in enumerate(texts)
        ]
        tokens = sum(len(str(text).split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens} if answer.usage is None else answer.usage
        return {"object": "list", "data": data, "model": asked.get("model"), "usage": usage}


def speech(path: str, asked: Json) -> Chat:
    """The operation that a request asks for, by its path and else by its fields."""
    path = path.partition("?")[0].rstrip("/")
    if path.endswith("/embeddings") or "input" in asked:
        return Embedding()
    if "prompt" in asked and "messages" not in asked:
        return Completion()
    return Chat()


def json_object(body: bytes) -> Json:
    """The request's JSON object, or an empty one."""
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def text_of(content: Any) -> str:
    """The text of a message's content, be it a string or a list of parts."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def as_chunk(item: bytes | str | Json) -> bytes:
    """One item of a stream as the bytes to send."""
    if isinstance(item, bytes):
        return item
    return (item if isinstance(item, str) else f"data: {json.dumps(item, ensure_ascii=False)}\n\n").encode()


def oversized(size: int) -> Iterator[bytes]:
    """A JSON object of exactly so many bytes (13 at least), never held in memory as a whole."""
    yield b'{"filler":"'
    rest = size - len('{"filler":""}')
    while rest > 0:
        yield b"x" * min(rest, BLOCK)
        rest -= BLOCK
    yield b'"}'


def base64_floats(values: list[float]) -> str:
    """The values as little-endian float32 in base64."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def error(status: int) -> Json:
    """An error as OpenAI words it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": f"scripted {status}", "type": kind, "param": None, "code": None}}


def phrase(status: int) -> str:
    """The reason phrase of a status, if it has one."""
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Scripted"
