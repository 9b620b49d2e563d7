"""llm-rosetta translates the same conversations; wherever it says something else, it is explained here."""

import copy
import json
import warnings
from functools import cache

import llm_rosetta
import pytest

from providers.formats import FORMATS, Options
from tests.support.formats.samples import request
from tests.support.formats.second_opinion import HELLO, ROSETTA, answers, explained

pytestmark = pytest.mark.embedded

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Lisbon"}'}}
NOW = {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": "{}"}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "now", "description": "The time", "parameters": SCHEMA}},
]
CONVERSATIONS = {
    "plain": {"messages": [HELLO]},
    "parameters": {"messages": [HELLO], "temperature": 0.5, "top_p": 0.5, "stop": ["END"]},
    "system": {"messages": [{"role": "system", "content": "Be brief."}, HELLO]},
    "picture": {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE]}]},
    "tools": {"messages": [HELLO], "tools": TOOLS, "tool_choice": "required"},
    "chosen tool": {
        "messages": [HELLO],
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "now"}},
    },
    "results": {
        "messages": [
            HELLO,
            {"role": "assistant", "content": "I look.", "tool_calls": [CALL, NOW]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"},
            {"role": "tool", "tool_call_id": "call_2", "content": "12"},
            {"role": "user", "content": "And tomorrow?"},
        ],
        "tools": TOOLS,
    },
    "schema": {
        "messages": [HELLO],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
    },
}


@cache
def rosetta_request(name, format_name):
    body = {"model": "some-model", "max_tokens": 9, **CONVERSATIONS[name]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells what it leaves out so, and it is explained below
        return llm_rosetta.convert(copy.deepcopy(body), ROSETTA[format_name], "openai_chat")


def our_request(name, format_name):
    work = request({"model": "some-model", "max_tokens": 9, **CONVERSATIONS[name]}, door=True)
    return json.loads(FORMATS[format_name].request(work, "some-model", Options("refuse")).body)


def without(value, name):
    """A JSON value in which no object has this field."""
    if isinstance(value, dict):
        return {key: without(item, name) for key, item in value.items() if key != name}
    return [without(item, name) for item in value] if isinstance(value, list) else value


# --- Requests: differences ---


def caches_unasked(theirs, ours):
    """It marks prompts to be cached, which costs, though the client did not ask for it."""
    return without(theirs, "cache_control")


def says_who_calls(theirs, ours):
    """It adds `caller` to calls, which the API refuses for models that do not know it."""
    return without(theirs, "caller")


def system_as_blocks(theirs, ours):
    """The same system prompt, as a list of blocks."""
    if isinstance(theirs.get("system"), list):
        theirs["system"] = "".join(block["text"] for block in theirs["system"])
    return theirs


def turns_in_a_row(theirs, ours):
    """It leaves several turns of the user's in a row; the results of one turn's calls have to be together."""
    name, inside = ("contents", "parts") if "contents" in theirs else ("messages", "content")
    merged = []
    for turn in theirs[name]:
        if merged and merged[-1]["role"] == turn["role"]:
            merged[-1][inside] += turn[inside]
        else:
            merged.append(turn)
    return theirs | {name: merged}


def loses_the_schema(theirs, ours):
    """It says that Anthropic had no structured output, and leaves the schema out."""
    if "format" in ours.get("output_config", {}) and "output_config" not in theirs:
        theirs["output_config"] = ours["output_config"]
    return theirs


SDK_NAMES = {
    "temperature": "temperature",
    "top_p": "topP",
    "stop_sequences": "stopSequences",
    "max_output_tokens": "maxOutputTokens",
    "response_mime_type": "responseMimeType",
}


def shape_of_an_sdk(theirs, ours):
    """It writes what Google's SDK for Python takes (`config`, snake_case); the API itself has `generationConfig`."""
    config = theirs.pop("config", {})
    theirs.pop("model", None)
    if system := theirs.pop("system_instruction", None):
        theirs["systemInstruction"] = {"parts": system["parts"]}
    if tools := config.get("tools"):
        theirs["tools"] = [{"functionDeclarations": [one for tool in tools for one in tool["function_declarations"]]}]
    if choice := config.get("tool_config"):
        calling = choice["function_calling_config"]
        named = {"mode": calling["mode"]}
        if "allowed_function_names" in calling:
            named["allowedFunctionNames"] = calling["allowed_function_names"]
        theirs["toolConfig"] = {"functionCallingConfig": named}
    theirs["generationConfig"] = {SDK_NAMES[name]: config[name] for name in SDK_NAMES if name in config}
    if schema := config.get("response_schema"):
        theirs["generationConfig"]["responseJsonSchema"] = schema
    return theirs


def schemas_of_openapi(theirs, ours):
    """It writes schemas as the API's older field takes them, without what that does not know; we send JSON Schema."""
    for tool in theirs.get("tools", ()):
        for function in tool["functionDeclarations"]:
            assert function.pop("parameters")["type"] == "OBJECT"
            function["parametersJsonSchema"] = SCHEMA
    return theirs


def schema_with_its_name(theirs, ours):
    """It puts the whole of OpenAI's json_schema, name and all, into the place of the schema."""
    config = theirs["generationConfig"]
    if "name" in config.get("responseJsonSchema", {}):
        config["responseJsonSchema"] = config["responseJsonSchema"]["schema"]
    return theirs


def unsigned_calls(theirs, ours):
    """It sends calls without a signature, which Gemini 3 refuses: Google documents a word that stands for one."""
    for turn, mine in zip(theirs["contents"], ours["contents"], strict=True):
        for part, own in zip(turn["parts"], mine["parts"], strict=True):
            if own.get("thoughtSignature") == "skip_thought_signature_validator":
                part["thoughtSignature"] = own["thoughtSignature"]
    return theirs


REQUESTS = {
    "anthropic": (
        caches_unasked, says_who_calls, system_as_blocks, turns_in_a_row, loses_the_schema,
    ),
    "gemini": (shape_of_an_sdk, schemas_of_openapi, schema_with_its_name, turns_in_a_row, unsigned_calls),
}  # fmt: skip


def as_blocks(ours):
    """Our turns with their words in blocks, as theirs are; results of tools stay as they are in both."""
    for turn in ours.get("messages", ()):
        if isinstance(turn["content"], str):
            turn["content"] = [{"type": "text", "text": turn["content"]}]
    return ours


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("format_name", ROSETTA)
def test_requests(format_name, name):
    ours = as_blocks(our_request(name, format_name))
    theirs, _ = explained(rosetta_request(name, format_name), ours, REQUESTS[format_name])
    assert theirs == ours


@pytest.mark.parametrize("format_name", ROSETTA)
def test_every_difference_of_requests_is_still_there(format_name):
    found = set()
    for name in CONVERSATIONS:
        ours = as_blocks(our_request(name, format_name))
        found |= explained(rosetta_request(name, format_name), ours, REQUESTS[format_name])[1]
    assert found == set(REQUESTS[format_name])


# --- Recorded requests ---


def heard(body):
    """What Gemini is told, turn by turn: words, pictures, calls and results, without signatures."""
    parts = [(content["role"], part) for content in body["contents"] for part in content["parts"]]
    return [told for role, part in parts if (told := (role, *essence(part)))[1:]]


def essence(part):
    if call := part.get("functionCall"):
        return ("call", call["id"], call["name"], call["args"])
    if result := part.get("functionResponse"):
        # Ours is the object itself where a result is one; pictures in it are inside or behind it.
        value = result["response"]
        return ("result", result["id"], result["name"], as_value(value.get("output", value)))
    if "inlineData" in part:
        return ("data", part["inlineData"]["data"])
    return ("text", part["text"])


def as_value(text):
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


EXPLAINED = {
    "calls_of_another_model": "it sends the parts of a result as a list, ours their words",
    "calls_of_another_model_before_signatures": "the same",
    "system_prompt": "it puts <system> around one in mid-conversation, ours a line in front of it",
    "reasoning_goes_back": "it knows no reasoning_details",
    "image_address": "it fetches pictures itself, ours leave that to Google",
    "picture_as_a_result": "it writes the picture's address as words",
    "picture_as_a_result_before_gemini_3": "the same",
}


RECORDED = [sample for sample in answers("gemini") if "sent" in sample.about and sample.name not in EXPLAINED]


@pytest.mark.parametrize("sample", RECORDED, ids=[sample.name for sample in RECORDED])
def test_gemini_is_told_the_same_in_every_recorded_request(sample):
    theirs = llm_rosetta.convert(sample.about["work"], "google", "openai_chat")
    assert heard(sample.about["sent"]["body"]) == heard(theirs)
