"""One text as a stream of each client API and of Gemini, and what such a stream says."""

import json

from providers.formats.sse import data_of, events_in

EVENTS = "text/event-stream; charset=utf-8"


def event(value, name=""):
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(value).encode() + b"\n\n"


def openai(pieces):
    def chunk(delta, finish=None):
        return event({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": piece}) for piece in pieces)
    yield chunk({}, "stop")
    yield b"data: [DONE]\n\n"


def openai_calls(pieces):
    def chunk(call, finish=None):
        return event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": finish}]})

    pieces = ['{"to": "', *pieces, '"}']
    first = {"index": 0, "id": "call", "type": "function", "function": {"name": "mail", "arguments": pieces[0]}}
    yield chunk(first)
    yield from (chunk({"index": 0, "function": {"arguments": piece}}) for piece in pieces[1:])
    yield event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    yield b"data: [DONE]\n\n"


def completion(pieces):
    yield from (event({"choices": [{"index": 0, "text": piece, "finish_reason": None}]}) for piece in pieces)
    yield event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    yield b"data: [DONE]\n\n"


def responses(pieces):
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    text = "".join(pieces)
    kinds = [("response.content_part.added", {"part": {"type": "output_text", "text": ""}})]
    kinds += [("response.output_text.delta", {"delta": piece}) for piece in pieces]
    kinds.append(("response.output_text.done", {"text": text}))
    for number, (kind, members) in enumerate(kinds):
        yield event({"type": kind, "sequence_number": number, **place, **members}, kind)
    output = [{"type": "message", "id": "m", "content": [{"type": "output_text", "text": text}]}]
    value = {"type": "response.completed", "sequence_number": len(kinds), "response": {"id": "r", "output": output}}
    yield event(value, "response.completed")


def anthropic(pieces):
    def block(kind, **members):
        return event({"type": kind, "index": 0, **members}, kind)

    yield event({"type": "message_start", "message": {"id": "m", "content": []}}, "message_start")
    yield block("content_block_start", content_block={"type": "text", "text": ""})
    yield from (block("content_block_delta", delta={"type": "text_delta", "text": piece}) for piece in pieces)
    yield block("content_block_stop")
    yield event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, "message_delta")
    yield event({"type": "message_stop"}, "message_stop")


def anthropic_calls(pieces):
    def block(kind, **members):
        return event({"type": kind, "index": 1, **members}, kind)

    yield block("content_block_start", content_block={"type": "tool_use", "id": "t", "name": "mail", "input": {}})
    for piece in ['{"to": "', *pieces, '"}']:
        yield block("content_block_delta", delta={"type": "input_json_delta", "partial_json": piece})
    yield block("content_block_stop")
    yield event({"type": "message_stop"}, "message_stop")


def openai_custom_calls(pieces):
    def chunk(call, finish=None):
        return event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": finish}]})

    yield chunk({"index": 0, "id": "call", "type": "custom", "custom": {"name": "mail", "input": ""}})
    yield from (chunk({"index": 0, "custom": {"input": piece}}) for piece in pieces)
    yield event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    yield b"data: [DONE]\n\n"


def responses_calls(pieces, name="function_call_arguments", member="arguments"):
    place = {"item_id": "f", "output_index": 0}
    pieces = ['{"to": "', *pieces, '"}'] if member == "arguments" else pieces
    for piece in pieces:
        yield event({"type": f"response.{name}.delta", **place, "delta": piece}, f"response.{name}.delta")
    yield event({"type": f"response.{name}.done", **place, member: "".join(pieces)}, f"response.{name}.done")


def responses_custom_calls(pieces):
    yield from responses_calls(pieces, "custom_tool_call_input", "input")


def gemini(pieces):
    for number, piece in enumerate(pieces):
        ends = {"finishReason": "STOP"} if number == len(pieces) - 1 else {}
        yield event({"candidates": [{"content": {"parts": [{"text": piece}], "role": "model"}, "index": 0, **ends}]})


CALLS = [openai_calls, openai_custom_calls, responses_calls, responses_custom_calls, anthropic_calls]
SHAPES = [openai, completion, responses, anthropic, gemini, *CALLS]
PIECES = {"content", "text", "arguments", "partial_json", "input"}


def texts(events):
    """What a client puts together of the pieces of a stream, and of the last whole text."""
    parts = {}
    for one in events_in(events):
        data = data_of(one)
        if data == b"[DONE]" or not data:
            continue
        value = json.loads(data)
        kind = value.get("type", "")
        if "delta" in value and isinstance(value["delta"], str):
            parts["text"] = parts.get("text", "") + value["delta"]
        elif not kind or "delta" in kind:
            collect(value, parts)
        elif kind == "response.completed":
            (item,) = value["response"]["output"]
            whole = item["content"][0]["text"] if "content" in item else item["arguments"]
            parts["whole"] = whole.removeprefix('{"to": "').removesuffix('"}')
    return parts


def collect(value, parts):
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, str) and name in PIECES:
            parts["text"] = parts.get("text", "") + item
        elif isinstance(item, str) and name == "name":
            parts["name"] = parts.get("name", "") + item
        elif isinstance(item, dict | list):
            collect(item, parts)
