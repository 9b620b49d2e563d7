"""A provider may put any value in any place: its answer is read or is its own failure, and never one of ours."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from gateway_project.errors import ProviderError, ProviderRejected, ValidationError
from providers.formats import FORMATS
from providers.formats.bedrock.event_stream import FrameSplitter, read_frame, write_frame
from providers.formats.json_values import read_json
from providers.formats.sse import data_of, events_in
from tests.support.formats.samples import streams, whole
from tests.support.recorded_samples import SHAPES, request
from tests.support.thoroughness import some

pytestmark = [pytest.mark.embedded, pytest.mark.long]

OTHERS = [None, True, -1, 10**25, 1e300, "x", [], {}, [{}]]
DEEP = {f"@{levels}@": "[" * levels + "]" * levels for levels in (300, 1000)}  # orjson writes 254 levels, json more
LONG = 10_000

each_format = pytest.mark.parametrize("format_name", FORMATS)


def swapped(value: Any) -> Iterator[Any]:
    """The value with another one in each place of it."""
    yield from (*OTHERS, *DEEP)
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, child in list(inner):
        for other in swapped(child):
            copy = value.copy()
            copy[place] = other
            yield copy


def written(value: Any) -> bytes:
    text = json.dumps(value)
    for mark, deep in DEEP.items():
        text = text.replace(f'"{mark}"', deep)
    return text.encode()


def shape_of(value: Any) -> Any:
    """What two values have in common that are read alike."""
    if isinstance(value, dict):
        return tuple((name, child if name in ("type", "code") else shape_of(child)) for name, child in value.items())
    return tuple(shape_of(child) for child in value[:2]) if isinstance(value, list) else type(value)


def bodies(format_name):
    """The recorded replies, one of each shape, with what was asked."""
    found = {}
    for sample in whole(format_name):
        value = read_json(sample.body)
        if value is not None and len(sample.body) < LONG:
            found.setdefault(str((sample.operation, sample.about["work"].keys(), shape_of(value))), (sample, value))
    return list(found.values())


def works(sample):
    """What was asked, on /work and by clients of other shapes."""
    yield sample.work
    yield sample.work_at_a_door
    if sample.operation == "chat" and not sample.streamed:
        yield request(sample.about["work"], door=True, dialect=SHAPES["anthropic-messages"])


@each_format
def test_in_an_answer(format_name):
    for turn, (sample, value) in enumerate(bodies(format_name)):
        for work in works(sample):
            for other in some(list(swapped(value)), turn):
                with suppress(ProviderError, ProviderRejected):
                    sample.format.answer(work, written(other))


@each_format
def test_in_a_refusal(format_name):
    for turn, (sample, value) in enumerate(bodies(format_name)):
        for other in some(list(swapped(value)), turn):
            assert sample.format.refusal_from_response(400, {}, written(other)).code >= 400


def parts_of(sample):
    """The events of a stream, each with its JSON and with what writes another one in its place."""
    if sample.format.name == "bedrock":
        for frame in FrameSplitter().feed(sample.body):
            headers, payload = read_frame(frame)
            yield frame, read_json(payload), lambda value, headers=headers: write_frame(headers, written(value))
    elif sample.format.name == "ollama":
        for line in sample.body.splitlines(keepends=True):
            yield line, read_json(line), lambda value: written(value) + b"\n"
    else:
        for event in events_in(sample.body):
            yield event, read_json(data_of(event)), lambda value: b"data: " + written(value) + b"\n\n"


def events(format_name):
    """The recorded events, one of each shape, with those before it and those behind it."""
    found = {}
    for sample in streams(format_name):
        if len(sample.body) < LONG:
            parts = list(parts_of(sample))
            for number, (_, value, write) in enumerate(parts):
                around = [b"".join(part[0] for part in others) for others in (parts[:number], parts[number + 1 :])]
                if value is not None:
                    found.setdefault(str(shape_of(value)), (sample, value, write, around))
    return list(found.values())


@each_format
def test_in_a_stream(format_name):
    for turn, (sample, value, write, (before, behind)) in enumerate(events(format_name)):
        for work in works(sample):
            for other in some(list(swapped(value)), turn):
                reader = sample.format.reader(work)
                reader.feed(before + write(other) + behind)
                reader.end(is_complete=False)
                assert not isinstance(reader.error, ValidationError), (sample.name, other)


@pytest.mark.parametrize("format_name", ["anthropic", "bedrock", "gemini", "ollama"])
def test_half_a_character_in_arguments_is_the_clients_mistake(format_name):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "\\ud800"}'}}
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "!"},
        ],
    }
    work = request(body)
    with pytest.raises(ValidationError, match="JSON object"):
        FORMATS[format_name].request(work, "m")
