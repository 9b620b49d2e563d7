"""OpenAI's chat completions, completions and embeddings, and compatible servers.

https://github.com/openai/openai-openapi (checked in August 2026)
"""

import re
from dataclasses import replace

from gateway_project.errors import GatewayError, ProviderRejected
from gateway_project.json_types import JsonObject
from providers.formats.base import ClientResponse, Options, StreamReader, read_object
from providers.formats.dialect import WorkRequest
from providers.formats.ids import fitting_id
from providers.formats.json_values import as_dict, as_text, dump_value, read_json
from providers.formats.neutral.chat import Chat
from providers.formats.neutral.reply import Reply
from providers.formats.openai.embedding import check_embeddings, in_encoding
from providers.formats.openai.foreign import DETAILS_SPELLING, without_foreign
from providers.formats.openai.reply import check_one_choice, read_completion, read_reply, unchanged_answer, usage_of
from providers.formats.openai.request import (
    DIALECT,
    REASONING_MODELS,
    effort_of,
    messages_of,
    response_format_of,
    tool_choice_of,
    tools_of,
)
from providers.formats.openai.stream import OpenAIReader
from providers.formats.translated import PARAMETERS, TranslatedFormat

PATHS = {"chat": "/chat/completions", "completion": "/completions", "embedding": "/embeddings"}
# What OpenAI takes as the id of a user. Those of coding agents are longer.
USER, USER_LENGTH = re.compile(r".{1,64}", re.DOTALL), 24
# Error codes that mean that the gateway's account cannot pay; they come with 429.
BILLING_ERRORS = {"insufficient_quota", "credit_balance_exhausted"}


class OpenAI(TranslatedFormat):
    """A body in OpenAI's shape passes unchanged, except for the model's name and the request for a stream's usage."""

    name = "openai"
    # OpenAI's code, the messages of vLLM and similar servers, and llama.cpp's type.
    too_long_pattern = re.compile(
        r"context_length_exceeded|maximum context length|exceed_context_size|exceeds the (?:model's )?context window",
        re.IGNORECASE,
    )
    native_dialects = frozenset({DIALECT, "openai-completion", "openai-embedding"})
    translated_parameters = frozenset(PARAMETERS) - {"top_k"}
    # Parameters with the same meaning in Responses.
    native_parameters = frozenset({"prompt_cache_key", "prompt_cache_retention", "verbosity", "top_logprobs", "store"})

    def path(self, work: WorkRequest, model: str) -> str:
        return PATHS[work.operation]

    def passthrough_body(self, work: WorkRequest, model: str) -> bytes:
        if work.added_bound == "max_tokens" and work.operation == "chat" and REASONING_MODELS.match(model):
            work = _with_new_bound(work)
        if DETAILS_SPELLING in work.raw:
            work = with_member(work, "messages", without_foreign(work.body.get("messages")))
        if work.stream and work.operation != "embedding" and not work.wants_usage:
            reported = {**as_dict(work.body.get("stream_options")), "include_usage": True}
            return work.body_for(model, stream_options=reported)
        return work.body_for(model)

    def restrict_tools(self, chat: Chat) -> Chat:
        return chat  # tool_choice itself names the allowed tools

    def inapplicable_parameters(self, chat: Chat, model: str) -> set[str]:
        """A budget can be translated into an effort only for models that are known to think."""
        thinking = chat.thinking
        is_lost = thinking is not None and thinking.budget is not None and effort_of(thinking, model) is None
        return {"reasoning_effort"} if is_lost else set()

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        parameters = {
            "tools": tools_of(chat) or None,
            "tool_choice": tool_choice_of(chat),
            "parallel_tool_calls": chat.parallel_tools if chat.tools else None,
            # Models that think refuse the old name; other servers may not know the new one.
            "max_completion_tokens" if REASONING_MODELS.match(model) else "max_tokens": chat.max_tokens,
            "temperature": chat.temperature,
            "top_p": chat.top_p,
            "stop": chat.stop or None,
            "seed": chat.seed,
            "n": chat.choices,
            "presence_penalty": chat.presence_penalty,
            "frequency_penalty": chat.frequency_penalty,
            "response_format": response_format_of(chat),
            "reasoning_effort": effort_of(chat.thinking, model),
            "user": fitting_id(chat.user, USER, USER_LENGTH) if chat.user else None,
        }
        body: JsonObject = {"model": model, "messages": messages_of(chat)}
        if work.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body | {name: value for name, value in parameters.items() if value is not None}

    def answer(self, work: WorkRequest, body: bytes) -> ClientResponse:
        if work.operation == "embedding":
            return _read_embeddings(work, body)
        value = read_object(body)
        if work.via_door and work.stream:
            check_one_choice(value)
        elif work.operation == "chat" and not self.translates(work):
            return unchanged_answer(body, value)
        reply = read_completion(value) if work.operation == "completion" else self.read_reply(value)
        return self.build_answer(work, body, reply)

    def read_reply(self, value: JsonObject) -> Reply:
        return read_reply(value)

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return OpenAIReader(work)

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        error = as_dict(as_dict(read_json(body)).get("error"))
        if BILLING_ERRORS & {as_text(error.get("code")), as_text(error.get("type"))}:
            return super().refusal(ProviderRejected.PAYMENT_REQUIRED, body)
        return super().refusal(status, body, retry_after)


def _with_new_bound(work: WorkRequest) -> WorkRequest:
    """The request with the bound that the gateway added under the name that models that think know."""
    body = {**work.body, "max_completion_tokens": work.body["max_tokens"]}
    del body["max_tokens"]
    return replace(work, body=body, raw=dump_value(body))


def with_member(work: WorkRequest, name: str, value: object) -> WorkRequest:
    """The request with this value of a member of its body; with the client's own bytes if it has that already."""
    if value == work.body.get(name):
        return work
    body = {**work.body, name: value}
    return replace(work, body=body, raw=dump_value(body))


def _read_embeddings(work: WorkRequest, body: bytes) -> ClientResponse:
    value = read_object(body)
    data = check_embeddings(value)
    if work.via_door:
        body = in_encoding(value, data, body, work.body.get("encoding_format"))
    return ClientResponse(body, usage=usage_of(value.get("usage")))
