"""What every wire format has to get right, shown on recorded replies. A new format adds samples, not tests."""

import json
import re
import time
from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.errors import GatewayError, ValidationError
from gateway_project.work.log.secret_masking import NAMES_OF_PIECES
from providers.formats import FORMATS, Usage
from providers.formats.bedrock.event_stream import FrameSplitter, read_frame, write_frame
from providers.formats.neutral.deltas import words_of
from providers.formats.openai.reply import FINISH_REASONS
from providers.formats.translated import TranslatedFormat
from tests.support.formats.messages import check_message, dropped_from, gathered
from tests.support.formats.samples import STREAM_CASES, WHOLE_CASES, not_applicable, request, streams, whole
from tests.support.pace import slowness
from tests.support.promises import parses
from tests.support.thoroughness import number_of, some

pytestmark = pytest.mark.embedded

INCOMPLETE = {"is_complete": False}
LONG = 100_000
# What a sample says of answers in another shape alone.
TRANSLATED = {"calls", "reasoning", "refusal", "images", "citations", "dropped"}
WHOLE_CALLS, MARK = {"args", "arguments", "input"}, "a-mark"
ALL_WHOLE = [sample for name in FORMATS for sample in whole(name)]
WHOLE = [sample for sample in ALL_WHOLE if "refused" not in sample.about]
STREAMS = [sample for name in FORMATS for sample in streams(name)]
SHORT_STREAMS = [sample for sample in STREAMS if len(sample.body) < LONG]

each_format = pytest.mark.parametrize("format_name", FORMATS)


def cases(samples):
    return pytest.mark.parametrize("sample", samples, ids=[f"{s.format.name}-{s.name}" for s in samples])


def usage(expected):
    return None if expected is None else Usage(**expected)


def told(sample, reader, handed_on):
    """What a reader has understood, in the words of the sample."""
    return {
        "done": reader.done and reader.error is None,
        "text": reader.text(handed_on),
        "finish_reason": reader.finish_reason,
        "provider_finish_reason": reader.provider_finish_reason,
        "usage": reader.usage,
    }


def read(sample, pieces, work=None):
    """A stream read piece by piece as the gateway does it; the reader, and what went to the client."""
    reader, handed_on = sample.format.reader(work or sample.work), []
    for piece in pieces:
        handed_on.append(reader.feed(piece))
        if reader.done or reader.error is not None:
            return reader, b"".join(handed_on)
    handed_on.append(reader.end(**INCOMPLETE))
    return reader, b"".join(handed_on)


def check(sample, reader, handed_on):
    expected = sample.expect | {"usage": usage(sample.expect["usage"])}
    expected = {name: value for name, value in expected.items() if name not in TRANSLATED}
    error = expected.pop("error")
    found = told(sample, reader, handed_on)
    assert {name: found[name] for name in expected} == expected
    assert (reader.error is None) == (error is None)
    assert (error or "") in str(reader.error or "")


@each_format
def test_every_case_of_the_list_was_recorded(format_name):
    left_out = not_applicable(format_name)
    assert {sample.name for sample in whole(format_name)} | left_out >= WHOLE_CASES
    assert {sample.name for sample in streams(format_name)} | left_out >= STREAM_CASES


@cases([sample for sample in WHOLE if "exception" not in sample.expect])
def test_a_whole_answer_is_read(sample):
    answer = sample.format.answer_from_response(sample.work, sample.about["headers"], sample.body)
    expected = sample.expect
    assert (answer.text, answer.finish_reason) == (expected["text"], expected["finish_reason"])
    assert answer.provider_finish_reason == expected["provider_finish_reason"]
    assert answer.usage == usage(expected["usage"])
    assert answer.body == sample.body


@cases([sample for sample in WHOLE if "exception" in sample.expect])
def test_a_refusal_is_the_right_error(sample):
    status, expected = sample.about["status"], sample.expect
    if status == 200:
        with pytest.raises(GatewayError) as caught:
            sample.format.answer(sample.work, sample.body)
        error = caught.value
    else:
        error = sample.format.refusal_from_response(status, sample.about["headers"], sample.body)
    assert (error.exception, error.code) == (expected["exception"], expected["code"])
    assert expected["says"] in error.message
    assert error.headers.get("Retry-After") == (str(expected["retry_after"]) if expected["retry_after"] else None)


@cases([sample for sample in WHOLE if "sent" in sample.about])
def test_the_provider_is_asked_in_its_own_shape(sample):
    outgoing, sent = sample.format.request(sample.work, sample.model), sample.about["sent"]
    assert outgoing.path == sent["path"]
    if sent.get("same"):
        assert outgoing.body == sample.work.raw
    else:
        assert json.loads(outgoing.body) == sent["body"]


@cases([sample for sample in ALL_WHOLE if "refused" in sample.about])
def test_what_a_provider_has_no_place_for_is_refused_and_named(sample):
    with pytest.raises(ValidationError) as caught:
        sample.format.request(sample.work, sample.model)
    assert sample.about["refused"] in caught.value.message


@cases([sample for sample in WHOLE + STREAMS if sample.name in ("bad_credential", "limited")])
def test_what_a_provider_says_about_our_credential_is_not_told(sample):
    error = sample.format.refusal(401, sample.body)
    assert "sk-" not in error.message


@cases(WHOLE)
def test_a_reply_of_another_kind_is_an_error_of_ours_and_never_a_crash(sample):
    for body in (b"", b"null", b"[]", b"{}", b'"text"', b"7", b"[null]", b'{"choices":[7]}', b'{"error":[7]}', b"\xff"):
        try:
            sample.format.answer(sample.work, body)
        except GatewayError:
            pass
        assert sample.format.refusal(400, body).message


@parses
@cases(WHOLE)
@given(data=st.data())
@settings(max_examples=number_of(10), deadline=None)
def test_a_damaged_reply_never_crashes_the_reader(sample, data):
    body = bytearray(sample.body or b" ")
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        sample.format.answer(sample.work, bytes(body))
    except GatewayError:
        pass
    # Some providers say in the body that it is load, or an account that cannot pay, whatever the status.
    assert sample.format.refusal(500, bytes(body)).code in (402, 429, 502, 503)


@cases(STREAMS)
def test_a_stream_is_read(sample):
    reader, handed_on = read(sample, [sample.body])
    check(sample, reader, handed_on)


@pytest.mark.long
@cases([sample for sample in STREAMS if sample.about.get("unchanged")])
def test_a_stream_goes_to_the_client_byte_for_byte(sample):
    assert read(sample, [sample.body])[1] == sample.body
    pieces = [sample.body[at : at + 7] for at in range(0, len(sample.body), 7)]
    _, from_pieces = read(sample, pieces)
    assert from_pieces.rstrip(b"\n") == sample.body.rstrip(b"\n")
    if "bedrock" not in sample.format.name:  # whose streams have no lines
        assert from_pieces.endswith((b"\n\n", b"\r\n\r", b"\r\n\r\n", b"}\n", b"}\r\n"))


@pytest.mark.long
@cases(STREAMS)
def test_at_any_moment_it_is_known_what_passes_unread(sample):
    """Which the thread that carries streams asks of every one, whatever it is made of."""
    reader = sample.format.reader(sample.work)
    for at in range(0, len(sample.body), 16):
        reader.feed(sample.body[at : at + 16])
        assert reader.template is None or reader.template.matches(sample.body) is False


@cases([sample for sample in STREAMS if "hidden" in sample.about])
def test_what_the_client_did_not_ask_for_is_kept_from_it(sample):
    assert sample.about["hidden"].encode() in sample.body
    assert sample.about["hidden"].encode() not in read(sample, [sample.body])[1]


@pytest.mark.long
@cases(SHORT_STREAMS)
def test_a_stream_is_the_same_wherever_it_was_cut_in_two(sample):
    for at in some(range(1, len(sample.body)), len(sample.body)):
        reader, _ = read(sample, [sample.body[:at], sample.body[at:]])
        expected = sample.expect
        assert (reader.done and reader.error is None) == expected["done"]
        assert reader.finish_reason == expected["finish_reason"]
        assert reader.usage == usage(expected["usage"])
        assert (reader.error is None) == (expected["error"] is None)


@cases(SHORT_STREAMS)
def test_a_stream_is_the_same_byte_by_byte(sample):
    reader, handed_on = read(sample, [bytes([byte]) for byte in sample.body])
    check(sample, reader, handed_on)


@cases([sample for sample in SHORT_STREAMS if sample.expect["done"] and sample.name == "plain"])
def test_a_stream_that_breaks_off_is_never_whole(sample):
    for size in range(sample.whole_from):
        reader, _ = read(sample, [sample.body[:size]])
        assert (reader.done, reader.error) == (False, None)


@cases([sample for sample in STREAMS if len(sample.body) >= LONG])
def test_a_large_stream_in_small_pieces_takes_linear_time(sample):
    begun = time.process_time()
    reader, handed_on = read(sample, [sample.body[at : at + 64] for at in range(0, len(sample.body), 64)])
    assert time.process_time() - begun < 3 * slowness()
    check(sample, reader, handed_on)


@parses
@cases(SHORT_STREAMS)
@given(data=st.data())
@settings(max_examples=number_of(10), deadline=None)
def test_a_damaged_stream_never_crashes_the_reader(sample, data):
    body = bytearray(sample.body)
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    reader, handed_on = read(sample, [bytes(body)])
    assert isinstance(reader.text(handed_on), str)


def rewritten(sample, rewrite):
    """The body of a stream with each event rewritten, which is a JSON object in a line or in a frame."""

    def written(text):
        try:
            return json.dumps(rewrite(json.loads(text))).encode()
        except ValueError:
            return text

    if sample.format.name == "bedrock":
        frames = map(read_frame, FrameSplitter().feed(sample.body))
        return b"".join(write_frame(frame.headers, written(frame.payload)) for frame in frames)
    return re.sub(rb"(?m)^((?:data: ?)?)(\{.*\})", lambda line: line[1] + written(line[2]), sample.body)


def strings_in(value, name=""):
    """The name of each string in an event. A call that is an object comes whole: no secret in it is split."""
    if isinstance(value, str):
        yield name
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item, name)
    elif isinstance(value, dict) and name not in WHOLE_CALLS:
        for inner, item in value.items():
            yield from strings_in(item, inner)


def marked(value, name, parent=""):
    """An event with a mark in each string of this name."""
    if isinstance(value, list):
        return [marked(item, name, parent) for item in value]
    if isinstance(value, dict) and parent not in WHOLE_CALLS:
        return {inner: marked(item, name, inner) for inner, item in value.items()}
    return MARK if isinstance(value, str) and parent == name else value


def generated(sample, body):
    """All that the model has generated: text, thoughts, refusals and arguments."""
    reader = sample.format.native_reader(sample.work)
    reader.deltas = []
    handed_on = reader.feed(body) + reader.end(**INCOMPLETE)
    return "".join(map(words_of, reader.take_deltas())) or reader.generated_text(handed_on)


def names_of_pieces(sample):
    """The members of several events that hold what the model has generated."""
    counts = Counter()
    rewritten(sample, lambda event: counts.update(set(strings_in(event))))
    repeated = [name for name, count in counts.items() if count > 1]
    return {name for name in repeated if MARK in generated(sample, rewritten(sample, partial(marked, name=name)))}


@each_format
def test_the_log_knows_each_member_that_holds_pieces_of_an_answer(format_name):
    """Otherwise it would not find a secret that is split over several events."""
    names = set().union(*(names_of_pieces(sample) for sample in SHORT_STREAMS if sample.format.name == format_name))
    assert names
    assert names <= {name.decode() for name in NAMES_OF_PIECES}


@each_format
def test_only_the_formats_own_media_types_are_streams(format_name):
    is_stream = FORMATS[format_name].is_stream
    assert not is_stream("application/json")
    assert not is_stream("")
    assert any(is_stream(kind) for kind in ("text/event-stream", "application/x-ndjson")) or "bedrock" in format_name
    assert not is_stream("text/html; text/event-stream")


@each_format
def test_a_request_keeps_integers_of_any_size(format_name):
    parameters = {"type": "object", "properties": {"size": {"enum": [2**70]}}}
    tool = {"type": "function", "function": {"name": "resize", "parameters": parameters}}
    messages = [{"role": "user", "content": "Hello!"}]
    work = request({"model": "p/m", "messages": messages, "tools": [tool], "max_tokens": 9})
    assert str(2**70).encode() in FORMATS[format_name].request(work, "m").body


@each_format
def test_a_completion_is_a_chat_with_one_question_where_a_provider_has_no_completions(format_name):
    format, given = FORMATS[format_name], {"model": "p/m", "max_tokens": 9, "stop": ["end"]}
    completion = format.request(request(given | {"prompt": "Once upon"}, "completion"), "m")
    assert b"Once upon" in completion.body
    if isinstance(format, TranslatedFormat) and "openai-completion" not in format.native_dialects:
        chat = format.request(request(given | {"messages": [{"role": "user", "content": "Once upon"}]}), "m")
        assert (completion.path, completion.body) == (chat.path, chat.body)


# --- The same answers for a client of OpenAI's doors ---


def translated(samples):
    """Those of formats that do not speak the client's shape themselves."""
    return [sample for sample in samples if sample.format.translates(sample.work_at_a_door)]


def same_reason(expected, found):
    """Reasons that OpenAI has no word for are told in the provider's."""
    return found == expected or (found == "other" and expected not in FINISH_REASONS.values())


@cases(translated(sample for sample in WHOLE if "exception" not in sample.expect))
def test_an_openai_client_is_told_the_same(sample):
    work = sample.work_at_a_door
    answer = sample.format.answer_from_response(work, sample.about["headers"], sample.body)
    as_read = FORMATS["openai"].answer(work, answer.body)
    expected = sample.expect
    assert as_read.text == expected["text"]
    # OpenAI's embeddings always tell a number of tokens, its chats never what is kept for an hour.
    counts = usage(expected["usage"] and {**expected["usage"], "cache_write_hour": None})
    assert as_read.usage == counts or (work.operation, counts) == ("embedding", None)
    assert same_reason(expected["finish_reason"], as_read.finish_reason)
    assert list(answer.dropped) == expected.get("dropped", [])
    if work.operation == "chat":
        check_message(sample, json.loads(answer.body)["choices"][0]["message"])


@cases(translated(STREAMS))
def test_an_openai_client_is_streamed_the_same(sample):
    work, expected = sample.work_at_a_door, sample.expect
    reader, handed_on = read(sample, [sample.body], work)
    as_read = FORMATS["openai"].reader(work)
    as_read.feed(handed_on)
    assert as_read.error is None
    assert as_read.done == expected["done"] == (reader.done and reader.error is None)
    assert (reader.error is None) == (expected["error"] is None)
    assert reader.text(handed_on) == expected["text"]
    assert same_reason(expected["finish_reason"], as_read.finish_reason)
    if expected["done"]:
        check_message(sample, gathered(handed_on))
        assert dropped_from(handed_on) == expected.get("dropped", [])
    if work.wants_usage and expected["done"]:
        assert as_read.usage == usage(expected["usage"])
    assert reader.usage == usage(expected["usage"])


@pytest.mark.long
@cases(translated(SHORT_STREAMS))
def test_an_openai_client_is_streamed_the_same_wherever_it_was_cut_in_two(sample):
    work = sample.work_at_a_door
    _, whole_stream = read(sample, [sample.body], work)
    for at in some(range(1, len(sample.body)), len(sample.body)):
        assert read(sample, [sample.body[:at], sample.body[at:]], work)[1] == whole_stream
