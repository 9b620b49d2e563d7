"""A conversation that is too long: clients of OpenAI's find the code they know, whichever provider says so and how."""

import json

import pytest

from gateway_project.work.doors.anthropic.door import error_body as as_anthropic
from gateway_project.work.doors.openai.door import error_body as as_openai
from providers.formats import FORMATS

pytestmark = pytest.mark.embedded

CLAUDE = "prompt is too long: 208310 tokens > 200000 maximum"
VLLM = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."
LLAMA = "the request exceeds the available context size. try increasing the context size"
TOLD = [
    ("openai", {"error": {"code": "context_length_exceeded", "message": "Too long."}}),
    ("openai", {"object": "error", "message": VLLM, "type": "BadRequestError", "code": 400}),
    ("openai", {"error": {"code": 400, "message": LLAMA, "type": "exceed_context_size_error"}}),
    ("openai-responses", {"error": {"message": "Your input exceeds the context window of this model."}}),
    ("azure-openai", {"error": {"code": "400", "message": VLLM}}),
    ("anthropic", {"type": "error", "error": {"type": "invalid_request_error", "message": CLAUDE}}),
    (
        "anthropic",
        {"error": {"message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}},
    ),
    (
        "gemini",
        {"error": {"message": "The input token count (12) exceeds the maximum number of tokens allowed (9)."}},
    ),
    (
        "mistral",
        {
            "message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "code": 3051,
        },
    ),
    ("cohere", {"message": "too many tokens: total number of tokens cannot exceed 4081 - received 4292."}),
    ("ollama", {"error": "the input length exceeds the context length"}),
    ("bedrock", {"message": "Input is too long for requested model."}),
    ("bedrock", {"message": f"The model returned the following errors: {CLAUDE}"}),
]


@pytest.mark.parametrize(("format_name", "body"), TOLD)
def test_clients_of_both_ecosystems_know_it(format_name, body):
    error = FORMATS[format_name].refusal(400, json.dumps(body).encode())
    assert (error.code, as_openai(error)["error"]["code"]) == (400, "context_length_exceeded")
    told = as_anthropic(error, "r")["error"]
    assert (told["type"], told["message"].lower().count("prompt is too long")) == ("invalid_request_error", 1)


@pytest.mark.parametrize("format_name", FORMATS)
def test_another_refusal_is_none(format_name):
    body = {"error": {"message": "max_tokens is too large: 6000. This model supports at most 4096 tokens."}}
    error = FORMATS[format_name].refusal(400, json.dumps(body).encode())
    assert as_openai(error)["error"]["code"] == "provider_rejected"
    assert as_anthropic(error, "r")["error"]["message"] == body["error"]["message"]
