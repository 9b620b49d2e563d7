"""The message of a chat as an OpenAI client reads it, from a stream too."""

import json

from providers.formats.json_values import read_json
from providers.formats.sse import data_of, events_in

DROPPED = b": X-Svc-Dropped: "


def calls_of(message):
    """Name and arguments of the calls in a message."""
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return [[function["name"], json.loads(function["arguments"])] for function in functions]


def gathered(stream):
    """The message that a client puts together from a stream of chunks."""
    message, calls, images, annotations = {"content": "", "reasoning_content": "", "refusal": ""}, {}, [], []
    for event in events_in(stream):
        value = read_json(data_of(event))
        for choice in value["choices"] if isinstance(value, dict) else ():
            delta = choice["delta"]
            for name in message:
                message[name] += delta.get(name) or ""
            images += delta.get("images", ())
            annotations += delta.get("annotations", ())
            for piece in delta.get("tool_calls", ()):
                call = calls.setdefault(piece["index"], {"id": "", "function": {"name": "", "arguments": ""}})
                call["id"] += piece.get("id", "")
                for name, text in piece["function"].items():
                    call["function"][name] += text
    assert [annotation["index"] for annotation in annotations] == list(range(len(annotations)))
    whole = {"tool_calls": [calls[index] for index in sorted(calls)], "images": images, "annotations": annotations}
    return message | whole


def cited_in(message):
    """Address, title and words of each citation in a message."""
    found = [annotation["url_citation"] for annotation in message.get("annotations", ())]
    return [[one["url"], one["title"], message["content"][one["start_index"] : one["end_index"]]] for one in found]


def dropped_from(stream):
    """What a stream says at its end that it has left out."""
    told = [line for line in stream.splitlines() if line.startswith(DROPPED)]
    return [name for line in told for name in line.removeprefix(DROPPED).decode().split(", ")]


def check_message(sample, message):
    """What a client sees of calls and thoughts, where the sample says it."""
    expected = sample.expect
    assert all(call["id"] for call in message.get("tool_calls") or ())
    if "calls" in expected:
        assert calls_of(message) == expected["calls"]
    if "reasoning" in expected:
        assert (message.get("reasoning_content") or "") == expected["reasoning"]
    if "refusal" in expected:
        assert message["refusal"] == expected["refusal"]
    if "images" in expected:
        assert [image["image_url"]["url"] for image in message["images"]] == expected["images"]
    assert cited_in(message) == expected.get("citations", [])
