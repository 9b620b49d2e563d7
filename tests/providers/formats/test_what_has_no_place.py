"""What a provider offers and a door's shape has no place for: not asked for, or refused by name, never just lost."""

import json
import re

import pytest

from gateway_project.errors import ValidationError
from providers.formats import FORMATS
from providers.formats.base import Options
from tests.support.formats.samples import FOREIGN, request
from tests.support.recorded_samples import SHAPES

pytestmark = pytest.mark.embedded

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


@pytest.mark.parametrize(
    ("format_name", "wanted"),
    [("cohere", {"logprobs": True}), ("ollama", {"logprobs": True, "top_logprobs": 2})],
)
def test_probabilities_of_tokens_are_not_asked_for_where_they_would_be_lost(format_name, wanted):
    provider, body = FORMATS[format_name], {"model": "m", "messages": [HELLO], **wanted}
    outgoing = provider.request(request(body, door=True), "m")
    assert (outgoing.dropped, json.loads(outgoing.body).keys() & wanted) == (tuple(sorted(wanted)), set())
    with pytest.raises(ValidationError, match="logprobs"):
        provider.request(request(body, door=True), "m", Options(unknown_parameters="refuse"))
    assert sent(format_name, door=False, **wanted).items() >= wanted.items()


def test_tools_that_openai_runs_itself_are_not_taken_for_another_providers_of_that_name():
    search = {"type": "web_search", "external_web_access": False}
    work = request({"model": "m", "input": "Hi", "tools": [search]}, door=True, dialect=SHAPES["openai-responses"])
    outgoing = FORMATS["mistral"].request(work, "m")
    assert (outgoing.dropped, "tools" in json.loads(outgoing.body)) == (("tools.web_search",), False)
    assert sent("mistral", tools=[{"type": "web_search"}])["tools"] == [{"type": "web_search"}]


def only(shape):
    """A body in this shape whose model has to call one of two tools."""
    nested = shape == "openai-chat"
    tools = [{"type": "function"} | ({"function": {"name": n}} if nested else {"name": n}) for n in ("weather", "time")]
    allowed = {"mode": "required", "tools": tools[1:]}
    choice = {"type": "allowed_tools"} | ({"allowed_tools": allowed} if nested else allowed)
    said = {"messages": [HELLO]} if nested else {"input": "Hi"}
    return {"model": "m", **said, "tools": tools, "tool_choice": choice}


def chosen(format_name, shape):
    options = Options(max_output_tokens=9)
    return FORMATS[format_name].request(request(only(shape), door=True, dialect=SHAPES[shape]), "m", options)


@pytest.mark.parametrize("format_name", ["openai", "azure-openai"])
def test_a_choice_among_some_tools_is_written_as_chats_have_it(format_name):
    body, as_a_chat = json.loads(chosen(format_name, "openai-responses").body), only("openai-chat")
    assert (body["tools"], body["tool_choice"]) == (as_a_chat["tools"], as_a_chat["tool_choice"])


URL = "data:image/png;base64,aGk="
MADE = {"type": "image_url", "image_url": {"url": URL}}


@pytest.mark.parametrize(
    "answer", [{"content": "Here.", "images": [MADE]}, {"content": [{"type": "text", "text": "Here."}, MADE]}]
)
@pytest.mark.parametrize(
    ("format_name", "holder"),
    [
        *((name, "user") for name in ("openai-responses", "anthropic", "bedrock", "cohere", "mistral")),
        *(("gemini", "model"), ("ollama", "assistant")),
    ],
)
def test_a_picture_that_a_model_made_stays_its_own_where_that_is_allowed_else_it_is_shown_by_the_user(
    format_name, holder, answer
):
    told = [HELLO, {"role": "assistant", **answer}, {"role": "user", "content": "Bluer!"}]
    work = request({"model": "m", "messages": told, "max_tokens": 9}, door=True)
    if format_name == "openai-responses":  # as an item of a response, which chats are made of here
        made = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "aGk="}
        items = [HELLO, {"role": "assistant", "content": "Here."}, made, told[-1]]
        work, format_name = request({"model": "m", "input": items}, door=True, dialect=SHAPES[format_name]), "openai"
    body = json.loads(FORMATS[format_name].request(work, "m").body)
    turns = body.get("contents") or body["messages"]
    assert [turn["role"] for turn in turns if "aGk=" in json.dumps(turn)] == [holder]
    assert [turn["role"] for turn in turns if "Here." in json.dumps(turn)] == [turns[1]["role"]]


@pytest.mark.parametrize("shape", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("format_name", ["anthropic", "bedrock", "cohere", "gemini", "mistral", "ollama"])
def test_who_cannot_forbid_tools_is_offered_those_alone_that_may_be_called(format_name, shape):
    outgoing = chosen(format_name, shape)
    assert (b"time" in outgoing.body, b"weather" in outgoing.body) == (True, False)
    # Ollama cannot be made to call one.
    assert ("tool_choice" in outgoing.dropped) == (format_name == "ollama")


def test_several_candidates_are_refused_where_all_but_one_would_be_lost():
    wanted = {"generationConfig": {"candidateCount": 2}}
    with pytest.raises(ValidationError, match="one candidate"):
        sent("gemini", **wanted)
    assert sent("gemini", door=False, **wanted)["generationConfig"] == {"candidateCount": 2}
    assert sent("gemini", generationConfig={"candidateCount": 1})["generationConfig"] == {"candidateCount": 1}


@pytest.mark.parametrize(
    ("given", "lost"),
    [
        ({"temperature": 0, "top_p": 0.5, "top_k": 4}, {"temperature", "top_p", "top_k"}),
        ({"temperature": 1, "top_p": 0.96}, set()),
    ],
)
@pytest.mark.parametrize(
    ("format_name", "model"),
    [("anthropic", "claude-sonnet-4-0"), ("bedrock", "anthropic.claude-sonnet-4-20250514-v1:0")],
)
def test_a_claude_that_thinks_takes_no_choice_of_tokens_but_its_own(format_name, model, given, lost):
    for effort, missing in (("high", lost), (None, set())):
        body = {"model": model, "messages": [HELLO], "max_tokens": 5000, "reasoning_effort": effort, **given}
        outgoing = FORMATS[format_name].request(request(body, door=True), model)
        told = outgoing.body.decode().replace("topP", "top_p")
        assert set(outgoing.dropped) == missing
        assert {name for name in given if f'"{name}"' not in told} == missing


@pytest.mark.parametrize(
    ("given", "lost"),
    [
        ({"temperature": 0.2, "top_p": 1}, ("top_p",)),
        ({"temperature": 1, "top_p": 0.9}, ("temperature",)),
        ({"temperature": 1, "top_p": 0.96, "reasoning_effort": "high"}, ("temperature",)),
        ({"temperature": 0.2}, ()),
        ({"top_p": 0.9}, ()),
    ],
)
@pytest.mark.parametrize(
    ("format_name", "model"),
    [
        ("anthropic", "claude-opus-4-1"),
        ("anthropic", "claude-haiku-4-5"),
        ("anthropic", "claude-sonnet-4-6"),
        ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ],
)
def test_a_claude_that_takes_temperature_or_top_p_is_told_the_one_that_says_something(format_name, model, given, lost):
    body = {"model": model, "messages": [HELLO], "max_tokens": 5000, **given}
    outgoing = FORMATS[format_name].request(request(body, door=True), model)
    told = outgoing.body.decode().replace("topP", "top_p")
    assert outgoing.dropped == lost
    assert {name for name in ("temperature", "top_p") if f'"{name}"' in told} == given.keys() - {
        *lost,
        "reasoning_effort",
    }


@pytest.mark.parametrize(("asked", "told"), [({"enabled": True}, ("document.citations",)), ({"enabled": False}, ())])
@pytest.mark.parametrize("format_name", ["openai", "gemini", "bedrock"])
def test_that_places_in_a_document_are_to_be_cited_is_named_where_nobody_else_can(format_name, asked, told):
    source = {"type": "text", "media_type": "text/plain", "data": "Lisbon is the capital."}
    document = {"type": "document", "source": source, "citations": asked}
    body = {"model": "m", "max_tokens": 9, "messages": [HELLO, {"role": "user", "content": [document]}]}
    work = request(body, door=True, dialect=SHAPES["anthropic-messages"])
    assert FORMATS[format_name].request(work, "m").dropped == told
    if told:
        with pytest.raises(ValidationError, match="document.citations"):
            FORMATS[format_name].request(work, "m", Options(unknown_parameters="refuse"))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"type": "text", "media_type": "text/plain", "data": "Lisbon."}, ()),
        ({"type": "base64", "media_type": "application/pdf", "data": "aGk="}, ("document.context",)),
    ],
)
def test_what_is_said_of_a_document_stands_before_its_text_or_is_named(source, told):
    document = {"type": "document", "source": source, "title": "Atlas", "context": "Of 1990."}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [document]}]}
    outgoing = FORMATS["openai"].request(request(body, door=True, dialect=SHAPES["anthropic-messages"]), "m")
    assert outgoing.dropped == told
    assert (b"Of 1990." in outgoing.body) is not bool(told)
    assert b"Atlas" in outgoing.body


@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        ("us.amazon.nova-pro-v1:0", False),
        ("us-gov.meta.llama3-1-8b-instruct-v1:0", False),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.amazon.nova-lite-v1:0", False),
        ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("arn:aws:bedrock:eu-west-1:1:application-inference-profile/a1", True),  # may be anything
    ],
)
def test_bedrock_is_told_of_thinking_where_the_model_can_be_a_claude(model, thinks):
    thought = {"type": "reasoning.text", "text": "Hm.", "signature": "s", "format": "bedrock", "index": 0}
    told = [HELLO, {"role": "assistant", "content": "Hi.", "reasoning_details": [thought]}, HELLO]
    body = {"model": model, "messages": told, "reasoning_effort": "high", "max_tokens": 5000}
    outgoing = FORMATS["bedrock"].request(request(body, door=True), model)
    assert (b'"thinking"' in outgoing.body, b"reasoningContent" in outgoing.body) == (thinks, thinks)
    assert outgoing.dropped == (() if thinks else ("reasoning_effort",))


def test_a_server_of_anthropics_shape_is_told_of_thinking_whatever_its_models_are_called():
    for model in ("glm-4.6", "MiniMax-M2.1", "qwen3.5-coder", "vendor/model.x", "kimi.k2", "us.glm.air"):
        body = {"model": model, "messages": [HELLO], "reasoning_effort": "high", "max_tokens": 5000}
        assert b'"thinking"' in FORMATS["anthropic"].request(request(body, door=True), model).body


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://example.org/report", "application/pdf"),  # Anthropic's documents with an address are nothing else
        ("https://generativelanguage.googleapis.com/v1beta/files/a1", "application/pdf"),
        ("http://example.org/report.pdf", ""),
    ],
)
def test_google_is_told_what_it_will_find_at_an_address(url, told):
    document = {"type": "document", "source": {"type": "url", "url": url}}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [document]}]}
    work = request(body, door=True, dialect=SHAPES["anthropic-messages"])
    if not told:
        with pytest.raises(ValidationError, match="https://"):
            FORMATS["gemini"].request(work, "gemini-3-flash")
        return
    (part,) = json.loads(FORMATS["gemini"].request(work, "gemini-3-flash").body)["contents"][0]["parts"]
    assert part == {"fileData": {"mimeType": told, "fileUri": url}}


def test_an_address_in_a_result_is_refused_where_no_address_is_taken():
    shown = [*RESULT[:2], RESULT[2] | {"content": [{"type": "image_url", "image_url": {"url": "https://x/a.png"}}]}]
    work = request({"model": "m", "messages": shown}, door=True)
    with pytest.raises(ValidationError, match="only as data"):
        FORMATS["gemini"].request(work, "models/gemini-2.0-flash")


PDF = "data:application/pdf;base64,JVBERi0="
MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("role", "block"),
    [
        (
            "user",
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
        ),
        ("assistant", {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}}),
    ],
    ids=["document", "call"],
)
def test_marks_to_cache_the_prompt_up_to_a_part_are_kept(role, block):
    messages = [HELLO, {"role": role, "content": [block | MARK]}]
    work = request(
        {"model": "m", "max_tokens": 9, "messages": messages}, door=True, dialect=SHAPES["anthropic-messages"]
    )
    content = json.loads(FORMATS["bedrock"].request(work, "m").body)["messages"][-1]["content"]
    assert content[-1] == {"cachePoint": {"type": "default"}}


def documents_sent(*messages):
    work = request({"model": "m", "messages": [HELLO, *messages]}, door=True)
    turns = json.loads(FORMATS["bedrock"].request(work, "m").body)["messages"]
    blocks = [block for turn in turns for block in turn["content"]]
    blocks += [inner for block in blocks for inner in block.get("toolResult", {}).get("content", ())]
    return [block["document"]["name"] for block in blocks if "document" in block]


def attached(*names):
    return [{"type": "file", "file": {"filename": name, "file_data": PDF}} for name in names]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Q3 & Q4 – plan.pdf", "Q3 Q4 plan pdf"),
        ("a_ b\t [1] (final).pdf", "a b [1] (final) pdf"),
        ("報告.", "document"),
        (f"{'x' * 199} y.pdf", "x" * 199),
    ],
)
def test_bedrock_gets_names_of_documents_without_what_it_refuses(name, expected):
    assert documents_sent({"role": "user", "content": attached(name)}) == [expected]


@pytest.mark.parametrize("format_name", ["openai", "mistral", "cohere", "ollama", "gemini"])
def test_the_texts_of_a_result_do_not_run_together(format_name):
    texts = [{"type": "text", "text": text} for text in ("A file.", "Another one.")]
    told = [*RESULT[:2], RESULT[2] | {"content": texts}]
    work = request({"model": "m", "messages": told}, door=True, dialect=FOREIGN["chat"])
    assert rb"A file.\nAnother one." in FORMATS[format_name].request(work, "m").body


@pytest.mark.parametrize("content", ["", " \n", []])
def test_bedrock_is_told_of_a_result_without_content(content):
    said = sent("bedrock", messages=[*RESULT[:2], RESULT[2] | {"content": content}])
    assert said["messages"][-1]["content"][0]["toolResult"]["content"] == [{"text": "(no output)"}]


@pytest.mark.parametrize("call_id", ["functions.weather:0", "call 1", "c" * 65])
def test_bedrock_gets_ids_that_it_takes_the_same_for_a_call_and_its_result(call_id):
    asks = {"role": "assistant", "tool_calls": [CALL | {"id": call_id}]}
    _, call, result = sent("bedrock", messages=[HELLO, asks, RESULT[2] | {"tool_call_id": call_id}])["messages"]
    told = call["content"][0]["toolUse"]["toolUseId"]
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", told)  # ToolUseBlock, Amazon Bedrock's API reference
    assert result["content"][0]["toolResult"]["toolUseId"] == told


def test_bedrock_gets_no_name_of_a_document_twice():
    call = {"role": "assistant", "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": attached("A.pdf")}
    user = {"role": "user", "content": attached("a.pdf", "a pdf 2", "a.pdf", "", "")}
    assert documents_sent(user, call, result) == [
        "a pdf",
        "a pdf 2",
        "a pdf 3",
        "document",
        "document 2",
        "A pdf 4",
    ]
    longest = documents_sent({"role": "user", "content": attached(*["x" * 300] * 3)})
    assert longest == ["x" * 200, f"{'x' * 198} 2", f"{'x' * 198} 3"]


def test_what_another_providers_own_tools_did_in_an_earlier_turn_is_refused():
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "Lisbon"}}
    turns = [HELLO, {"role": "assistant", "content": [search, {"type": "text", "text": "Found."}]}, HELLO]
    work = request({"model": "m", "max_tokens": 9, "messages": turns}, door=True, dialect=SHAPES["anthropic-messages"])
    for format_name in ("openai", "gemini", "cohere"):
        with pytest.raises(ValidationError, match="server_tool_use"):
            FORMATS[format_name].request(work, "m")
