"""Plain curl, as somebody types it."""

import json
import shutil
import subprocess

import pytest

from tests.support.clients.recorded import CALLS, recorded, script
from tests.support.formats.messages import calls_of, gathered
from tests.support.formats.samples import streams
from tests.support.pace import patience

pytestmark = [
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine"),
    pytest.mark.embedded,
]
each = pytest.mark.parametrize("format_name", ["openai", "anthropic", "gemini"])
TIMED_OUT = 28  # curl's exit status
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def curl(world):
    """Asks the chat door: curl("-N", stream=True) -> curl's exit status, the answer's status and its body."""

    def run(*options, key=None, **asked):
        world.settle()
        body = {"model": world.model, "max_tokens": 99, "messages": [{"role": "user", "content": "Hello!"}], **asked}
        command = [
            *("curl", "-s", "-w", "\n%{http_code}", f"{world.gateway.url}/v1/chat/completions"),
            *("-H", f"Authorization: Bearer {key or world.key}", "-H", "Content-Type: application/json"),
            *("-d", json.dumps(body), *options),
        ]
        process = subprocess.run(command, check=False, capture_output=True, timeout=patience(20))
        result, _, status = process.stdout.rpartition(b"\n")
        return process.returncode, int(status), result

    return run


@each
def test_an_answer(curl, speaking, format_name):
    sample = recorded(format_name, "plain")
    speaking(format_name).answers(body=sample.body)
    _, status, result = curl()
    assert (status, json.loads(result)["choices"][0]["message"]["content"]) == (200, sample.expect["text"])


@each
def test_a_stream(curl, speaking, format_name):
    sample = recorded(format_name, "plain", streams)
    script(speaking(format_name), sample)
    _, status, result = curl("-N", stream=True)
    assert (status, gathered(result)["content"]) == (200, sample.expect["text"])
    assert result.rstrip().endswith(b"data: [DONE]")


@each
def test_tools(curl, speaking, format_name):
    sample = recorded(format_name, "parallel_tool_calls")
    speaking(format_name).answers(body=sample.body)
    message = json.loads(curl(tools=[TOOL])[2])["choices"][0]["message"]
    assert calls_of(message) == sample.expect.get("calls", CALLS)


def test_errors(curl, world):
    _, status, result = curl(key="nonsense")
    assert (status, json.loads(result)["error"]["code"]) == (401, "invalid_api_key")
    world.provider()
    _, status, result = curl()
    assert (status, json.loads(result)["error"]["code"]) == (403, "rule_denied")


@pytest.mark.parametrize(("name", "expected"), [("bad_parameter", 400), ("limited", 429), ("failed", 502)])
def test_what_a_provider_refuses(curl, speaking, name, expected):
    sample = recorded("anthropic", name)
    speaking("anthropic").answers(status=sample.about["status"], body=sample.body, headers=sample.about["headers"])
    _, status, result = curl()
    assert status == expected
    assert sample.expect["says"] in json.loads(result)["error"]["message"]


def test_time_outs(curl, speaking):
    speaking("openai").answers(silent=True).answers(silent=True)
    assert curl("--max-time", "0.5")[0] == TIMED_OUT
    _, status, result = curl("-H", "X-Svc-Timeout: 0.5")
    assert (status, json.loads(result)["error"]["code"]) == (504, "provider_timeout")
