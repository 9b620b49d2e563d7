"""Which strings of a document are texts."""

import json

import pytest

from gateway_project.work.guardrails.book import Applicable, Audience, GuardrailSnapshot
from gateway_project.work.guardrails.remote.compilation import compile_guardrail
from gateway_project.work.guardrails.remote.services import service_of
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.texts import of_whole_texts, rewrite_texts

pytestmark = pytest.mark.embedded

LONG = "-" * 4096 + "contraband"
DATA_URL = f"data:image/png;base64,{LONG}"


def searched(document):
    texts = []

    def visit(text, kind, path):
        texts.append(text)
        return text

    rewrite_texts(document, of_whole_texts(visit))
    return any("contraband" in text for text in texts)


def message(*parts):
    return {"messages": [{"role": "user", "content": [*parts]}]}


FILES = {
    "image of chat": message({"type": "image_url", "image_url": {"url": DATA_URL}}),
    "audio of chat": message({"type": "input_audio", "input_audio": {"data": LONG, "format": "wav"}}),
    "file of chat": message({"type": "file", "file": {"file_data": DATA_URL}}),
    "image of Responses": {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": DATA_URL}]}]},
    "image of Messages": message({"type": "image", "source": {"type": "base64", "data": LONG}}),
    "image of Gemini": {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": LONG}}]}]},
    "image of Bedrock": message({"image": {"format": "png", "source": {"bytes": LONG}}}),
    "generated image": {"data": [{"b64_json": LONG}]},
    "part of an image": {"type": "response.image_generation_call.partial_image", "partial_image_b64": LONG},
    "embedding": {"data": [{"embedding": LONG, "index": 0}]},
    "generated audio": {"choices": [{"delta": {"audio": {"data": LONG}}}]},
}
TEXTS = {
    "content": message({"type": "text", "text": LONG}),
    "content that is a data URL": {"messages": [{"role": "user", "content": DATA_URL}]},
    "document of text": message({"type": "document", "source": {"type": "text", "data": LONG}}),
    "list of embeddings": {"data": [{"embedding": [LONG]}]},
    "list of data": {"data": [LONG]},
    "address": message({"type": "image_url", "image_url": {"url": LONG}}),
    "argument": message({"type": "tool_use", "name": "f", "input": {"data": LONG, "source": {"data": LONG}}}),
    "argument in JSON": {"messages": [{"tool_calls": [{"function": {"arguments": json.dumps({"data": LONG})}}]}]},
    "argument of Gemini": {"contents": [{"parts": [{"functionCall": {"args": {"data": LONG}}}]}]},
    "result of Gemini": {"contents": [{"parts": [{"functionResponse": {"response": {"data": LONG}}}]}]},
    "result of Bedrock": message({"toolResult": {"content": [{"json": {"data": LONG}}]}}),
    "parameters of a tool": {"tools": [{"function": {"name": "f", "parameters": {"source": {"data": LONG}}}}]},
    "schema": {"response_format": {"json_schema": {"schema": {"image": LONG}}}},
    "name of a property": {"tools": [{"function": {"parameters": {"properties": {"contraband now": {}}}}}]},
    "name of a property that is required": {"tools": [{"input_schema": {"required": ["contraband now"]}}]},
    "name of a tag": {"metadata": {"contraband now": "1"}},
    "tag with the name of a code": {"metadata": {"id": "contraband"}},
    "default with the name of a code": {"tools": [{"input_schema": {"default": {"status": "contraband"}}}]},
    "example with the name of a code": {"tools": [{"input_examples": [{"role": "contraband"}]}]},
    "result of Gemini with the name of a code": {"parts": [{"functionResponse": {"response": {"id": "contraband"}}}]},
    "result of Bedrock with the name of a code": message({"toolResult": {"content": [{"json": {"id": "contraband"}}]}}),
}
CODES = {
    "id": message({"type": "tool_result", "tool_use_id": "contraband"}),
    "id of Gemini": {"parts": [{"functionResponse": {"id": "contraband", "response": {"output": "Sent."}}}]},
    "plain name of a property": {"input_schema": {"properties": {"contraband": {}}, "required": ["contraband"]}},
    "id of a response": {"type": "response.completed", "response": {"id": "contraband", "status": "contraband"}},
}


@pytest.mark.parametrize("document", FILES.values(), ids=FILES)
def test_files_are_not_searched(document):
    assert not searched(document)


@pytest.mark.parametrize("document", TEXTS.values(), ids=TEXTS)
def test_whatever_looks_like_a_file_elsewhere_is_a_text(document):
    assert searched(document)


@pytest.mark.parametrize("document", CODES.values(), ids=CODES)
def test_what_only_programs_read_is_no_text(document):
    assert not searched(document)


def test_the_name_of_a_property_is_redacted_wherever_it_stands():
    schema = {"properties": {"bob@example.com": {"type": "string"}}, "required": ["bob@example.com"]}
    redacted = {"properties": {"[EMAIL]": {"type": "string"}}, "required": ["[EMAIL]"]}
    assert rewrite_texts(schema, lambda text, kind, path: text.replace("bob@example.com", "[EMAIL]")) == redacted


def search_of(type, parameters, **options):
    detector = compile_guardrail(type, parameters)
    service = service_of(1, type, parameters, "") if type == "http" else None
    guardrail = GuardrailSnapshot(1, "one", 1, "block", "", detector, Audience(everyone=True), service=service)
    return Search(Applicable([guardrail]).answers, **options)


@pytest.mark.parametrize(("type", "parameters"), [
    ("pattern", {"patterns": ["Geheimnis"], "in": ["text"]}), ("topic", {"allowedLanguages": ["en"]}),
])  # fmt: skip
def test_a_request_cannot_say_that_its_prompt_is_the_text_of_a_call(type, parameters):
    prompt = "Das ist nicht das Geheimnis, das wir nicht haben."
    call = {"type": "custom_tool_call", "input": prompt}
    for document, counts in (({**call, "model": "m"}, 1), ({"input": [call]}, 0)):
        search = search_of(type, parameters, is_of_answer=False)
        rewrite_texts(document, of_whole_texts(search.visit))
        assert search.tallies[1].counts.total() == counts


def test_the_text_of_a_call_is_one_where_an_answer_repeats_it():
    event = {"type": "response.custom_tool_call_input.done", "input": "rm -rf"}
    for place, counts in (("text", 0), ("arguments", 1)):
        search = search_of("pattern", {"patterns": ["rm -rf"], "in": [place]})
        rewrite_texts(event, of_whole_texts(search.visit))
        assert search.tallies[1].counts.total() == counts


@pytest.mark.parametrize(("type", "parameters", "refuses"), [
    ("pattern", {"patterns": ["rm"]}, True), ("pattern", {"patterns": ["rm"], "in": ["arguments"]}, False),
    ("topic", {"maxLength": 10}, True), ("topic", {"allowedLanguages": ["en"]}, True), ("topic", {"urls": False}, True),
    ("topic", {"models": ["m"], "forbiddenTools": ["f"], "forbiddenToolArguments": ["rm"]}, False),
    ("json", {}, False), ("http", {"url": "https://example.com"}, True),
])  # fmt: skip
def test_token_ids_are_refused_by_those_that_would_search_them(type, parameters, refuses):
    search = search_of(type, parameters, is_of_answer=False)
    search.note_unreadable({"prompt": [1, 2, 3]})
    assert (search.blocking is not None) == refuses
