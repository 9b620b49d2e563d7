"""Coding agents and editors: where the snippets of docs/clients.md lead them, and what they get for what they send.

Each was run with its snippet against a gateway while its request was recorded (agents/*.json): the turn in which the
result of a tool goes back, as a stream.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest
import yaml
from pydantic import TypeAdapter

from providers.formats import FORMATS
from providers.formats.sse import data_of, events_in
from tests.support.clients import sdks
from tests.support.clients.recorded import CALLS, recorded, script
from tests.support.formats.messages import calls_of, gathered
from tests.support.formats.samples import streams
from tests.support.running import ROOT

pytestmark = pytest.mark.embedded

PAGE = (ROOT / "docs/clients.md").read_text()
SHOWN = {"base": "http://127.0.0.1:8000", "key": "svc_…", "model": "demo"}


class Setup(NamedTuple):
    """What an agent makes of its configuration."""

    address: str  # where it posts to
    key: str  # what it sends as a bearer token
    model: str


def claude_code(env: dict[str, str], snippet: str) -> Setup:
    body = json.loads(snippet)["env"]
    models = {body[f"ANTHROPIC_DEFAULT_{name}_MODEL"] for name in ("OPUS", "SONNET", "HAIKU")}
    return Setup(body["ANTHROPIC_BASE_URL"] + "/v1/messages?beta=true", body["ANTHROPIC_AUTH_TOKEN"], models.pop())


def codex(env: dict[str, str], snippet: str) -> Setup:
    result = tomllib.loads(snippet)
    provider = result["model_providers"][result["model_provider"]]
    assert provider["wire_api"] == "responses"  # the only one that it still knows
    return Setup(provider["base_url"] + "/responses", env[provider["env_key"]], result["model"])


def opencode(env: dict[str, str], snippet: str) -> Setup:
    [provider] = json.loads(snippet)["provider"].values()
    assert provider["npm"] == "@ai-sdk/openai-compatible"
    [model] = provider["models"]
    variable = re.fullmatch(r"\{env:(\w+)\}", provider["options"]["apiKey"])[1]
    return Setup(provider["options"]["baseURL"] + "/chat/completions", env[variable], model)


def aider(env: dict[str, str], snippet: str) -> Setup:
    *values, command, option, model = shlex.split(snippet)
    results = dict(pair.split("=", 1) for pair in values)
    assert (command, option) == ("aider", "--model")
    key = env[results["OPENAI_API_KEY"].removeprefix("$")]
    return Setup(results["OPENAI_API_BASE"] + "/chat/completions", key, model.removeprefix("openai/"))


def cline(env: dict[str, str], snippet: str) -> Setup:
    words = shlex.split(snippet)
    results = dict(zip(words[2::2], words[3::2], strict=True))
    assert (words[:2], results["-p"]) == (["cline", "auth"], "openai")
    return Setup(results["-b"] + "/chat/completions", env[results["-k"].removeprefix("$")], results["-m"])


def continues(env: dict[str, str], snippet: str) -> Setup:
    [model] = yaml.safe_load(snippet)["models"]
    assert model["provider"] == "openai"
    return Setup(model["apiBase"].rstrip("/") + "/chat/completions", model["apiKey"], model["model"])


def zed(env: dict[str, str], snippet: str) -> Setup:
    [(name, provider)] = json.loads(snippet)["language_models"]["openai_compatible"].items()
    [model] = provider["available_models"]
    return Setup(provider["api_url"] + "/chat/completions", env[f"{name}_api_key".upper()], model["name"])


AGENTS: dict[str, Callable[[dict[str, str], str], Setup]] = {
    "Claude Code": claude_code,
    "Codex": codex,
    "opencode": opencode,
    "Aider": aider,
    "Cline": cline,
    "Continue": continues,
    "Zed": zed,
}
# One for each way of writing meets every format, the others some.
EVERYWHERE = {"Claude Code", "Codex", "opencode"}
SOME = ("openai", "anthropic", "gemini")
# The fields, of a body that agents ask for, which providers know that refuse any other.
KNOWN = {
    "anthropic": {
        *("model", "messages", "system", "max_tokens", "temperature", "tools", "tool_choice", "stream", "metadata"),
        *("thinking", "output_config", "context_management"),
    },
    "cohere": {
        *("model", "messages", "max_tokens", "temperature", "tools", "stream", "thinking", "citation_options"),
    },
    "gemini": {"contents", "systemInstruction", "generationConfig", "tools", "toolConfig"},
    "mistral": {
        *("model", "messages", "max_tokens", "temperature", "tools", "tool_choice", "parallel_tool_calls", "stream"),
        *("reasoning_effort", "prompt_cache_key"),
    },
}
SPOKEN = [name for name in FORMATS if name != "passthrough"]
MEETINGS = [
    *(
        (agent, name, "parallel_tool_calls")
        for agent in AGENTS
        for name in SPOKEN
        if agent in EVERYWHERE or name in SOME
    ),
    *((agent, "openai", "plain") for agent in AGENTS),
]


def snippet_of(agent: str) -> str:
    """The block, or the line of code, that stands behind the agent's name in bold."""
    behind = PAGE.partition(f"**{agent}**")[2]
    block = re.match(r"[^`]*(?:`[^`\n]+`[^`]*)*?\n```\w+\n(.*?)^```$", behind.partition("\n**")[0], re.M | re.S)
    return block[1] if block else re.match(r"[^`]*`([^`]+)`", behind)[1]


def request_of(agent: str) -> dict[str, Any]:
    name = agent.lower().replace(" ", "_")
    return json.loads((ROOT / f"tests/clients/agents/{name}.json").read_text())


@cache
def sdk_event(kind: str) -> TypeAdapter[Any]:
    """What an SDK reads an event of such a stream as."""
    openai, anthropic = sdks.openai.types, sdks.anthropic.types
    types = {
        "chat/completions": openai.chat.ChatCompletionChunk,
        "responses": openai.responses.ResponseStreamEvent,
        "messages": anthropic.RawMessageStreamEvent,
    }
    return TypeAdapter(types[kind])


def answer_of(path: str, stream: bytes) -> tuple[str, list[Any]]:
    """Text and calls in a stream, every event of which the SDK that the agent is built with has to know."""
    results = [data_of(event) for event in events_in(stream)]
    events = [json.loads(data) for data in results if data and data != b"[DONE]"]
    kind = path.partition("/v1/")[2].partition("?")[0]
    for event in events:  # Anthropic's pings and Azure's word on its filters come as they are: SDKs pass them over
        if event.get("type") != "ping" and "prompt_filter_results" not in event:
            sdk_event(kind).validate_python(event)
    if kind == "chat/completions":
        assert results[-1] == b"[DONE]"
        message = gathered(stream)
        return message["content"], calls_of(message)
    return _of_response(events) if kind == "responses" else _of_message(events)


def _of_response(events: list[dict[str, Any]]) -> tuple[str, list[Any]]:
    assert events[-1]["type"] == "response.completed"
    output = events[-1]["response"]["output"]
    text = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
    calls = [[item["name"], json.loads(item["arguments"])] for item in output if item["type"] == "function_call"]
    return "".join(text), calls


def _of_message(events: list[dict[str, Any]]) -> tuple[str, list[Any]]:
    assert events[-1]["type"] == "message_stop"
    blocks = {event["index"]: event["content_block"] for event in events if event["type"] == "content_block_start"}
    reply = dict.fromkeys(blocks, "")
    for event in events:
        if event["type"] == "content_block_delta":
            reply[event["index"]] += event["delta"].get("text") or event["delta"].get("partial_json") or ""
    text = [reply[index] for index, block in blocks.items() if block["type"] == "text"]
    calls = [[block["name"], json.loads(reply[index] or "{}")] for index, block in blocks.items() if "name" in block]
    return "".join(text), calls


@pytest.fixture
def send(world):
    """Sends what an agent sent to where its snippet leads it: send("Codex") -> the answer."""

    def post(agent, model):
        request = request_of(agent)
        env = {"GATEWAY_KEY": world.key, "GATEWAY_API_KEY": world.key}
        snippet = snippet_of(agent).replace("$GATEWAY/", f"{SHOWN['base']}/")
        snippet = snippet.replace(SHOWN["base"], world.gateway.url).replace(SHOWN["key"], world.key)
        setup = AGENTS[agent](env, snippet)
        assert (setup.address, setup.model) == (world.gateway.url + request["path"], request["body"]["model"])
        world.settle()
        headers = request["headers"] | {"Authorization": f"Bearer {setup.key}"}
        return world.session.post(setup.address, json=request["body"] | {"model": model}, headers=headers)

    return post


@pytest.mark.parametrize(("agent", "format_name", "name"), MEETINGS)
def test_an_agent_gets_what_the_provider_said(world, speaking, send, agent, format_name, name):
    native = (agent, format_name) == ("Codex", "openai-responses")
    sample = recorded(format_name, f"responses_{name}" if native else name, streams)
    model = f"{world.model}.claude-sonnet-4-5"  # what is known of some models goes by their names
    provider = speaking(format_name, model)
    script(provider, sample)
    answer = send(agent, model)
    assert answer.status_code == 200, answer.text
    text, calls = answer_of(request_of(agent)["path"], answer.content)
    expected = CALLS if name == "parallel_tool_calls" else []
    assert (text, calls) == (sample.expect["text"], sample.expect.get("calls", expected))
    assert world.entry(answer).outcome == "completed"
    assert agent != "Codex" or native or "tools.namespace" in answer.headers["X-Svc-Dropped"]
    assert b"files here" in provider.seen[0].body or agent == "Aider"
    assert provider.seen[0].json.keys() <= KNOWN.get(format_name, provider.seen[0].json.keys())


def test_every_snippet_is_of_an_agent_that_was_recorded():
    behind = PAGE.partition("## Coding agents and editors")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\*\*([\w ]+)\*\*", behind, re.MULTILINE)) == set(AGENTS)
