"""Characters that come in halves: each is one again, in whichever text and shape it comes."""

import json

import pytest

from providers.formats import FORMATS
from providers.formats.json_values import read_json
from providers.formats.neutral.deltas import AnswerEnd, CallDelta, CallStart, ReasoningDelta, TextDelta
from providers.formats.neutral.reply import Citation
from providers.formats.sse import data_of, events_in
from providers.formats.surrogates import SurrogateJoiner
from tests.support.formats.samples import request
from tests.support.recorded_samples import SHAPES

pytestmark = pytest.mark.embedded

HIGH, LOW = rb"\ud83d", rb"\ude00"
CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{%b},"finish_reason":%b}]}\n\n'
GEMINI = b'data: {"candidates":[{"content":{"parts":[{"text":"%b"}]},"index":0%b}]}\n\n'


class TestWholeValues:
    @pytest.mark.parametrize(
        ("written", "read"),
        [
            (rb"\ud83d\ude00", "😀"),
            (rb"a\ud83d", "a\ufffd"),
            (rb"\uDE00b", "\ufffdb"),
            (rb"\ude00\ud83d", "\ufffd\ufffd"),
            (rb"\ud83d\ud83d\ude00", "\ufffd😀"),
            (rb"\\ud83d", r"\ud83d"),
            (rb"\ud83d 12345678901234567890", "\ufffd 12345678901234567890"),
        ],
    )
    def test_half_a_character_is_none(self, written, read):
        assert read_json(b'{"a":"%b"}' % written) == {"a": read}

    def test_integers_stay_exact_beside_it(self):
        assert read_json(rb'{"a":"\ud83d","b":12345678901234567890123}') == {
            "a": "\ufffd",
            "b": 12345678901234567890123,
        }

    @pytest.mark.parametrize(
        "body", [rb'{"a":"\ud83d"', rb'{"a":"\u12"}', b'{"a":\\ud83d}', rb'{"a":"\ud83d%b"}' % (b"x" * 300_000)]
    )
    def test_what_is_no_json_stays_none(self, body):
        assert read_json(body) is None


def translated(format_name, shape, *events):
    """What a client of this shape reads."""
    body = {"model": "m", "messages": [], "stream": True}
    reader = FORMATS[format_name].reader(request(body, door=True, dialect=SHAPES[shape]))
    written = b"".join(reader.feed(event) for event in events) + reader.end(True)
    assert (reader.done, reader.error) == (True, None)
    return written


def chunks(*pieces, field="content"):
    said = [CHUNK % (b'"%b":"%b"' % (field.encode(), piece), b"null") for piece in pieces]
    return [*said, CHUNK % (b"", b'"stop"'), b"data: [DONE]\n\n"]


class TestStreams:
    @pytest.mark.parametrize("shape", ["anthropic-messages", "openai-responses"])
    @pytest.mark.parametrize(
        ("pieces", "text"),
        [
            ((b"Hi " + HIGH, LOW + b"!"), "Hi 😀!"),
            ((HIGH, b"", LOW), "😀"),
            ((HIGH, LOW + HIGH, LOW), "😀😀"),
            ((HIGH, b"x"), "\ufffdx"),
            ((b"x", LOW), "x\ufffd"),
            ((b"x" + HIGH,), "x\ufffd"),
        ],
    )
    def test_halves_in_two_pieces_are_joined_and_one_alone_is_replaced(self, shape, pieces, text):
        assert SHAPES[shape].text(translated("openai", shape, *chunks(*pieces))) == text

    def test_in_other_providers_streams_and_for_openais_clients(self):
        events = GEMINI % (HIGH, b""), GEMINI % (LOW, b',"finishReason":"STOP"')
        assert SHAPES["openai-chat"].text(translated("gemini", "openai-chat", *events)) == "😀"

    def test_in_thoughts(self):
        events = translated("openai", "anthropic-messages", *chunks(HIGH, LOW, field="reasoning_content"))
        values = [json.loads(data_of(event)) for event in events_in(events)]
        deltas = [value["delta"] for value in values if value["type"] == "content_block_delta"]
        assert "".join(delta.get("thinking", "") for delta in deltas) == "😀"

    def test_where_nothing_is_translated_the_bytes_pass(self):
        events = chunks(b"Hi " + HIGH, LOW)
        reader = FORMATS["openai"].reader(request({"model": "m", "messages": [], "stream": True}, door=True))
        assert b"".join(map(reader.feed, events)) == b"".join(events)
        assert reader.text(b"".join(events)) == "Hi \ufffd\ufffd"


def test_halves_of_parallel_calls_stay_apart():
    joiner = SurrogateJoiner()
    high, low = joiner.placeholder(b"83d").decode(), joiner.placeholder(b"e00").decode()
    told = [CallStart(0, "a", "f"), CallDelta(0, high), CallDelta(1, low), ReasoningDelta("x", begins=True)]
    assert [getattr(delta, "arguments", "") for delta in joiner.join(told)] == ["", "", "\ufffd", "\ufffd", ""]


def test_an_empty_text_between_halves_parts_nothing():
    joiner = SurrogateJoiner()
    high, low = joiner.placeholder(b"83d").decode(), joiner.placeholder(b"e00").decode()
    told = joiner.join([TextDelta(high), TextDelta(""), TextDelta(low)])
    assert "".join(delta.text for delta in told) == "😀"


def test_what_is_not_text_does_not_join():
    joiner = SurrogateJoiner()
    high = joiner.placeholder(b"83d").decode()
    finished = AnswerEnd("stop")
    assert joiner.join([TextDelta(f"a{high}"), finished]) == [TextDelta("a"), TextDelta("\ufffd"), finished]


PAGE = (
    b'{"type":"web_search_result_location","url":"https://a.example/\\ud83d","title":"t\\ud83d","cited_text":"\\ude00"}'
)
STARTED = b'data: {"type":"content_block_start","index":0,"content_block":{"type":"%b"}}\n\n'
CONTINUED = b'data: {"type":"content_block_delta","index":0,"delta":{%b}}\n\n'
STOPPED = b'data: {"type":"content_block_stop","index":0}\n\n'
TEXT = b'"type":"text_delta","text":"%b"'


def told(format_name, *events):
    """What a stream says that is translated, and of which kinds there was something in it beside."""
    reader = FORMATS[format_name].native_reader(request({"model": "m", "messages": [], "stream": True}))
    reader.deltas, found = [], []
    for event in events:
        reader.feed(event)
        found += reader.take_deltas()
    reader.end(True)
    return [*found, *reader.take_deltas()], list(reader.dropped_kinds)


class TestWhatStandsBesideTheWords:
    def test_is_whole_too_and_counts_whole_characters(self):
        said = [CONTINUED % (TEXT % text) for text in (b"a" + HIGH, LOW + b"b")]
        cites = CONTINUED % (b'"type":"citations_delta","citation":' + PAGE)
        said, lost = told("anthropic", STARTED % b"text", *said, cites, STOPPED, STARTED % (b"x" + HIGH), STOPPED)
        assert [one for one in said if isinstance(one, Citation)] == [
            Citation("https://a.example/\ufffd", "t\ufffd", "\ufffd", 0, 3)
        ]
        assert lost == ["x\ufffd"]

    def test_does_not_part_two_halves(self):
        grounds = (
            b',"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a.example/"}}],'
            b'"groundingSupports":[{"segment":{"endIndex":6},"groundingChunkIndices":[0]}]}'
        )
        events = GEMINI % (b"a" + HIGH, b""), GEMINI % (LOW + b"b", grounds), GEMINI % (b"c", b',"finishReason":"STOP"')
        said, _ = told("gemini", *events)
        assert "".join(delta.text for delta in said if isinstance(delta, TextDelta)) == "a😀bc"
        assert [(one.start, one.end) for one in said if isinstance(one, Citation)] == [(0, 3)]
