"""The playground with the conversation of a log entry, results of tools, and requests as programs that run."""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.conftest import stand_still
from tests.support.pace import patience
from tests.support.world import World

HOSTILE = "<img src=x onerror=\"document.title='owned'\">'$(id)`id`\\"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


def call(number: int) -> dict:
    arguments = json.dumps({"city": f"City {number}"}, separators=(",", ":"))
    return {"id": f"call_{number}", "type": "function", "function": {"name": "weather", "arguments": arguments}}


def streamed_calls(*numbers: int) -> list[dict | str]:
    deltas = [{"index": place} | call(number) for place, number in enumerate(numbers)]
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [{"index": 0, "delta": {"role": "assistant", "tool_calls": deltas}, "finish_reason": None}]
    end = [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
    return [chunk | {"choices": choices}, chunk | {"choices": end}, "data: [DONE]\n\n"]


CONVERSATION = [
    {"role": "system", "content": "Be brief.\nBe kind."},
    {"role": "user", "content": [{"type": "text", "text": HOSTILE}, IMAGE]},
    {"role": "assistant", "content": None, "tool_calls": [call(1)]},
    {"role": "tool", "tool_call_id": "call_1", "content": "São: sunny"},
]


def open_entry(console, world: World, messages: list[dict], **parameters):
    """The playground of the log entry of a request, in a window, and the provider that it goes to."""
    provider = world.provider()
    world.allow(everyone="user")
    entry = world.entry(world.ask(body={"messages": messages, **parameters}))
    window = console()
    window.open(f"telemetry/logentry/{entry.pk}/change/")
    window.page.click("text=Open in playground")
    stand_still(window.page)
    return window, provider


def complete(page, count: int) -> None:
    page.wait_for_function(
        "count => [...document.querySelectorAll('[data-note]')]"
        ".filter(note => note.innerText.includes('complete')).length == count",
        arg=count,
    )


def test_a_logged_conversation_goes_on_with_results_of_tools(console, world):
    window, provider = open_entry(console, world, CONVERSATION, tools=TOOLS, temperature=0.25, max_tokens=77, seed=5)
    page = window.page
    assert HOSTILE in page.inner_text("#answers")
    assert page.locator("#answers img").count() == 1
    assert page.title() != "owned"
    assert page.input_value("[name=system]") == "Be brief.\nBe kind."
    assert page.get_by_label("Result of weather").input_value() == "São: sunny"
    provider.answers(stream=streamed_calls(2, 3))
    page.click("#answers >> text=Send result")
    complete(page, 1)
    request = provider.seen[-1].json
    assert request["messages"] == CONVERSATION
    assert (request["tools"], request["temperature"], request["max_tokens"], request["seed"]) == (TOOLS, 0.25, 77, 5)
    page.get_by_label("Result of weather (call 1)").fill("windy")
    page.get_by_label("Result of weather (call 2)").fill(HOSTILE)
    assert window.check_looks() == {}
    provider.answers(text="Stay at home.")
    page.click("#answers >> text=Send results")
    complete(page, 2)
    provider.answers(text="Bye.")
    page.fill("[name=prompt]", "Thank you")
    page.click("button[type=submit] >> text=Send")
    complete(page, 3)
    assert provider.seen[-1].json["messages"] == [
        *CONVERSATION,
        {"role": "assistant", "content": None, "tool_calls": [call(2), call(3)]},
        {"role": "tool", "tool_call_id": "call_2", "content": "windy"},
        {"role": "tool", "tool_call_id": "call_3", "content": HOSTILE},
        {"role": "assistant", "content": "Stay at home."},
        {"role": "user", "content": "Thank you"},
    ]
    assert window.problems == []


# How each program is run, by the id of its element.
COMMANDS = {
    "as-curl": ["bash", "program"],
    "as-python": [sys.executable, "program"],
    "as-anthropic": [sys.executable, "program"],
    "as-javascript": ["node", "program.mjs"],
}


def run(element: str, text: str, folder: Path, world: World) -> str:
    command = COMMANDS[element]
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} on this machine")
    (folder / command[-1]).write_text(text)
    environ = os.environ | {"GATEWAY_KEY": world.key}
    process = subprocess.run(
        command, cwd=folder, env=environ, check=False, capture_output=True, text=True, timeout=patience(20)
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_request_as_code_runs_with_its_images_and_results(console, world, tmp_path):
    question = {"role": "user", "content": [{"type": "text", "text": "And this?"}, IMAGE, IMAGE]}
    messages = [*CONVERSATION, {"role": "assistant", "content": "Sunny."}, question]
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    window, provider = open_entry(console, world, messages, tools=TOOLS, response_format=form, stop=["x"], seed=3)
    page = window.page
    page.set_input_files("[name=images]", {"name": "it's.png", "mimeType": "image/png", "buffer": PIXEL})
    for name in ("image-1.png", "image-2.png", "image-3.png", "it's.png"):
        (tmp_path / name).write_bytes(PIXEL)
    question["content"].append(IMAGE)
    for element in COMMANDS:
        # Another prompt each time: an answer from the cache would prove nothing.
        question["content"][0]["text"] = element
        page.fill("[name=prompt]", element)
        program = page.inner_text(f"#{element}")
        assert "base64,iVBOR" not in program
        provider.answers(text='{"text": "Rainy"}')
        program = program.replace(page.get_attribute("#playground", "data-base"), window.url)
        assert "Rainy" in run(element, program, tmp_path, world)
        request = provider.seen[-1].json
        assert request["messages"] == messages, element
        assert (request["tools"], request["stop"]) == (TOOLS, ["x"]), element
        assert request["response_format"]["json_schema"]["schema"] == SCHEMA
        assert request.get("seed") == (None if element == "as-anthropic" else 3)
    assert 'Without "seed"' in page.inner_text("#as-anthropic")
    assert window.problems == []
