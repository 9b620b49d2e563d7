"""Recorded requests and what providers answered them: the material of the formats' tests and of `make replay`.

A `.json` sample is a whole reply: `work` and `operation` (what the client asked), `sent` (what the provider must
get), `status`, `headers`, `reply` (or `text`), `expect`. A `.sse` sample is a stream as it came, behind one first
line `: {…}` that says the same about it; in a `.frames` sample each further line is the type of an event (behind a
`!` that of an exception) and its JSON, which go into a binary frame. Beside what every `expect` holds it may tell
what a client of another shape gets: `calls` (name and arguments of each, as `[["weather", {"city": "Lisbon"}]]`),
`reasoning`, `refusal`, `images` (their addresses), `citations` (address, title and cited words of each) and `dropped`
(the names of what no other shape has a place for). The provider knows the model as `model` says. `shape` is the
client's dialect, where it is not one of OpenAI's older ones. A request that is `refused`, saying this, has no reply.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway_project.work.doors import DIALECTS, ENDPOINTS
from providers.formats import FORMATS, Format, WorkRequest
from providers.formats.bedrock.event_stream import write_frame
from providers.formats.dialect import Dialect

# A format that builds upon another is answered as that one is, too.
BUILT_UPON = {"openai-responses": "openai"}
# The dialects by their names: what a sample's `shape` can be.
SHAPES: dict[str, Dialect] = {
    endpoint.dialect.name: endpoint.dialect for endpoint in ENDPOINTS.values() if endpoint.dialect
}
STREAMS = ("*.sse", "*.frames")


@dataclass(frozen=True)
class Sample:
    """One recorded reply."""

    format: Format
    name: str
    about: dict[str, Any]
    body: bytes
    streamed: bool = False

    @property
    def expect(self) -> dict[str, Any]:
        return self.about["expect"]

    @property
    def operation(self) -> str:
        return self.about.get("operation", "chat")

    @property
    def model(self) -> str:
        """The model's name at the provider."""
        return self.about.get("model", "gpt-5-mini")

    @property
    def work(self) -> WorkRequest:
        """What the client asked on /work, where answers come in the provider's own shape."""
        return request(self.about["work"], self.operation, dialect=SHAPES.get(self.about.get("shape", "")))


def request(
    body: dict[str, Any], operation: str = "chat", *, door: bool = False, dialect: Dialect | None = None
) -> WorkRequest:
    """A work request with this body, as OpenAI's clients write it."""
    raw, stream, dialect = json.dumps(body).encode(), body.get("stream") is True, dialect or DIALECTS[operation]
    return WorkRequest(operation, body["model"], body, raw, stream, dialect, door, id="request-1", created=1787270400)


def whole(folder: Path, format_name: str) -> list[Sample]:
    """The whole replies recorded for a format."""
    return [_whole(format_name, path) for path in _recorded(folder, format_name, "*.json")]


def streams(folder: Path, format_name: str) -> list[Sample]:
    """The streams recorded for a format."""
    return [_stream(format_name, path) for path in _recorded(folder, format_name, *STREAMS)]


def _recorded(folder: Path, format_name: str, *patterns: str) -> list[Path]:
    folders = [folder / name for name in (format_name, BUILT_UPON.get(format_name)) if name]
    result = (path for inside in folders for pattern in patterns for path in inside.glob(pattern))
    return sorted(result, key=lambda path: path.name)


def _whole(format_name: str, path: Path) -> Sample:
    about = json.loads(path.read_text())
    body = about["text"] if "text" in about else json.dumps(about.get("reply"), ensure_ascii=False)
    return Sample(FORMATS[format_name], path.stem, about, body.encode())


def _stream(format_name: str, path: Path) -> Sample:
    first, _, body = path.read_bytes().partition(b"\n")
    about = json.loads(first.removeprefix(b": "))
    if filler := about.get("filler"):  # a large event need not lie about as a large file
        about["expect"]["text"] = about["expect"]["text"].replace("@FILLER@", "x" * filler)
        body = body.replace(b"@FILLER@", b"x" * filler)
    if path.suffix == ".frames":
        body = b"".join(_frame(line) for line in body.splitlines()) + bytes.fromhex(about.get("rest", ""))
    return Sample(FORMATS[format_name], path.stem, about, body, streamed=True)


def _frame(line: bytes) -> bytes:
    kind, _, payload = line.partition(b" ")
    of = "exception" if kind.startswith(b"!") else "event"
    headers = {f":{of}-type": kind.decode().removeprefix("!"), ":content-type": "application/json"}
    return write_frame(headers | {":message-type": of}, payload)
