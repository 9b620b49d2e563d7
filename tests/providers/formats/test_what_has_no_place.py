"""What a provider offers and a door's shape has no place for: not asked for, or refused by name, never just lost."""

import json

import pytest

from gateway_project.errors import ValidationError
from gateway_project.work.samples import SHAPES
from providers.formats import FORMATS
from tests.providers.formats.samples import request

HELLO = {"role": "user", "content": "Hello!"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
RESULT = [
    HELLO,
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "9"},
]


def sent(format_name, *, door=True, **body):
    work = request({"model": "m", "messages": [HELLO], **body}, door=door)
    return json.loads(FORMATS[format_name].request(work, "m").body)


@pytest.mark.parametrize("given", [{"messages": RESULT}, {"documents": ["Lisbon is the capital."]}])
def test_cohere_is_asked_for_no_citations_where_they_would_be_lost(given):
    assert sent("cohere", **given)["citation_options"] == {"mode": "OFF"}
    assert "citation_options" not in sent("cohere", door=False, **given)
    assert "citation_options" not in sent("cohere")


def test_citations_that_a_client_asks_for_are_refused_where_they_would_be_lost():
    wanted = {"citation_options": {"mode": "FAST"}}
    with pytest.raises(ValidationError, match="citation_options"):
        sent("cohere", **wanted)
    assert sent("cohere", door=False, **wanted)["citation_options"] == {"mode": "FAST"}
    assert sent("cohere", citation_options={"mode": "OFF"})["citation_options"] == {"mode": "OFF"}


def test_tools_that_openai_runs_itself_are_not_taken_for_another_providers_of_that_name():
    search = {"type": "web_search", "external_web_access": False}
    work = request({"model": "m", "input": "Hi", "tools": [search]}, door=True, dialect=SHAPES["openai-responses"])
    outgoing = FORMATS["mistral"].request(work, "m")
    assert (outgoing.dropped, "tools" in json.loads(outgoing.body)) == (("tools.web_search",), False)
    assert sent("mistral", tools=[{"type": "web_search"}])["tools"] == [{"type": "web_search"}]


def test_several_candidates_are_refused_where_all_but_one_would_be_lost():
    wanted = {"generationConfig": {"candidateCount": 2}}
    with pytest.raises(ValidationError, match="one candidate"):
        sent("gemini", **wanted)
    assert sent("gemini", door=False, **wanted)["generationConfig"] == {"candidateCount": 2}
    assert sent("gemini", generationConfig={"candidateCount": 1})["generationConfig"] == {"candidateCount": 1}
