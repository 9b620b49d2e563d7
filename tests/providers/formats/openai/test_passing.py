"""OpenAI's chunks on their way to a client of the same shape: most pass without being read, and nothing is missed."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway_project.errors import ProviderError, ProviderOverloaded, ProviderRejected
from providers.formats import FORMATS, json_stream
from providers.formats.base import error_in
from providers.formats.dialect import WorkRequest
from providers.formats.openai import stream as openai_stream
from providers.formats.openai.responses import ResponsesReader
from providers.formats.sse import MAX_TEMPLATE_BYTES, ChunkTemplate, data_of, events_in
from tests.support.recorded_samples import SHAPES
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
DONE = b"data: [DONE]\n\n"
# What a model may write that could be taken for something else.
WORDS = st.sampled_from(
    ["a", "", " ", "error", "usage", "tool_calls", '"', '\\"', "\\", "\n", "\n\n", "\r", "\0", "ä", "🇵🇹", "[DONE]",
     '"error": {"message": "x"}', '"finish_reason": "stop"', '"}, "finish_reason": "stop"', "data: [DONE]"]
)  # fmt: skip


def chunk(content, *, finish=None, usage=None, compact=False, **more):
    """One event; `more` stands in its delta."""
    choice = {"index": 0, "delta": {"content": content, **more}, "finish_reason": finish}
    value = {"id": "c1", "model": "m", "choices": [choice], "usage": usage}
    separators = (",", ":") if compact else None
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=separators).encode() + b"\n\n"


TOLD = chunk("", finish="stop", usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})
FAILED = b'data: {"error": {"message": "overloaded"}}\n\n'
CALLED = chunk(None, tool_calls=[{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}])
EVENTS = st.lists(
    st.builds(chunk, WORDS, compact=st.booleans())
    | st.builds(chunk, WORDS, obfuscation=WORDS)
    | st.builds(chunk, st.none() | WORDS, reasoning_content=WORDS)
    | st.sampled_from([TOLD, FAILED, CALLED, DONE, b": ping\n\n", b"data: {}\n\n", b"data: nonsense\n\n"]),
    max_size=8,
)


def reader():
    return FORMATS["openai"].reader(WorkRequest("chat", "m", BODY, json.dumps(BODY).encode(), True))


def passed(pieces, made=None):
    """All that a reader, OpenAI's unless told, says of a stream in these pieces."""
    made = made or reader()
    handed_on = [made.feed(piece) for piece in pieces]
    error = made.error and made.error.message
    return handed_on, made.end(False), made.done, error, made.usage, made.finish_reason, made.provider_finish_reason


def passed_unlearned(pieces, made=None):
    """The same where every event is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "MAX_TEMPLATES", 0)
        return passed(pieces, made)


@pytest.mark.long
@given(EVENTS)
@example([chunk("a"), chunk('b"}, "finish_reason": "stop"}], "x": "'), DONE])
@example([chunk("a"), chunk("b"), FAILED, chunk("c")])
@example([chunk("a"), chunk("error"), chunk("usage"), TOLD, DONE])
@settings(max_examples=number_of(400), deadline=None)
def test_chunks_that_are_not_looked_at_are_those_that_say_nothing(events):
    assert passed(events) == passed_unlearned(events)


@given(EVENTS, st.data())
@settings(max_examples=number_of(400), deadline=None)
def test_wherever_they_are_cut(events, draw):
    whole = b"".join(events)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True) if begin < end]
    assert passed(pieces) == passed_unlearned(pieces)


def test_like_chunks_are_passed_unread(monkeypatch):
    read = []
    monkeypatch.setattr(openai_stream, "_says_nothing", lambda data: read.append(data) or True)
    made = reader()
    pieces = [chunk(f"word {number}") for number in range(50)]
    assert [made.feed(piece) for piece in pieces] == pieces
    assert len(read) == 1


@pytest.mark.parametrize("content", [None, ""])
def test_thoughts_as_deepseek_sends_them_pass_unread(content):
    made = reader()
    made.feed(chunk(content, reasoning_content="I see"))
    assert made.template.matches(chunk(content, reasoning_content=" the light"))
    made.feed(chunk("Yes"))
    assert made.template.matches(chunk("No"))


def test_chunks_that_are_never_alike_are_not_compared_for_ever():
    made = reader()
    for number in range(50):
        made.feed(chunk("a", serial=str(number)))
    assert made._templates_learned == json_stream.MAX_TEMPLATES


def test_what_follows_an_error_or_the_end_is_not_handed_on():
    for last in (FAILED, DONE):
        made = reader()
        made.feed(chunk("a"))
        made.feed(last)
        assert made.feed(chunk("b")) == b""


def test_a_mark_of_the_end_behind_an_error_ends_nothing():
    made = reader()
    made.feed(chunk("a"))
    assert made.feed(FAILED + DONE) == b""
    assert (made.done, made.error.message) == (False, "The provider failed in the middle of its answer: overloaded")


@pytest.mark.parametrize(("code", "told"), [(429, 429), (503, 503), (529, 503), (500, None), (None, None), ([], None)])
def test_an_error_midway_says_by_its_number_whether_the_provider_is_overloaded(code, told):
    error = json_stream.stream_error({"error": {"message": "slow down", "code": code}})
    assert isinstance(error, ProviderOverloaded) == (told is not None)
    assert told in (None, error.code)
    assert error.message.endswith("of its answer: slow down")


TEMPLATE = ChunkTemplate(b'data: {"content": "Hello"}\n\n', (19, 24))


@pytest.mark.parametrize(
    ("event", "alike"),
    [
        (b'data: {"content": ""}\n\n', True),
        (b'data: {"content": "Good bye \xf0\x9f\x91\x8b"}\n\n', True),
        (b'data: {"content": "a\\nb"}\n\n', False),
        (b'data: {"content": "a\nb"}\n\n', False),
        (b'data: {"content": "a", "b": "c"}\n\n', False),
        (b'data: {"content": "a"}\n\ndata: {"content": "b"}\n\n', False),
        (b'data: {"content": "a"}\r\n\r\n', False),
        (b'data: {"content": "\n\n', False),
        (b'data: {"content": "}\n\n', False),  # the two ends would share a quotation mark
        (b'data: {"text": "a"}\n\n', False),
        (b"", False),
    ],
)
def test_alike_is_what_differs_in_plain_text_alone(event, alike):
    assert TEMPLATE.matches(event) is alike


@pytest.mark.parametrize(
    ("event", "alike"),
    [
        (b'data: {"content": "b", "usage": null, "obfuscation": ""}\n\n', True),
        (b'data: {"content": "", "usage": null, "obfuscation": "Xy3kLm"}\n\n', True),
        (b'data: {"content": "b", "usage": {}, "obfuscation": "x"}\n\n', False),
        (b'data: {"content": "b", "usage": null, "obfuscation": "x", "error": "y"}\n\n', False),
        (b'data: {"content": "b", "error": "x", "usage": null, "obfuscation": "x"}\n\n', False),
        (b'data: {"content": "b", "usage": null, "obfuscation": "x\\u0000"}\n\n', False),
        (b'data: {"content": "b"}\n\n', False),
    ],
)
def test_letters_that_hide_how_long_the_text_is_may_differ_too(event, alike):
    first = b'data: {"content": "Hello", "usage": null, "obfuscation": "abc"}\n\n'
    like = ChunkTemplate(first, (19, 24), (first.index(b"abc"), first.index(b"abc") + 3))
    assert like.matches(first)
    assert like.matches(event) is alike
    assert like.matches_http_chunk(in_a_chunk(event)) is alike


def test_chunks_as_openai_sends_them_pass_unread():
    made = reader()
    made.feed(chunk("a")[:-3] + b', "obfuscation": "Qw"}\n\n')
    assert made.template.matches(chunk("other")[:-3] + b', "obfuscation": "x8Kbm1"}\n\n')


def in_a_chunk(event, style=b"%x"):
    return style % len(event) + b"\r\n" + event + b"\r\n"


@given(st.integers(0, 700) | st.sampled_from([15, 16, 255, 256, 3900, 4095, 4096]), st.sampled_from([b"%x", b"%X"]))
def test_a_whole_chunk_of_http_with_such_an_event_is_known_whatever_its_length(length, style):
    event = b'data: {"content": "%b"}\n\n' % (b"x" * max(0, length - 24))
    assert TEMPLATE.matches_http_chunk(in_a_chunk(event, style))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'1b\r\ndata: {"content": "Hello"}\n\n\r\n',  # one byte less than there are
        b'1d\r\ndata: {"content": "Hello"}\n\n\r\n',
        b'01c\r\ndata: {"content": "Hello"}\n\n\r\n',  # as good, and left to the parser
        b'1c;a=b\r\ndata: {"content": "Hello"}\n\n\r\n',
        b'1c\r\ndata: {"content": "Hello"}\n\n\r\n0',
        b'1c\r\ndata: {"content": "Hello"}\n\n\r\n1c\r\ndata: {"content": "Hello"}\n\n\r\n',
        b'1c\r\ndata: {"content": "H\\"lo"}\n\n\r\n',
        b'1c\r\ndata: {"content": "He\r\nl"}\n\n\r\n',
        b'1c\ndata: {"content": "Hello"}\n\n\r\n',
        b'data: {"content": "Hello"}\n\n',
    ],
)
def test_what_is_not_one_whole_chunk_with_such_an_event_is_not(data):
    assert TEMPLATE.matches(b'data: {"content": "Hello"}\n\n')
    assert not TEMPLATE.matches_http_chunk(data)


def test_long_chunks_are_not_kept_to_be_compared():
    made = reader()
    made.feed(chunk("a", padding="x" * MAX_TEMPLATE_BYTES))
    assert made.template is None
    made.feed(chunk("a" * MAX_TEMPLATE_BYTES))
    assert made.template is None
    made.feed(chunk("a"))
    assert made.template is not None


def test_pieces_need_to_be_fed_in_the_middle_of_an_event_and_at_the_end():
    made = reader()
    assert made.template is None
    made.feed(chunk("a"))
    assert made.template.matches(chunk("b"))
    made.feed(chunk("b")[:9])
    assert made.template is None
    made.feed(chunk("b")[9:])
    assert made.template is not None
    made.feed(DONE)
    assert made.template is None


@pytest.mark.parametrize(("code", "status"), [(400, 400), (404, 404), ("422", 422), (451, 451)])
@pytest.mark.parametrize("read", [json_stream.stream_error, error_in], ids=["stream", "whole"])
def test_an_error_inside_a_200_may_be_the_requests_own_fault(read, code, status):
    error = read({"error": {"message": "no such token id", "code": code}})
    assert (type(error), error.code) == (ProviderRejected, status)
    assert (error.allows_failover, error.may_have_worked) == (False, True)
    assert error.message == "The provider refused the request: no such token id"


@pytest.mark.parametrize("code", [401, 403, 408, 500, "4000", "no", True, None, [400], 400.5])
@pytest.mark.parametrize("read", [json_stream.stream_error, error_in], ids=["stream", "whole"])
def test_other_codes_are_failures_of_the_provider(read, code):
    assert isinstance(read({"error": {"message": "no", "code": code}}), ProviderError)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"type": "response.failed", "response": {"error": {"code": "invalid_prompt"}}}, ProviderRejected),
        ({"type": "error", "code": "image_too_large", "message": "no"}, ProviderRejected),
        ({"type": "response.failed", "response": {"error": {"code": "server_error"}}}, ProviderError),
        ({"type": "error", "message": "no"}, ProviderError),
        ({"type": "error", "code": ["x"]}, ProviderError),
    ],
)
def test_a_failed_response_says_by_its_code_whose_fault_it_is(value, kind):
    responses = ResponsesReader(WorkRequest("chat", "m", {}, b"{}", stream=True))
    responses.feed(b"data: " + json.dumps(value).encode() + b"\n\n")
    assert type(responses.error) is kind


TOO_LONG = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}


@pytest.mark.parametrize("read", [json_stream.stream_error, error_in], ids=["stream", "whole"])
def test_a_conversation_that_is_too_long_is_the_requests_own_fault(read):
    error = read({"error": TOO_LONG})
    assert (type(error), error.code, error.reason) == (ProviderRejected, 400, "context_length_exceeded")
    assert error.context_length_phrase == "context_length_exceeded"  # by which aliases choose a longer model


@pytest.mark.parametrize(
    "event", [{"type": "response.failed", "response": {"error": TOO_LONG}}, {"type": "error", **TOO_LONG}]
)
def test_clients_of_responses_can_tell_that_their_conversation_is_too_long(event):
    work = WorkRequest("chat", "m", {}, b"{}", True, SHAPES["openai-responses"], via_door=True)
    responses = ResponsesReader(work)
    responses.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert (type(responses.error), responses.error.reason) == (ProviderRejected, "context_length_exceeded")
    values = [json.loads(data_of(event)) for event in events_in(responses.end_with_error(responses.error))]
    (failed,) = (value["response"] for value in values if value["type"] == "response.failed")
    assert failed["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [("rate_limit_exceeded", ProviderOverloaded, 429), ("insufficient_quota", ProviderRejected, 402)],
)
def test_a_failed_response_may_be_about_the_gateways_account(code, kind, status):
    responses = ResponsesReader(WorkRequest("chat", "m", {}, b"{}", stream=True))
    event = {"type": "response.failed", "response": {"error": {"code": code, "message": "no"}}}
    responses.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert (type(responses.error), responses.error.code) == (kind, status)
