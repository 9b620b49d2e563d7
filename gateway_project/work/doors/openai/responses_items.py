"""The parts of an answer of OpenAI's Responses: items, and the object around them."""

import base64
import binascii
from collections.abc import Sequence
from typing import TypeAlias

from gateway_project.api.strict_json import parse_object
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.dialect import WorkRequest
from providers.formats.json_values import as_dict, as_text, dump_value
from providers.formats.neutral.messages import Image, Reasoning, Refusal, Text, ToolCall
from providers.formats.neutral.reply import FinishReason, Reply, cited_parts
from providers.formats.openai.annotations import annotation
from providers.formats.openai.foreign import SEAL
from providers.formats.usage import Usage

Json: TypeAlias = JsonObject

NAME = "openai-responses"
IMAGE = "image_generation_call"
# Why an answer is incomplete, in OpenAI's words; any other reason keeps the provider's.
INCOMPLETE = {FinishReason.LENGTH: "max_output_tokens", FinishReason.FILTER: "content_filter"}
COMPLETE = (FinishReason.STOP, FinishReason.TOOL, FinishReason.UNKNOWN)
# Parameters of the request that the object around an answer repeats, and their defaults.
REPEATED: Json = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "user": None,
}


def envelope(work: WorkRequest, reply_id: str, model: str) -> Json:
    """The object around an answer that has just begun."""
    parameters = {
        name: value if (value := work.body.get(name)) is not None else none for name, none in REPEATED.items()
    }
    return {
        "id": reply_id if reply_id.startswith("resp_") else f"resp_{reply_id or work.id}",
        "object": "response",
        "created_at": work.created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": model or work.model,
        "output": [],
        "previous_response_id": None,
        "store": False,
        "truncation": "disabled",
        "usage": None,
        **parameters,
    }


def ending_members(reason: FinishReason, provider_reason: str) -> Json:
    """The members that say how the answer ended."""
    if reason in COMPLETE:
        return {"status": "completed"}
    if reason == FinishReason.ERROR:
        message = f"The provider ended its answer with {provider_reason or 'an error'}."
        return {"status": "failed", "error": {"code": "server_error", "message": message}}
    why = INCOMPLETE.get(reason) or provider_reason or reason
    return {"status": "incomplete", "incomplete_details": {"reason": why}}


def usage_body(usage: Usage) -> Json:
    """Tokens as OpenAI counts them: tokens that were read from or written to a cache are part of the input."""
    return {
        "input_tokens": usage.all_input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": usage.output or 0,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.all_input + (usage.output or 0),
    }


def items_of(work: WorkRequest, reply: Reply) -> list[Json]:
    """The items of a whole answer; consecutive texts and refusals are one message."""
    items: list[Json] = []
    for part, begin, citations in cited_parts(reply):
        if isinstance(part, Text | Refusal):
            if not items or items[-1]["type"] != "message":
                items.append(message_item(_id(work, "msg", items), "completed"))
            cited = [annotation(citation.clipped_to(begin, len(part.text))) for citation in citations]
            content = text_part(part.text, cited) if isinstance(part, Text) else refusal_part(part.text)
            items[-1]["content"].append(content)
        elif isinstance(part, Reasoning):
            items.append(reasoning_item(_id(work, "rs", items), part))
        elif isinstance(part, Image):
            items.append(image_item(_id(work, "ig", items), part, "completed"))
        elif isinstance(part, ToolCall):
            if part.signature:
                items.append(signature_item(_id(work, "rs", items), part.id, part.signature))
            items.append(call_item(_id(work, "fc", items), part, "completed"))
    return items


def _id(work: WorkRequest, kind: str, items: list[Json]) -> str:
    return item_id(work, kind, len(items))


def item_id(work: WorkRequest, kind: str, number: int) -> str:
    """The id of an item; a call has another id besides."""
    return f"{kind}_{work.id}_{number}"


def message_item(item_id: str, status: str) -> Json:
    """A message without content."""
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": []}


def text_part(text: str, annotations: Sequence[Json] = ()) -> Json:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def refusal_part(text: str) -> Json:
    return {"type": "refusal", "refusal": text}


def call_item(item_id: str, call: ToolCall, status: str) -> Json:
    arguments = (call.arguments or "{}") if status == "completed" else ""
    return {
        "id": item_id,
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
    }


def reasoning_item(item_id: str, thought: Reasoning) -> Json:
    """A thought; its source and signature are sealed in it, so that the client sends them back."""
    return {
        "id": item_id,
        "type": "reasoning",
        "summary": [summary_part(thought.text)] if thought.text else [],
        "encrypted_content": _encode_state(
            {"from": thought.source, "signature": thought.signature, "data": thought.data}
        ),
    }


def image_item(item_id: str, image: Image, status: str) -> Json:
    """A picture of the model: its data, or its URL."""
    result = (image.data or image.url) if status == "completed" else None
    kind = image.media_type.removeprefix("image/")
    return {"id": item_id, "type": IMAGE, "status": status, "result": result, "output_format": kind or None}


def summary_part(text: str) -> Json:
    return {"type": "summary_text", "text": text}


def signature_item(item_id: str, call_id: str, signature: str) -> Json:
    """The signature of the next call: calls have no field for one, and clients send reasoning items back."""
    return {
        "id": item_id,
        "type": "reasoning",
        "summary": [],
        "encrypted_content": _encode_state({"of": {call_id: signature}}),
    }


def _encode_state(value: Json) -> str:
    return SEAL + base64.urlsafe_b64encode(dump_value(value)).decode()


def read_sealed(content: str, text: str) -> tuple[Reasoning, dict[str, str]]:
    """The thought in a reasoning item, and the signatures of calls that it carries instead."""
    if not content.startswith(SEAL):
        return Reasoning(text, data=content, source=NAME if content else ""), {}
    try:
        value = parse_object(base64.urlsafe_b64decode(content.removeprefix(SEAL)))
    except (binascii.Error, ValueError, ValidationError):
        value = {}
    signatures = {call: sign for call, sign in as_dict(value.get("of")).items() if type(sign) is str}
    source, signature, data = (as_text(value.get(name)) for name in ("from", "signature", "data"))
    return Reasoning(text, signature, data, source), signatures
