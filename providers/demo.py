"""A friendly OpenAI-compatible provider, standard library only, for machines without provider accounts.

Wire facts: chat completions, completions and embeddings as in OpenAI's API description. The answers depend
on the request alone, so that a repeated request shows a cache at work.
"""

import base64
import hashlib
import json
import math
import re
import socket
import socketserver
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

# As in gateway_project.json_types, which this program does without.
JsonObject: TypeAlias = dict[str, Any]

MODEL = "demo"
MAX_BODY_BYTES = 32 * 1024 * 1024
DEFAULT_DIMENSIONS = 256
MAX_DIMENSIONS = 4096


class BadRequest(Exception):
    """The request cannot be answered; the message says why, `param` which field is to blame."""

    def __init__(self, message: str, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.status = status


# --- What is said ------------------------------------------------------------------------------------------


def token_count(text: str) -> int:
    """About as many tokens as a real tokeniser would find: one for four characters."""
    return max(1, math.ceil(len(text) / 4)) if text else 0


def reply_to(prompt: str) -> str:
    """The friendly answer to a prompt."""
    if not prompt.strip():
        return "Hello! You sent an empty message. Ask me anything: I am the demonstration model."
    return f"Hello from the demonstration model! You said: {prompt}"


def text_of(content: object) -> str:
    """The text of a message's content, be it a string, a list of parts or nothing."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list):
        raise BadRequest("'content' must be a string or a list of parts.", "messages")
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return " ".join(part for part in parts if isinstance(part, str))


def chat_prompt(body: JsonObject) -> tuple[str, int]:
    """The last user message of a chat request, and the tokens of all its messages."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("'messages' must be a non-empty list.", "messages")
    if not all(isinstance(message, dict) and message.get("role") for message in messages):
        raise BadRequest("Each message must be an object with a 'role'.", "messages")
    texts = [(message["role"], text_of(message.get("content"))) for message in messages]
    last = next((text for role, text in reversed(texts) if role == "user"), texts[-1][1])
    return last, sum(token_count(text) for _, text in texts)


def completion_prompt(body: JsonObject) -> tuple[str, int]:
    """The prompt of a text completion and its tokens."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise BadRequest("'prompt' must be a string.", "prompt")
    return prompt, token_count(prompt)


def cut_to_limit(text: str, body: JsonObject) -> tuple[str, str]:
    """The answer within the request's token limit, and the finish reason."""
    name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    limit = body.get(name)
    if limit is None:
        return text, "stop"
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise BadRequest(f"'{name}' must be a positive integer.", name)
    return (text, "stop") if token_count(text) <= limit else (text[: limit * 4], "length")


def usage_of(prompt_tokens: int, text: str) -> JsonObject:
    """The usage object of an answer."""
    completion_tokens = token_count(text)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def pieces(text: str) -> list[str]:
    """The text in the pieces in which a stream says it: a word with the blank before it."""
    words = text.split(" ")
    return words[:1] + [f" {word}" for word in words[1:]]


# --- The operations: a request's body in, an answer or the events of a stream out ---------------------------


class Speech(ABC):
    """What chat and text completions have in common: one text, whole or in pieces."""

    prefix: str
    whole: str
    part: str

    def __init__(self, body: JsonObject) -> None:
        prompt, self.prompt_tokens = self.prompt(body)
        self.text, self.finish_reason = cut_to_limit(reply_to(prompt), body)
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        self.common = {"id": f"{self.prefix}-{digest[:24]}", "created": int(time.time()), "model": MODEL}
        self.wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))

    @staticmethod
    @abstractmethod
    def prompt(body: JsonObject) -> tuple[str, int]:
        """The request's prompt, and its tokens."""

    @abstractmethod
    def content(self, text: str) -> JsonObject:
        """The part of a whole answer that holds this text."""

    @abstractmethod
    def first_choices(self) -> Iterator[JsonObject]:
        """The choices of a stream, one a chunk, without the last."""

    @abstractmethod
    def last_choice(self) -> JsonObject:
        """The choice that has the finish reason."""

    def answer(self) -> JsonObject:
        """The whole answer as one object."""
        choice = {"index": 0, **self.content(self.text), "logprobs": None, "finish_reason": self.finish_reason}
        usage = usage_of(self.prompt_tokens, self.text)
        return {**self.common, "object": self.whole, "choices": [choice], "usage": usage}

    def events(self) -> Iterator[JsonObject]:
        """The objects of a stream, the usage chunk last if it was asked for."""
        for choice in self.first_choices():
            yield self.chunk([choice | {"finish_reason": None}])
        yield self.chunk([self.last_choice() | {"finish_reason": self.finish_reason}])
        if self.wants_usage:
            yield self.chunk([]) | {"usage": usage_of(self.prompt_tokens, self.text)}

    def chunk(self, choices: list[JsonObject]) -> JsonObject:
        """One object of a stream."""
        usage = {"usage": None} if self.wants_usage else {}
        return {**self.common, "object": self.part, "choices": [{"index": 0, **c} for c in choices], **usage}


class Chat(Speech):
    """`POST /chat/completions`."""

    prefix, whole, part = "chatcmpl", "chat.completion", "chat.completion.chunk"
    prompt = staticmethod(chat_prompt)

    def content(self, text: str) -> JsonObject:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}

    def first_choices(self) -> Iterator[JsonObject]:
        yield {"delta": {"role": "assistant", "content": ""}}
        yield from ({"delta": {"content": piece}} for piece in pieces(self.text))

    def last_choice(self) -> JsonObject:
        return {"delta": {}}


class Completion(Speech):
    """`POST /completions`."""

    prefix, whole, part = "cmpl", "text_completion", "text_completion"
    prompt = staticmethod(completion_prompt)

    def content(self, text: str) -> JsonObject:
        return {"text": text}

    def first_choices(self) -> Iterator[JsonObject]:
        yield from (self.content(piece) | {"logprobs": None} for piece in pieces(self.text))

    def last_choice(self) -> JsonObject:
        return {"text": "", "logprobs": None}


def vector(text: str, dimensions: int) -> list[float]:
    """A unit vector for a text; texts that share words lie near each other."""
    values = [0.0] * dimensions
    for word in text.lower().split() or [""]:
        digest = hashlib.sha256(word.encode("utf-8", "replace")).digest()
        values[int.from_bytes(digest[:4], "big") % dimensions] += 1.0 if digest[4] & 1 else -1.0
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / length for value in values]


def embedding_texts(value: object) -> list[str]:
    """The inputs of an embedding request as texts; token ids stand for words."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value:
        raise BadRequest("'input' must be a string or a non-empty list.", "input")
    if all(isinstance(item, int) for item in value):
        return [" ".join(map(str, value))]
    if all(isinstance(item, str) for item in value):
        return value
    if all(isinstance(item, list) for item in value):
        return [" ".join(map(str, item)) for item in value]
    raise BadRequest("'input' must hold strings or lists of token ids.", "input")


def embeddings(body: JsonObject) -> JsonObject:
    """`POST /embeddings`: floats, or little-endian float32 in base64."""
    texts = embedding_texts(body.get("input"))
    dimensions = body.get("dimensions") or DEFAULT_DIMENSIONS
    if not isinstance(dimensions, int) or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise BadRequest(f"'dimensions' must be between 1 and {MAX_DIMENSIONS}.", "dimensions")
    encoding = body.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise BadRequest("'encoding_format' must be 'float' or 'base64'.", "encoding_format")
    encode = list if encoding == "float" else base64_floats
    data = [
        {"object": "embedding", "index": index, "embedding": encode(vector(text, dimensions))}
        for index, text in enumerate(texts)
    ]
    tokens = sum(map(token_count, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": MODEL, "usage": usage}


def base64_floats(values: list[float]) -> str:
    """The values as the base64 that SDKs ask for."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def models() -> JsonObject:
    """`GET /models`."""
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "demo"}]}


def parse_request(raw: bytes) -> JsonObject:
    """The JSON object of a request for our one model."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise BadRequest("The body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    if not isinstance(body.get("stream_options") or {}, dict):
        raise BadRequest("'stream_options' must be an object.", "stream_options")
    if not isinstance(body.get("model"), str):
        raise BadRequest("'model' must be a string.", "model")
    if body["model"] != MODEL:
        raise BadRequest(f"There is no model {body['model']!r}; there is only 'demo'.", "model", 404)
    return body


# --- The server ---------------------------------------------------------------------------------------------

POST_PATHS: dict[str, Callable[[JsonObject], "Speech | JsonObject"]] = {
    "/v1/chat/completions": Chat,
    "/v1/completions": Completion,
    "/v1/embeddings": embeddings,
}


class DemoHandler(BaseHTTPRequestHandler):
    """Speaks HTTP/1.1 with keep-alive; every refusal has OpenAI's shape."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "DemoServer"

    def do_GET(self) -> None:
        if self.route() != "/v1/models":
            return self.send_error(405 if self.route() in POST_PATHS else 404)
        self.send_json(200, models())

    def do_POST(self) -> None:
        try:
            raw = self.read_body()
            operation = POST_PATHS.get(self.route())
            if operation is None:
                raise BadRequest(f"There is nothing at {self.route()}.", status=404)
            body = parse_request(raw)
            self.deliver(operation(body), stream=body.get("stream") is True)
        except BadRequest as problem:
            self.send_json(problem.status, error_body(str(problem), problem.param))

    def deliver(self, result: Speech | JsonObject, *, stream: bool) -> None:
        """Send a result the way that was asked for."""
        time.sleep(self.server.delay)
        if isinstance(result, dict):
            self.send_json(200, result)
        elif stream:
            self.send_events(result.events())
        else:
            self.send_json(200, result.answer())

    def route(self) -> str:
        return self.path.partition("?")[0].rstrip("/")

    def read_body(self) -> bytes:
        """The request's body; the length is checked before a byte of it is read."""
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            raise BadRequest("A body of known length, at most 32 MiB, is needed.")
        return self.rfile.read(int(length))

    def send_json(self, status: int, document: JsonObject) -> None:
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_events(self, events: Iterable[JsonObject]) -> None:
        """Send a stream of server-sent events at the server's pace, then its terminal mark."""
        chunked = self.request_version != "HTTP/1.0"
        self.close_connection = self.close_connection or not chunked
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Connection", "close")))
        self.end_headers()
        for number, event in enumerate(events):
            if number:
                time.sleep(self.server.pace)
            self.send_chunk(json.dumps(event, ensure_ascii=False), chunked)
        self.send_chunk("[DONE]", chunked)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def send_chunk(self, data: str, chunked: bool) -> None:
        event = f"data: {data}\n\n".encode("utf-8", "replace")
        self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event) if chunked else event)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The base class calls this for what it cannot parse."""
        self.close_connection = True
        self.send_json(code, error_body(message or self.responses[code][0]))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the gateway in front keeps the log."""


def error_body(message: str, param: str | None = None) -> JsonObject:
    """An error as OpenAI words it."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}


class DemoServer(ThreadingHTTPServer):
    """The provider on one address; `pace` and `delay` are seconds."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, host: str, port: int, *, pace: float = 0.03, delay: float = 0.0) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.pace = pace
        self.delay = delay
        super().__init__((host, port), DemoHandler)

    @property
    def url(self) -> str:
        """The base address to put into a provider's record."""
        host, port, *_ = self.socket.getsockname()
        return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"

    def server_bind(self) -> None:
        # HTTPServer would ask the name service for the host's name here, which can take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port, *_ = self.socket.getsockname()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """A client that went away is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)
