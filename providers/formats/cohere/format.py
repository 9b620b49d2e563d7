"""Cohere's chat and embed (API version 2, https://docs.cohere.com/reference; cohere-python, August 2026)."""

import re

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from providers.formats.base import Options, StreamReader
from providers.formats.cohere.embedding import FLOATS, read_texts, write_texts
from providers.formats.cohere.reply import read_reply, token_count
from providers.formats.cohere.request import (
    LEAST_P,
    MOST_P,
    MOST_STOPS,
    NAME,
    PARAMETERS,
    citations_off,
    thinking_of,
    tools_of,
    turns_of,
)
from providers.formats.cohere.stream import CohereReader
from providers.formats.dialect import WorkRequest
from providers.formats.json_values import as_dict
from providers.formats.neutral.chat import Chat, Embedding
from providers.formats.neutral.reply import Reply, Vectors
from providers.formats.parts import answers_as_text, check_stop_count, results_as_text
from providers.formats.translated import TranslatedFormat
from providers.formats.usage import Usage

PATHS = {"chat": "/chat", "completion": "/chat", "embedding": "/embed"}
BLOCKED_TOKEN = 498


class Cohere(TranslatedFormat):
    """Messages like OpenAI's. Thoughts are items of the content, or `tool_plan` before calls."""

    name = NAME
    models_path = "v1/models?page_size=1000"  # https://docs.cohere.com/reference/list-models
    too_long_pattern = re.compile(r"too many tokens: (?!max)|total number of tokens", re.IGNORECASE)
    strict = True
    translated_parameters = frozenset({*PARAMETERS, "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset(
        {"documents", "citation_options", "safety_mode", "strict_tools", "thinking", "logprobs", "priority"}
    )
    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = frozenset({"input_type", "embedding_types", "truncate", "max_tokens", "priority"})

    def path(self, work: WorkRequest, model: str) -> str:
        return PATHS[work.operation]

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        check_stop_count(chat, MOST_STOPS)
        messages = answers_as_text(results_as_text(chat.messages))
        turns = [turn for message in messages for turn in turns_of(message)]
        body: JsonObject = {"model": model, "messages": turns, "stream": work.stream}
        values = {theirs: getattr(chat, ours) for ours, theirs in PARAMETERS.items()}
        body |= {name: value for name, value in values.items() if value not in (None, [])}
        if "p" in body:
            body["p"] = min(max(body["p"], LEAST_P), MOST_P)
        if chat.tools:
            body |= tools_of(chat)
        if chat.output is not None:
            schema = {} if chat.output.schema is None else {"json_schema": chat.output.schema}
            body["response_format"] = {"type": "json_object", **schema}
        if chat.thinking is not None and (thinking := thinking_of(chat.thinking)):
            body["thinking"] = thinking
        if self.translates(work):
            body |= citations_off(chat)
        return body

    def read_reply(self, value: JsonObject) -> Reply:
        return read_reply(value)

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return CohereReader(work)

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        body: JsonObject = {"model": model, **write_texts(embedding)}
        if embedding.dimensions is not None:
            body["output_dimension"] = embedding.dimensions
        body |= self.native_embedding_values(embedding)
        if self.translates(work):
            body["embedding_types"] = FLOATS
        return body

    def read_vectors(self, value: JsonObject) -> Vectors:
        billed = as_dict(as_dict(value.get("meta")).get("billed_units"))
        tokens = token_count(billed.get("input_tokens"))
        return Vectors(read_texts(value), None if tokens is None else Usage(tokens))

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        return super().refusal(401 if status == BLOCKED_TOKEN else status, body, retry_after)
