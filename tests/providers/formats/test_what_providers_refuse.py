"""Conversations that one provider takes, written so that another one, which is stricter, takes them too."""

import json

import pytest

from gateway_project.errors import ProviderError, ValidationError
from gateway_project.work.doors.openai.responses_items import items_of
from providers.formats import FORMATS, Options
from providers.formats.neutral.messages import Reasoning, Text
from providers.formats.neutral.reply import Reply
from providers.formats.openai.foreign import FOREIGN
from tests.support.formats.samples import request
from tests.support.recorded_samples import SHAPES

pytestmark = pytest.mark.embedded

HELLO = {"role": "user", "content": "Hello!"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def sent(format_name, shape="openai-chat", **body):
    """What the provider gets from a client of a client API."""
    work = request({"model": "m", "messages": [HELLO], **body}, door=True, dialect=SHAPES[shape])
    return json.loads(FORMATS[format_name].request(work, work.model).body)


@pytest.mark.parametrize("tools", [[], [{"googleSearch": {}}]])
@pytest.mark.parametrize("choice", ["auto", "none"])
def test_gemini_gets_a_choice_of_functions_only_with_functions(tools, choice):
    # "Function calling config is set without function_declarations."
    assert "toolConfig" not in sent("gemini", tools=tools, tool_choice=choice)
    assert "toolConfig" in sent("gemini", tools=[*tools, TOOL], tool_choice=choice)


CALL = {"id": "D681PevKs", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
RESULT = [
    HELLO,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "D681PevKs", "content": "20"},
]


@pytest.mark.parametrize("role", ["user", "system"])
def test_mistral_gets_an_answer_between_a_result_and_the_next_question(role):
    # "Unexpected role 'user' after role 'tool'"
    messages = sent("mistral", messages=[*RESULT, {"role": role, "content": "And tomorrow?"}])["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[3] == {"role": "assistant", "content": "OK."}
    assert [message["role"] for message in sent("mistral", messages=RESULT)["messages"]][-1] == "tool"


def test_mistral_gets_an_answer_between_a_result_and_its_picture():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    messages = sent("mistral", messages=[*RESULT[:2], {**RESULT[2], "content": [picture]}])["messages"]
    assert [message["role"] for message in messages][2:] == ["tool", "assistant", "user"]


THOUGHT = {"type": "reasoning.text", "text": "Hm.", "signature": "s", "format": "anthropic", "index": 0}


@pytest.mark.parametrize("format_name", ["openai", "openai-responses", "azure-openai"])
def test_thoughts_that_the_gateway_wrote_into_a_message_do_not_reach_openai(format_name):
    # "property 'reasoning_content' is unsupported" (Groq, Cerebras)
    answer = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm.", "reasoning_details": [THOUGHT]}
    messages = sent(format_name, messages=[HELLO, answer, HELLO])["messages"]
    assert messages == [HELLO, {"role": "assistant", "content": "Hi"}, HELLO]


@pytest.mark.parametrize(
    "thoughts",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm.", "reasoning_details": [THOUGHT | {"format": "anthropic-claude-v1"}]},
        {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
        {"reasoning_details": "Hm."},
    ],
)
def test_thoughts_of_openais_own_shape_pass_byte_for_byte(thoughts):
    answer = {"role": "assistant", "content": "Hi", **thoughts}
    work = request({"model": "m", "messages": [HELLO, answer, HELLO]}, door=True)
    assert FORMATS["openai"].request(work, "m").body == work.raw


def test_every_format_that_thinks_in_another_shape_is_known_to_be_foreign():
    others = {name for name, other in FORMATS.items() if "openai-chat" not in other.native_dialects}
    assert others - {"passthrough"} == FOREIGN


def test_thoughts_that_the_gateway_sealed_do_not_reach_openais_responses():
    # "The encrypted content svc1.… could not be verified."
    items = items_of(request({"model": "m"}), Reply([Reasoning("Hm.", "s", source="anthropic"), Text("Hi")]))
    own = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    body = {"model": "m", "input": [HELLO, *items, own, HELLO]}
    work = request(body, door=True, dialect=SHAPES["openai-responses"])
    outgoing = json.loads(FORMATS["openai-responses"].request(work, "m").body)
    assert items[0]["encrypted_content"].startswith("svc1.")
    assert outgoing == {"model": "m", "input": [HELLO, items[1], own, HELLO]}


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": None}, {}])
def test_openai_gets_the_properties_of_an_object_without_any(schema):
    # "object schema missing properties"
    (tool,) = sent("openai", "anthropic-messages", tools=[{"name": "now", "input_schema": schema}])["tools"]
    assert tool["function"]["parameters"]["properties"] == {}


def test_openai_gets_a_short_id_of_a_user_for_a_long_one():
    # "string too long. Expected a string with maximum length 64"
    users = [
        sent("openai", "anthropic-messages", metadata={"user_id": f"user_{'a' * length}"}).get("user")
        for length in (59, 60, 60, 61)
    ]
    assert users[0] == f"user_{'a' * 59}"
    assert users[1] == users[2] != users[3]
    assert [len(user) for user in users[1:]] == [24] * 3


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-2.5-flash", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", {"thinkingBudget": 128}),
        ("models/gemini-2.5-pro-preview-06-05", {"thinkingBudget": 128}),
        ("gemini-3-flash-preview", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.1-flash-lite", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.7-flash", {"thinkingLevel": "LOW"}),
        ("gemini-3.1-pro-preview", {"thinkingLevel": "LOW"}),
        ("gemini-4-flash", {"thinkingLevel": "LOW"}),
    ],
)
def test_gemini_thinks_as_little_as_the_model_can(model, thinking):
    # "This model only works in thinking mode", "Thinking level is unsupported: THINKING_LEVEL_MINIMAL"
    body = sent("gemini", "anthropic-messages", model=model, thinking={"type": "disabled"})
    assert body["generationConfig"]["thinkingConfig"] == thinking


def test_gemini_gets_no_greater_budget_than_its_models_take():
    # "The thinking budget 31999 is invalid. Please choose a value between 0 and 24576."
    thinking = {"type": "enabled", "budget_tokens": 31_999}
    body = sent("gemini", "anthropic-messages", model="gemini-2.5-flash", thinking=thinking)
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 24_576, "includeThoughts": True}


def test_a_call_that_was_cut_off_reaches_anthropics_clients_without_its_arguments():
    call = {**CALL, "function": {"name": "weather", "arguments": '{"city": "Lis'}}
    choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "tool_calls": [call]}}
    work = request({"model": "m", "messages": [HELLO]}, door=True, dialect=SHAPES["anthropic-messages"])
    answer = json.loads(FORMATS["openai"].answer(work, json.dumps({"choices": [choice]}).encode()).body)
    assert answer["content"] == [{"type": "tool_use", "id": "D681PevKs", "name": "weather", "input": {}}]
    assert answer["stop_reason"] == "max_tokens"
    choice["finish_reason"] = "tool_calls"
    with pytest.raises(ProviderError, match="not a JSON object"):
        FORMATS["openai"].answer(work, json.dumps({"choices": [choice]}).encode())


def test_the_latest_pro_model_of_gemini_is_no_early_one():
    # "Function call is missing a thought_signature"
    body = sent("gemini", model="gemini-pro-latest", messages=RESULT)
    assert body["contents"][1]["parts"][0]["thoughtSignature"] == "skip_thought_signature_validator"
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body = sent("gemini", model="gemini-pro-latest", messages=[{"role": "user", "content": [picture]}])
    assert body["contents"][0]["parts"][0]["fileData"]["fileUri"] == "https://example.com/a.png"


@pytest.mark.parametrize(("format_name", "roles"), [("anthropic", "au"), ("bedrock", "uau")])
def test_a_conversation_that_begins_with_a_greeting_begins_with_a_user_for_bedrock(format_name, roles):
    # "A conversation must start with a user message."
    greeting = {"role": "assistant", "content": "How can I help?"}
    messages = sent(format_name, messages=[{"role": "system", "content": "Be kind."}, greeting, HELLO])["messages"]
    assert "".join(message["role"][0] for message in messages) == roles


@pytest.mark.parametrize("media_type", ["image/jpg", "image/JPEG", "image/pjpeg"])
@pytest.mark.parametrize("shape", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("format_name", ["anthropic", "bedrock", "gemini"])
def test_the_usual_misspellings_of_jpeg_reach_strict_providers_as_jpeg(format_name, shape, media_type):
    url = f"data:{media_type};base64,aGk="
    nested = {"type": "image_url", "image_url": {"url": url}}
    content = [nested if shape == "openai-chat" else {"type": "input_image", "image_url": url}]
    body = sent(format_name, shape, **{SHAPES[shape].conversation: [{"role": "user", "content": content}]})
    text = json.dumps(body)
    assert media_type not in text
    assert "image/jpeg" in text or '"jpeg"' in text


@pytest.mark.parametrize("format_name", ["anthropic", "bedrock"])
def test_stop_sequences_of_white_space_are_dropped_and_named_where_they_are_refused(format_name):
    # "stop_sequences: each stop sequence must contain non-whitespace"
    work = request({"model": "claude-sonnet-4-5", "messages": [HELLO], "stop": ["\n", "END"]}, door=True)
    outgoing = FORMATS[format_name].request(work, "claude-sonnet-4-5", Options("drop"))
    assert b'["END"]' in outgoing.body
    assert outgoing.dropped == ("stop",)
    with pytest.raises(ValidationError, match="stop"):
        FORMATS[format_name].request(work, "claude-sonnet-4-5", Options("refuse"))


BOUNDED = {
    "type": "object",
    "properties": {
        "minimum": {"type": "integer", "minimum": 1, "maximum": 9, "description": "Stars"},
        "name": {"type": "string", "maxLength": 5, "format": "phone", "pattern": "^a"},
        "day": {"type": "string", "format": "date"},
        "tags": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"$ref": "#/$defs/tag"}},
        "either": {"oneOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
        "free": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["minimum"],
    "$defs": {"tag": {"type": "string", "minLength": 2}},
}
SUPPORTED = {
    "type": "object",
    "properties": {
        "minimum": {"type": "integer", "description": 'Stars\n\n{"minimum":1,"maximum":9}'},
        "name": {"type": "string", "pattern": "^a", "description": '{"maxLength":5,"format":"phone"}'},
        "day": {"type": "string", "format": "date"},
        "tags": {
            "type": "array",
            "minItems": 1,
            "items": {"$ref": "#/$defs/tag"},
            "description": '{"maxItems":3}',
        },
        "either": {"anyOf": [{"type": "object", "properties": {}, "additionalProperties": False}, {"type": "null"}]},
        "free": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["minimum"],
    "$defs": {"tag": {"type": "string", "description": '{"minLength":2}'}},
    "additionalProperties": False,
}


def test_anthropic_and_bedrock_get_schemas_with_what_they_take():
    # "For 'integer' type, properties maximum, minimum are not supported"
    strict = {"type": "function", "function": {"name": "rate", "parameters": BOUNDED, "strict": True}}
    free = {"type": "function", "function": {"name": "rate", "parameters": BOUNDED}}
    parameters = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": BOUNDED}},
        "tools": [strict, free],
    }
    body = sent("anthropic", **parameters)
    assert body["output_config"]["format"]["schema"] == SUPPORTED
    assert [tool["input_schema"] for tool in body["tools"]] == [SUPPORTED, BOUNDED]
    body = sent("bedrock", **parameters)
    assert json.loads(body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]) == SUPPORTED
    schemas = [tool["toolSpec"]["inputSchema"]["json"] for tool in body["toolConfig"]["tools"]]
    assert schemas == [SUPPORTED, BOUNDED]
