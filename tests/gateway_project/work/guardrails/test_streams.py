"""A stream of any client API, however its texts are cut into pieces: nothing that is looked for leaves."""

import json

import pytest

from gateway_project.errors import GuardrailBlocked
from gateway_project.work.guardrails.book import Applicable, Audience, GuardrailSnapshot
from gateway_project.work.guardrails.detectors import Detector, compile_detector
from gateway_project.work.guardrails.detectors.redaction import Placeholders
from gateway_project.work.guardrails.events import has_stray_lines
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.streams import StreamGuard
from gateway_project.work.guardrails.texts import of_whole_texts, rewrite_texts
from providers.formats.sse import data_of, events_in
from tests.support.stream_shapes import (
    CALLS,
    EVENTS,
    SHAPES,
    anthropic,
    anthropic_calls,
    completion,
    event,
    gemini,
    openai,
    openai_calls,
    responses,
    responses_calls,
    texts,
)

pytestmark = pytest.mark.embedded

SECRET = "bob@example.com"
TEXT = f"Write to {SECRET} today."


def guardrail(action="redact", type="pii", parameters=None, **options):
    parameters = {"kinds": ["email"]} if parameters is None else parameters
    detector = compile_detector(type, parameters)
    return GuardrailSnapshot(1, "mail", 1, action, "", detector, Audience(everyone=True), **options)


def guard_of(*guardrails, placeholders=None, content_type=EVENTS, read=str):
    answers = Applicable(guardrails).answers
    search = None if answers is None else Search(answers)
    is_changed = placeholders is not None or answers.changes_texts
    return StreamGuard(search, placeholders, content_type, read, is_changed=is_changed), search


def guarded(shape, pieces, *guardrails, joined=False, **options):
    guard, search = guard_of(*guardrails, **options)
    chunks = [b"".join(shape(pieces))] if joined else list(shape(pieces))
    return b"".join([*(guard.feed(chunk) for chunk in chunks), guard.end()]), guard, search


def cuts(text, *, begin=0, end=None):
    """The text in two pieces, and in single characters."""
    yield list(text)
    for place in range(max(begin, 1), len(text) if end is None else end):
        yield [text[:place], text[place:]]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("joined", [False, True], ids=["events", "one chunk"])
def test_a_match_is_taken_out_wherever_it_is_cut(shape, joined):
    for pieces in cuts(TEXT):
        shown, guard, search = guarded(shape, pieces, guardrail(), joined=joined)
        assert SECRET not in shown.decode()
        texts_shown = texts(shown)
        assert texts_shown["text"].strip('{"to: }') == "Write to [EMAIL] today.".strip('{"to: }'), pieces
        assert texts_shown.get("whole", "Write to [EMAIL] today.") == "Write to [EMAIL] today."
        assert texts_shown.get("name", "mail") == "mail"
        assert guard.logged == shown
        assert search.tallies[1].counts == {"email": 1}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_match_is_taken_out_wherever_the_bytes_are_cut(shape, size):
    text = f"Zürich 😀: write to {SECRET}!"
    whole = b"".join(shape([text[:20], text[20:]])).replace(b"\\u00fc", "ü".encode())
    guard, search = guard_of(guardrail())
    output = b"".join(guard.feed(whole[place : place + size]) for place in range(0, len(whole), size)) + guard.end()
    assert texts(output)["text"].strip('{"to: }') == "Zürich 😀: write to [EMAIL]!"
    assert SECRET not in output.decode()
    assert search.tallies[1].counts == {"email": 1}


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_of_what_is_blocked_leaves(shape):
    for pieces in cuts(TEXT):
        guard, _ = guard_of(guardrail("block"))
        shown = b""
        with pytest.raises(GuardrailBlocked) as error:
            for chunk in shape(pieces):
                shown += guard.feed(chunk)
            guard.end()
        assert SECRET not in error.value.message
        assert "'mail'" in error.value.message
        assert "bob" not in texts(shown).get("text", "")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_guardrail_only_records_passes_byte_for_byte(shape):
    for pieces in cuts(TEXT):
        shown, _, search = guarded(shape, pieces, guardrail("monitor"))
        assert shown == b"".join(shape(pieces))
        assert search.tallies[1].counts == {"email": 1}


@pytest.mark.parametrize("shape", SHAPES)
def test_placeholders_become_the_originals_wherever_they_are_cut(shape):
    placeholders = Placeholders()
    assert placeholders.placeholder("email", SECRET) == "<EMAIL_1>"
    for pieces in cuts("Write to <EMAIL_1> today."):
        shown, guard, _ = guarded(shape, pieces, guardrail("monitor"), placeholders=placeholders)
        assert texts(shown)["text"].strip('{"to: }') == TEXT.strip('{"to: }'), pieces
        assert texts(shown).get("whole", TEXT) == TEXT
        assert SECRET not in guard.logged.decode()
        assert "<EMAIL_1>" in texts(guard.logged)["text"]


@pytest.mark.parametrize("shape", SHAPES)
def test_text_without_a_match_is_put_together_as_it_was(shape):
    text = "The sum is 41, a@b is no address, and <EMAIL is none either.\n"
    for pieces in cuts(text):
        shown, _, _ = guarded(shape, pieces, guardrail(), placeholders=Placeholders())
        assert text.strip() in texts(shown)["text"].strip()


def test_choices_that_take_turns_are_texts_of_their_own():
    guard, search = guard_of(guardrail())
    shown = b""
    for one, other in zip(TEXT, "x" * len(TEXT), strict=True):
        for index, piece in enumerate((one, other)):
            shown += guard.feed(event({"choices": [{"index": index, "delta": {"content": piece}}]}))
    shown += guard.feed(b"data: [DONE]\n\n") + guard.end()
    contents = ["", ""]
    for one in events_in(shown):
        for choice in json.loads(data_of(one))["choices"] if b"[DONE]" not in one else ():
            contents[choice["index"]] += choice["delta"]["content"]
    assert contents == ["Write to [EMAIL] today.", "x" * len(TEXT)]
    assert search.tallies[1].counts == {"email": 1}


def test_the_tokens_beside_the_text_do_not_spell_it():
    tokens = {"content": [{"token": SECRET, "logprob": -1}]}
    value = {"choices": [{"index": 0, "delta": {"content": TEXT}, "logprobs": tokens, "finish_reason": "stop"}]}
    guard, _ = guard_of(guardrail())
    assert SECRET.encode() not in guard.feed(event(value))


def test_lines_of_json_are_read_line_by_line():
    lines = b"".join(json.dumps({"message": {"content": piece}, "done": False}).encode() + b"\n" for piece in TEXT)
    lines += b'{"message": {"content": ""}, "done": true}\n'
    guard, _ = guard_of(guardrail(), content_type="application/x-ndjson")
    shown = b"".join(guard.feed(lines[place : place + 7]) for place in range(0, len(lines), 7)) + guard.end()
    assert "".join(json.loads(line)["message"]["content"] for line in shown.splitlines()) == "Write to [EMAIL] today."


def test_a_stream_of_another_kind_is_held_and_what_would_be_redacted_is_blocked():
    for action in ("block", "redact"):
        guard, _ = guard_of(guardrail(action), content_type="application/vnd.amazon.eventstream", read=bytes.decode)
        assert guard.feed(TEXT.encode()) == b""
        with pytest.raises(GuardrailBlocked):
            guard.end()
    guard, _ = guard_of(guardrail(), content_type="application/vnd.amazon.eventstream", read=bytes.decode)
    assert guard.feed(b"Nothing ") + guard.feed(b"here.") + guard.end() == b"Nothing here."


@pytest.mark.parametrize("shape", [openai, completion, responses, anthropic, gemini])
def test_an_answer_that_has_to_be_json_is_judged_as_a_whole(shape):
    for text, passes in (('{"a": 1}', True), ("no JSON", False)):
        guard, _ = guard_of(guardrail("block", "json", {}))
        shown = b""
        try:
            for chunk in shape(text):
                shown += guard.feed(chunk)
            shown += guard.end()
        except GuardrailBlocked:
            assert not passes
            assert texts(shown)["text"] == ""
        else:
            assert passes
            assert texts(shown)["text"] == text


@pytest.mark.parametrize("ping", ["ok", "[1]", SECRET])
def test_an_event_that_is_no_object_is_searched_but_is_not_the_answer(ping):
    for text in ('{"a": 1}', "no JSON"):
        guard, search = guard_of(guardrail("monitor", "json", {}), guardrail("monitor"))
        guard.feed(f"data: {ping}\n\n".encode())
        b"".join(map(guard.feed, openai(text)))
        counts = search.tallies[1].counts
        assert (counts["not_json"], counts["email"]) == (text == "no JSON", SECRET in ping)


def test_the_name_of_a_tool_is_searched():
    parameters = {"forbiddenTools": ["ma.*"]}
    for action in ("block", "redact"):
        guard, _ = guard_of(guardrail(action, "topic", parameters))
        with pytest.raises(GuardrailBlocked, match="tool"):
            for chunk in openai_calls(["a"]):
                guard.feed(chunk)
    guard, _ = guard_of(guardrail("block", "topic", {"forbiddenToolArguments": ["rm -rf"]}))
    with pytest.raises(GuardrailBlocked, match="tool_argument"):
        for chunk in anthropic_calls(["rm", " -", "rf"]):
            guard.feed(chunk)


@pytest.mark.parametrize("shape", CALLS)
def test_the_arguments_of_a_tool_are_searched(shape):
    guard, _ = guard_of(guardrail("block", "topic", {"forbiddenToolArguments": ["rm -rf"]}))
    with pytest.raises(GuardrailBlocked, match="tool_argument"):
        for chunk in shape(["rm", " -", "rf"]):
            assert b"rf" not in guard.feed(chunk)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_pattern_may_be_for_texts_or_for_arguments(shape):
    for place, is_blocked in (("text", shape not in CALLS), ("arguments", shape in CALLS)):
        guard, search = guard_of(guardrail("monitor", "pattern", {"patterns": ["rm -rf"], "in": [place]}))
        for chunk in shape(["rm", " -", "rf"]):
            guard.feed(chunk)
        guard.end()
        assert bool(search.tallies[1].counts) is is_blocked, place


def test_a_stream_that_cannot_be_told_apart_is_text_and_arguments():
    for parameters in ({"patterns": ["rm -rf"], "in": ["arguments"]}, {"patterns": ["rm -rf"], "in": ["text"]}):
        one = guardrail("block", "pattern", parameters)
        guard, _ = guard_of(one, content_type="application/vnd.amazon.eventstream", read=bytes.decode)
        guard.feed(b"rm -rf")
        with pytest.raises(GuardrailBlocked):
            guard.end()


@pytest.mark.parametrize("shape", [openai_calls, responses_calls, anthropic_calls])
def test_arguments_are_searched_without_their_escapes(shape):
    for pieces in cuts("b\\u006fb@example.com"):
        assert "example" not in guarded(shape, pieces, guardrail())[0].decode(), pieces


class Faulty(Detector):
    """Finds nothing, and breaks at the third look."""

    def __init__(self):
        self.looks = 0

    def scan(self, text, start=0):
        return []

    def pending_start(self, text, start=0):
        self.looks += 1
        if self.looks == 3:
            raise RuntimeError("a fault")
        return max(start, len(text) - 4)


def test_a_fault_of_a_detector_is_what_the_fail_mode_says():
    for fails_closed in (False, True):
        faulty = GuardrailSnapshot(
            1, "faulty", 1, "block", "", Faulty(), Audience(everyone=True), fails_closed=fails_closed
        )
        guard, search = guard_of(faulty)
        shown = b""
        try:
            for chunk in openai(list(TEXT)):
                shown += guard.feed(chunk)
            shown += guard.end()
        except GuardrailBlocked:
            assert fails_closed
            assert search.tallies[1].counts == {"unavailable": 1}
        else:
            assert not fails_closed
            assert texts(shown)["text"] == TEXT
        assert search.tallies[1].has_failed


def test_words_of_an_api_stay_as_they_are():
    search = Search(Applicable([guardrail(type="words", parameters={"words": ["auto", "high", "user"]})]).requests)
    body = {
        "tool_choice": "auto",
        "reasoning_effort": "high",
        "messages": [{"role": "user", "content": "The auto is high."}],
    }
    new = rewrite_texts(body, of_whole_texts(search.visit))
    assert new == {**body, "messages": [{"role": "user", "content": "The [WORDS] is [WORDS]."}]}


def test_languages_are_judged_in_a_stream_that_cannot_be_told_apart():
    one = guardrail("block", "topic", {"allowedLanguages": ["en"]})
    guard, _ = guard_of(one, content_type="application/vnd.amazon.eventstream", read=lambda data: data.decode())
    guard.feed("Der Zug fährt heute nicht, weil die Strecke gesperrt ist und niemand weiß, wie lange noch.".encode())
    with pytest.raises(GuardrailBlocked, match="language"):
        guard.end()


def ollama_lines(pieces, prefix=""):
    """Lines of JSON that a service announces as events."""
    for piece in pieces:
        yield prefix.encode() + json.dumps({"message": {"role": "assistant", "content": piece}}).encode() + b"\n"
    yield json.dumps({"message": {"content": ""}, "done": True}).encode() + b"\n"


@pytest.mark.parametrize("content_type", [EVENTS, "application/x-ndjson"])
@pytest.mark.parametrize("prefix", ["", "data: "])
def test_a_match_in_lines_of_json_is_taken_out_however_they_are_announced(content_type, prefix):
    for pieces in cuts(TEXT):
        guard, search = guard_of(guardrail(), content_type=content_type)
        output = b"".join([*(guard.feed(line) for line in ollama_lines(pieces, prefix)), guard.end()])
        values = [json.loads(line.removeprefix(b"data: ")) for line in output.splitlines() if line]
        shown = "".join(value["message"]["content"] for value in values)
        assert (shown, values[-1]["done"]) == ("Write to [EMAIL] today.", True)
        assert search.tallies[1].counts == {"email": 1}


@pytest.mark.parametrize("line", [f"{SECRET}", json.dumps({"response": TEXT}), json.dumps([TEXT]), f" data: {SECRET}"])
@pytest.mark.parametrize("place", ["before", "behind", "alone"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_that_are_no_fields_are_searched(line, place, newline):
    field = 'data: {"choices": []}'
    lines = {"before": [line, field], "behind": [": comment", field, line], "alone": [line]}[place]
    events = newline.join([*lines, "", "data: [DONE]", "", ""]).encode()
    guard, _ = guard_of(guardrail("block"))
    with pytest.raises(GuardrailBlocked):
        _ = guard.feed(events) + guard.end()
    guard, _ = guard_of(guardrail())
    output = guard.feed(events) + guard.end()
    assert SECRET.encode() not in output
    assert b"[EMAIL]" in output
    assert b"data: [DONE]" in output


def test_an_event_with_fields_alone_has_no_stray_lines():
    whole = b"\xef\xbb\xbfevent: x\nid\nretry: 3\r\n: comment\rdata\ndata: {}\n\n"
    assert not has_stray_lines(whole)
    assert has_stray_lines(whole + b"{}\n\n")
    assert has_stray_lines(b"dataset: 1\n\n")
