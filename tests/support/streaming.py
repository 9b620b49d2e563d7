"""What the tests of streams share: events as providers send them, and what clients read of them."""

import json
import time

DONE = "data: [DONE]\n\n"


def part(text, reason=None):
    """One event of a chat stream."""
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]}


def event(value):
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def opening_first(words):
    """The two pieces of a stream that opens with an event without a text, and sends all else in the second."""
    opening = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
    return [event(opening), event(part(words)) + event(part("", "stop")) + DONE.encode()]


def arrivals(response):
    """What came when: pairs of seconds since the response's head, and bytes."""
    assert response.status_code == 200, response.text
    begun = time.monotonic()
    return [(time.monotonic() - begun, chunk) for chunk in response.iter_content(None)]


def read(response):
    return b"".join(chunk for _, chunk in arrivals(response))


def datas(body):
    """The data of each event, comments left out."""
    return [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data:")]


def text(body):
    """What the model said in a chat stream."""
    values = [json.loads(data) for data in datas(body) if data != b"[DONE]"]
    choices = [choice for value in values for choice in value.get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def error_in(body):
    """The error event that ends a stream."""
    last = json.loads(datas(body)[-1])
    assert last.keys() == {"code", "exception", "message"}, last
    return last
