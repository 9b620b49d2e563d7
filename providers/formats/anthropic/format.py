"""Anthropic's Messages API (https://docs.anthropic.com/en/api/messages; checked with SDK 2.11, November 2026).

The gateway's own requests have the version 2023-06-01, which every server of this API takes. The newer 2026-10-21 only
refuses more (temperature, top_p, top_k). A client's own version is passed on.
"""

import re

from gateway_project.errors import GatewayError, ProviderError, ProviderRejected
from gateway_project.json_types import JsonObject
from providers.formats.anthropic.foreign import FOREIGN, without_foreign
from providers.formats.anthropic.kept_state import ids_in, keeps_state, references_in
from providers.formats.anthropic.models import claude
from providers.formats.anthropic.reply import read_reply
from providers.formats.anthropic.request import (
    NAME,
    SHAPE,
    lost_stops,
    output_config,
    stops_of,
    system_of,
    tool_choice_of,
    tools_of,
    turns_of,
)
from providers.formats.anthropic.stream import AnthropicReader
from providers.formats.anthropic.thinking import (
    can_think,
    conflicting_sampling,
    sampling_of,
    thinking_of,
    unsupported_parameters,
)
from providers.formats.base import ClientResponse, Options, StreamReader, read_object
from providers.formats.dialect import COUNT_TOKENS, WorkRequest
from providers.formats.json_values import as_dict, as_list, as_text, dump_value, read_json
from providers.formats.kept_state import Reference
from providers.formats.neutral.chat import Chat
from providers.formats.neutral.reply import Reply
from providers.formats.translated import TranslatedFormat
from providers.formats.usage import read_count

VERSION = "2023-06-01"
# The status for a type of error, if it comes with another status.
STATUS_OF = {
    "authentication_error": 401,
    "permission_error": 403,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
# Error codes that mean that the gateway's account cannot pay; they come with 402 and 429.
BILLING_ERRORS = frozenset(
    {
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "linked_organization_billing_unavailable",
        "linked_organization_spend_limit_reached",
        "organization_on_hold",
    }
)
DATED = re.compile(r"\w+_[0-9]{8}")  # the type of a tool that Anthropic runs or defines
SERVICE_TIERS = ("auto", "standard_only")  # OpenAI's parameter of the same name means something else


class Anthropic(TranslatedFormat):
    """`POST /messages`."""

    name = NAME
    too_long_pattern = re.compile(r"prompt is too long|exceed context limit", re.IGNORECASE)
    strict = True
    native_dialects = frozenset({SHAPE})
    counts_tokens = True
    translated_parameters = frozenset(
        {
            "tools",
            "tool_choice",
            "parallel_tools",
            "max_tokens",
            "temperature",
            "top_p",
            "top_k",
            "stop",
            "output",
            "thinking",
            "user",
        }
    )
    native_parameters = frozenset(
        {
            "cache_control",
            "container",
            "context_management",
            "diagnostics",
            "inference_geo",
            "mcp_servers",
            "metadata",
            "output_config",
            "service_tier",
            "speed",
            "stop_sequences",
            "system",
            "thinking",
        }
    )

    def path(self, work: WorkRequest, model: str) -> str:
        return "/messages/count_tokens" if work.operation == COUNT_TOKENS else "/messages"

    def passthrough_body(self, work: WorkRequest, model: str) -> bytes:
        if FOREIGN.encode() not in work.raw:
            return super().passthrough_body(work, model)
        messages = [own for message in as_list(work.body.get("messages")) if (own := without_foreign(message))]
        return dump_value({**work.body, "model": model, "messages": messages})

    def references(self, work: WorkRequest) -> tuple[Reference, ...]:
        return (*references_in(work.body), *super().references(work))

    def is_kept(self, work: WorkRequest) -> bool:
        return keeps_state(work.body)

    def headers(self, work: WorkRequest) -> dict[str, str]:
        return {"anthropic-version": VERSION} | work.headers

    def is_native_tool(self, kind: str) -> bool:
        return DATED.fullmatch(kind) is not None

    def native_values(self, chat: Chat) -> JsonObject:
        values = super().native_values(chat)
        if values.get("service_tier") not in SERVICE_TIERS:
            values.pop("service_tier", None)
        if as_dict(values.get("metadata")).keys() != {"user_id"}:  # OpenAI's metadata may have any names
            values.pop("metadata", None)
        return values

    def unknown_parameters(self, chat: Chat, model: str) -> set[str]:
        return super().unknown_parameters(chat, model) | unsupported_parameters(chat, model)

    def inapplicable_parameters(self, chat: Chat, model: str) -> set[str]:
        effort = set() if can_think(chat, model) else {"reasoning_effort"}
        return effort | conflicting_sampling(chat, model) | lost_stops(chat)

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        system, messages = system_of(chat)
        most = _max_tokens(chat, model, options)
        most = options.default_max_tokens if most is None else most
        thinking, effort = thinking_of(chat, model, most)
        more = bool(self.native_tools_in(chat))
        body: JsonObject = {"model": model, "max_tokens": most, "messages": turns_of(messages)}
        parameters = {
            "system": system,
            "tools": tools_of(chat, more=more),
            "tool_choice": tool_choice_of(chat, more=more),
            "stop_sequences": stops_of(chat),
            "metadata": {"user_id": chat.user} if chat.user else None,
            "stream": work.stream,
            "thinking": thinking,
            "output_config": output_config(chat, effort),
        }
        body.update({name: value for name, value in parameters.items() if value})
        body.update({name: getattr(chat, name) for name in sorted(sampling_of(chat, model))})
        return body

    def added_parameter(self, chat: Chat, model: str, options: Options) -> str:
        return "" if _max_tokens(chat, model, options) is not None else f"max_tokens={options.default_max_tokens}"

    def answer(self, work: WorkRequest, body: bytes) -> ClientResponse:
        if work.operation != COUNT_TOKENS:
            answer = super().answer(work, body)
            if work.body.get("thread") is not None or b'"container"' in body:
                answer.state_ids = tuple(ids_in(work.body, read_object(body)))
            return answer
        if read_count(read_object(body).get("input_tokens")) is None:
            raise ProviderError("The provider answered 200 without a number of tokens.")
        return ClientResponse(body)

    def read_reply(self, value: JsonObject) -> Reply:
        return read_reply(value)

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return AnthropicReader(work)

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        error = as_dict(as_dict(read_json(body)).get("error"))
        kind = as_text(error.get("type"))
        if kind == "billing_error" or as_text(as_dict(error.get("details")).get("error_code")) in BILLING_ERRORS:
            return super().refusal(ProviderRejected.PAYMENT_REQUIRED, body)
        return super().refusal(STATUS_OF.get(kind, status), body, retry_after)


def _max_tokens(chat: Chat, model: str, options: Options) -> int | None:
    """The maximum length of the answer: the client's, else the model's; None if neither is known."""
    if chat.max_tokens is not None:
        return chat.max_tokens
    return options.max_output_tokens or claude(model).max_output
