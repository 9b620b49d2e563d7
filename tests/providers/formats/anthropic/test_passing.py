"""Anthropic's events on their way to a client of the same shape: what says nothing but words passes unread."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway_project.errors import ProviderRejected
from providers.formats import FORMATS
from providers.formats.anthropic.stream import AnthropicReader
from providers.formats.dialect import WorkRequest
from tests.providers.formats.openai.test_passing import WORDS, passed, passed_unlearned
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

BODY = {"model": "m", "stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


def event(kind, blanks=0, compact=True, **value):
    """One event, with blanks before its last brace."""
    text = json.dumps({"type": kind, **value}, ensure_ascii=False, separators=(",", ":") if compact else None)
    return f"event: {kind}\ndata: {text[:-1]}{' ' * blanks}}}\n\n".encode()


def words(text, blanks=0, compact=True, kind="text", index=0):
    delta = {"type": f"{kind}_delta", kind: text}
    return event("content_block_delta", blanks, compact, index=index, delta=delta)


CALLED = event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"text": "a"}'})
TOLD = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5})
STOPPED = event("message_stop")
FAILED = event("error", error={"type": "overloaded_error", "message": "overloaded"})
EVENTS = st.lists(
    st.builds(words, WORDS, st.integers(0, 9), st.booleans(), st.sampled_from(["text", "thinking"]), st.integers(0, 1))
    | st.sampled_from([CALLED, TOLD, STOPPED, FAILED, event("ping"), b": ping\n\n"]),
    max_size=8,
)


def reader():
    return FORMATS["anthropic"].reader(WorkRequest("chat", "m", BODY, json.dumps(BODY).encode(), True))


@given(EVENTS)
@example([words("a"), words('b"}}'), words("c", 3), TOLD, STOPPED, words("d")])
@settings(max_examples=number_of(300), deadline=None)
def test_what_passes_unread_would_have_passed_anyway(sent):
    assert passed(sent, reader()) == passed_unlearned(sent, reader())


@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_words_are_alike_however_many_blanks_hide_their_length(kind):
    made = reader()
    made.feed(words("Hello", 4, kind=kind))
    for blanks in (0, 4, 17):
        assert made.template.matches(words(" world", blanks, kind=kind))
    for other in (words("a", index=1, kind=kind), words('"', kind=kind), CALLED, TOLD, STOPPED, FAILED):
        assert not made.template.matches(other)


def test_only_the_first_of_many_is_looked_at(monkeypatch):
    looked, look = [], AnthropicReader._event
    monkeypatch.setattr(AnthropicReader, "_event", lambda self, one: looked.append(one) or look(self, one))
    made, sent = reader(), [words(f"word {number}", number % 7) for number in range(50)]
    assert [made.feed(piece) for piece in sent] == sent
    assert len(looked) == 1


@pytest.mark.parametrize(
    ("kind", "code"), [("invalid_request_error", 400), ("request_too_large", 413), ("api_error", 502), (["x"], 502)]
)
def test_an_error_midway_says_by_its_type_whether_it_is_the_requests_own_fault(kind, code):
    events = AnthropicReader(WorkRequest("chat", "m", {}, b"{}", stream=True))
    events.feed(event("error", error={"type": kind, "message": "no"}))
    assert events.error.code == code
    assert isinstance(events.error, ProviderRejected) == (code != 502)
