"""What Anthropic's answers, and those of servers that speak like it, mean to clients of other shapes."""

import json

import pytest

from providers.formats import FORMATS
from providers.formats.neutral.deltas import AnswerEnd, RefusalDelta
from providers.formats.neutral.messages import Refusal
from providers.formats.neutral.reply import Citation
from tests.support.formats.samples import request

pytestmark = pytest.mark.embedded

WORK = {"model": "m", "messages": [], "stream": True}


def said(*values):
    """What a stream of these says."""
    reader = FORMATS["anthropic"].native_reader(request(WORK))
    reader.deltas = []
    for value in values:
        reader.feed(b"data: " + json.dumps(value).encode() + b"\n\n")
    return reader.take_deltas()


def block(index, text, page):
    page = {"type": "web_search_result_location", "url": f"https://{page}.example/", "title": page, "cited_text": ""}
    told = {"type": "text_delta", "text": text}, {"type": "citations_delta", "citation": page}
    start = {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
    return [start, *({"type": "content_block_delta", "index": index, "delta": delta} for delta in told)]


@pytest.mark.parametrize("stops", [True, False])
def test_what_a_block_cites_is_told_whether_or_not_the_server_says_that_it_stops(stops):
    stop = [{"type": "content_block_stop", "index": 0}] * stops
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    told = said(*block(0, "One. ", "a"), *stop, *block(1, "Two.", "b"), *stop, end)
    assert isinstance(told[-1], AnswerEnd)
    assert [one for one in told if isinstance(one, Citation)] == [
        Citation("https://a.example/", "a", "", 0, 5),
        Citation("https://b.example/", "b", "", 5, 9),
    ]


@pytest.mark.parametrize(("reason", "why"), [("refusal", ["Harm."]), ("end_turn", []), (None, [])])
def test_an_explanation_is_a_refusal_where_the_model_has_refused(reason, why):
    about = {"stop_reason": reason, "stop_details": {"explanation": "Harm."}}
    told = said({"type": "message_delta", "delta": about})
    assert [delta.text for delta in told if isinstance(delta, RefusalDelta)] == why
    reply = FORMATS["anthropic"].read_reply({"content": [{"type": "text", "text": "Hi."}], **about})
    assert [part.text for part in reply.parts if isinstance(part, Refusal)] == why
