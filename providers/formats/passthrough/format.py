"""Any JSON service: the body goes to exactly the provider's URL, and the answer comes back as it is."""

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.base import (
    DEFAULT_OPTIONS,
    Answer,
    Format,
    Options,
    OutgoingRequest,
    StreamReader,
    WorkRequest,
    error_in,
)
from providers.formats.json_stream import stream_error
from providers.formats.json_values import read_json
from providers.formats.openai import responses as openai_responses
from providers.formats.openai.format import DONE
from providers.formats.openai.reply import FINISH_REASONS, usage_of
from providers.formats.usage import Usage, count

LINE_LIMIT = 1024 * 1024
STREAM_TYPES = {"text/event-stream", "application/x-ndjson", "application/jsonl", "application/stream+json"}


class Passthrough(Format):
    """Promises only JSON; usage and finish reason are read where they stand at familiar places."""

    name = "passthrough"

    def request(self, work: WorkRequest, model: str, options: Options = DEFAULT_OPTIONS) -> OutgoingRequest:
        return OutgoingRequest("", work.body_for(model))

    def translates(self, work: WorkRequest) -> bool:
        return False  # into a shape that nobody knows, and out of it

    def url(self, base: str, path: str) -> str:
        return base

    def is_stream(self, content_type: str) -> bool:
        return content_type.partition(";")[0].strip().lower() in STREAM_TYPES

    def answer(self, work: WorkRequest, body: bytes) -> Answer:
        value = read_json(body)
        if not isinstance(value, dict | list):
            raise ProviderError("The provider answered 200 with something that is not JSON.")
        answer = Answer(body)
        if isinstance(value, dict):
            if error := error_in(value):
                raise error
            answer.usage, answer.text = familiar_usage(value), familiar_text(value)
            answer.provider_finish_reason, answer.finish_reason = _finish(value)
        return answer

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return PassthroughReader(work)


class PassthroughReader(StreamReader):
    """Hands lines on as they came; reads beside it whether the stream came to its end.

    A line waits until it is whole: it may tell an error, and half of that could not be taken back.
    """

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._rest = bytearray()  # of a line that is not whole yet
        self._is_long = False  # whether that line has begun to be handed on
        self._marked = False
        self._said: JsonObject = {}  # the usage: counts are totals, the last of each is the one

    def feed(self, piece: bytes) -> bytes:
        whole = _end_of_lines(piece)
        output = self._take(piece[:whole]) if whole else b""
        self._rest += piece[whole:]
        if self.error is None and (self._is_long or len(self._rest) > LINE_LIMIT):
            self._is_long = True  # handed on all the same, only not read
            output += self._give()
        return output

    def end(self, is_complete: bool) -> bytes:
        output = self._take(b"")
        # A protocol we do not know has no mark that we could ask for; the framing's own end is one.
        self.done = self.done or self._marked or is_complete
        return output

    def text(self, events: bytes) -> str:
        values = (read_json(line.removeprefix(b"data:").strip()) for line in events.splitlines())
        return "".join(familiar_text(value) for value in values if isinstance(value, dict))

    def _take(self, piece: bytes) -> bytes:
        """What goes to the client now that this ends a line: all that has arrived, up to a line that tells an error."""
        self._rest += piece
        lines = []
        for line in self._give().splitlines(keepends=True):
            if not self._is_long:
                self._line(line)
            if self.error is not None:
                break
            self._is_long = False
            lines.append(line)
        return b"".join(lines)

    def _give(self) -> bytes:
        rest, self._rest = bytes(self._rest), bytearray()
        return rest

    def _line(self, line: bytes) -> None:
        data = line.removeprefix(b"data:").strip()
        if data == DONE:
            self._marked = True
        elif not line.rstrip(b"\r\n"):  # only the blank line ends the event that holds the mark
            self.done = self.done or self._marked
        elif data.startswith(b"{") and isinstance(value := read_json(data), dict):
            self._read(value)

    def _read(self, value: JsonObject) -> None:
        if value.get("error"):
            self.error = stream_error(value)
        self._marked = self._marked or value.get("type") == "message_stop"
        self.done = self.done or value.get("done") is True
        for holder in (value.get("message"), value):  # Anthropic begins with the input, inside of a message
            if isinstance(holder, dict) and isinstance(usage := holder.get("usage"), dict):
                self._said.update({name: value for name, value in usage.items() if value is not None})
                self.usage = familiar_usage({"usage": self._said}) or self.usage
        reason, normalised = _finish(value)
        if reason:
            self.provider_finish_reason, self.finish_reason = reason, normalised


def _end_of_lines(piece: bytes) -> int:
    """Where the last whole line ends; a CR at the very end may be half of a CRLF."""
    return max(piece.rfind(b"\n"), piece.rfind(b"\r", 0, len(piece) - 1)) + 1


def familiar_usage(value: JsonObject) -> Usage | None:
    """Usage as OpenAI or Anthropic write it."""
    usage = value.get("usage")
    if not isinstance(usage, dict):
        return None
    if "input_tokens" not in usage and "output_tokens" not in usage:
        return usage_of(usage)
    if "input_tokens_details" in usage:
        return openai_responses.usage_of(usage)
    return Usage(
        count(usage.get("input_tokens")),
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
        count(usage.get("output_tokens")),
    )


def familiar_text(value: JsonObject) -> str:
    """The text of an answer, or of a piece of one, as OpenAI, Anthropic, Ollama or Cohere write it."""
    choices = value.get("choices")
    inner = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else value
    inner = next((holder for name in ("message", "delta") if isinstance(holder := inner.get(name), dict)), inner)
    text = next((inner[name] for name in ("content", "text", "response") if inner.get(name)), "")
    parts = text if isinstance(text, list) else [text]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def _finish(value: JsonObject) -> tuple[str, str]:
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else value
    reason = first.get("finish_reason") or first.get("stop_reason")
    return (reason, FINISH_REASONS.get(reason, "other")) if isinstance(reason, str) else ("", "")
