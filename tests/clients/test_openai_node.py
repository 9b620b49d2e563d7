"""OpenAI's SDK for node, unmodified, told its address and key by the environment alone."""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.clients.recorded import CALLS, recorded, script
from tests.support.formats.samples import streams
from tests.support.pace import patience

FOLDER = Path(__file__).parent / "node"
each = pytest.mark.parametrize("format_name", ["openai", "anthropic", "gemini"])

pytestmark = [
    pytest.mark.skipif(shutil.which("npm") is None, reason="there is no node on this machine"),
    pytest.mark.embedded,
]


@pytest.fixture(scope="module")
def installed():
    """The SDK of the lock file; once it is there, no network is needed."""
    with (FOLDER / "package.json").open() as package:
        fcntl.flock(package, fcntl.LOCK_EX)  # tests may run in several processes
        if (FOLDER / "node_modules" / ".package-lock.json").exists():
            return
        process = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, check=False, capture_output=True)
    if process.returncode:
        pytest.skip("the SDK for node cannot be installed here")


@pytest.fixture
def node(world, installed):
    """Makes one request of client.mjs: node("chat") -> what it printed."""

    def run(name, **environ):
        world.settle()
        own = {"OPENAI_BASE_URL": f"{world.gateway.url}/v1", "OPENAI_API_KEY": world.key}
        command = ["node", "client.mjs", name, world.model]
        process = subprocess.run(
            command, cwd=FOLDER, env=os.environ | own | environ, check=True, capture_output=True, timeout=patience(20)
        )
        return json.loads(process.stdout)

    return run


@each
def test_an_answer(node, speaking, format_name):
    sample = recorded(format_name, "plain")
    speaking(format_name).answers(body=sample.body)
    assert node("chat") == {"text": sample.expect["text"], "output": sample.expect["usage"]["output"]}


@each
def test_a_stream(node, speaking, format_name):
    sample = recorded(format_name, "plain", streams)
    script(speaking(format_name), sample)
    assert node("stream") == {"text": sample.expect["text"]}


@each
def test_tools(node, speaking, format_name):
    sample, answer = recorded(format_name, "parallel_tool_calls"), recorded(format_name, "plain")
    provider = speaking(format_name).answers(body=sample.body).answers(body=answer.body)
    assert node("tools") == {"calls": sample.expect.get("calls", CALLS), "text": answer.expect["text"]}
    assert "20 degrees" in provider.seen[1].body.decode()


@each
def test_tools_in_a_stream(node, speaking, format_name):
    sample = recorded(format_name, "parallel_tool_calls", streams)
    script(speaking(format_name), sample)
    assert node("toolStream") == {"calls": sample.expect.get("calls", CALLS)}


@each
def test_responses(node, speaking, format_name):
    sample, stream = recorded(format_name, "plain"), recorded(format_name, "plain", streams)
    provider = speaking(format_name).answers(body=sample.body)
    assert node("responses") == {"text": sample.expect["text"], "status": "completed"}
    script(provider, stream)
    assert node("responsesStream") == {"text": stream.expect["text"], "status": "completed"}


def test_embeddings_and_models(node, world, speaking):
    speaking("openai")
    assert node("embeddings") == {"vectors": [[0.5, -0.25, 1], [0.5, -0.25, 1]]}
    assert world.model in node("models")["names"]


class TestErrors:
    def test_no_key(self, node):
        result = node("chat", OPENAI_API_KEY="nonsense")
        assert (result["error"], result["code"]) == ("AuthenticationError", "invalid_api_key")

    def test_no_rule(self, node, world):
        world.provider()
        assert node("chat")["error"] == "PermissionDeniedError"

    @pytest.mark.parametrize(
        ("status", "expected"),
        [(422, "UnprocessableEntityError"), (429, "RateLimitError"), (500, "InternalServerError")],
    )
    def test_what_a_provider_refuses(self, node, speaking, status, expected):
        speaking("openai").answers(status=status)
        assert node("chat")["error"] == expected

    def test_a_stream_that_breaks_off(self, node, speaking):
        speaking("openai").answers(text="one two", no_terminal=True)
        result = node("stream")
        assert (result["error"], "terminal mark" in result["message"]) == ("APIError", True)

    def test_a_timeout(self, node, speaking):
        provider = speaking("openai").answers(silent=True)
        assert node("chat", TIMEOUT_MS="500")["error"] == "APIConnectionTimeoutError"
        provider.seen[0].wait_closed()
