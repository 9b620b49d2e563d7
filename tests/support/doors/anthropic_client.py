"""What a client of Anthropic's door asks, and what it makes of a stream."""

import json

from gateway_project.work.doors import MESSAGES
from providers.formats import WorkRequest
from providers.formats.sse import data_of, events_in

RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny"}


def work(**body):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], **body}
    raw = json.dumps(body).encode()
    return WorkRequest("chat", "m", body, raw, body.get("stream") is True, MESSAGES, True, id="1", created=1)


def written(reply, **asked):
    return json.loads(MESSAGES.write_reply(work(**asked), reply))


GROWS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


def message_of(stream):
    """The message that a client puts together from a stream of events."""
    message = None
    for event in map(json.loads, map(data_of, events_in(stream))):
        if event["type"] == "message_start":
            message = event["message"]
        elif event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            add(message["content"][event["index"]], event["delta"])
        elif event["type"] == "message_delta":
            message |= event["delta"] | {"usage": event["usage"]}
    for block in message["content"]:
        if arguments := block.pop("partial_json", ""):
            block["input"] = json.loads(arguments)
    return message


def add(block, delta):
    if delta["type"] == "signature_delta":
        block["signature"] = delta["signature"]
    else:
        name = GROWS[delta["type"]]
        block[name] = block.get(name, "") + delta[name]
