"""Requests and answers for the tests of guardrails on the path of requests."""

import json

from providers.formats.sse import data_of, events_in

SECRET = "bob@example.com"
TEXT = f"Write to {SECRET} today."
MAIL = {"type": "pii", "parameters": {"kinds": ["email"]}}
DOORS = ["/work", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]


def body_for(path, prompt, model, **members):
    shapes = {
        "/v1/completions": {"prompt": prompt},
        "/v1/responses": {"input": prompt},
        "/v1/messages": {"messages": [{"role": "user", "content": prompt}], "max_tokens": 100},
    }.get(path, {"messages": [{"role": "user", "content": prompt}]})
    return {"model": model, **shapes, **members}


def ask(world, path="/work", prompt=TEXT, **members):
    return world.post(body_for(path, prompt, world.model, **members), path=path)


def row_of(world, response, direction="request"):
    rows = [row for row in world.entry(response).guardrails if row["direction"] == direction]
    (row,) = rows
    return row


def text_of_events(events):
    """The text of a stream of any client API."""
    text = ""
    for event in events_in(events):
        data = data_of(event)
        if not data.startswith(b"{"):
            continue
        value = json.loads(data)
        delta = value.get("delta")
        if isinstance(delta, str):
            text += delta
        elif isinstance(delta, dict):
            text += delta.get("text", "")
        for choice in value.get("choices", ()):
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
    return text
