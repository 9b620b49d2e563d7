"""Ollama's own API, /api/chat and /api/embed (https://docs.ollama.com/api; checked in August 2026)."""

import re
from collections.abc import Set

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.base import Options, StreamReader
from providers.formats.dialect import WorkRequest
from providers.formats.json_values import as_text
from providers.formats.neutral.chat import FORCING, Chat, Embedding, ToolMode
from providers.formats.neutral.reply import Reply, Vectors
from providers.formats.ollama.reply import read_reply, usage_of
from providers.formats.ollama.request import NAME, OPTIONS, think_of, turns_of
from providers.formats.ollama.stream import OllamaReader
from providers.formats.parts import function_of, require_texts
from providers.formats.translated import TranslatedFormat

PATHS = {"chat": "/chat", "completion": "/chat", "embedding": "/embed"}
STREAM_TYPE = "application/x-ndjson"


class Ollama(TranslatedFormat):
    """Messages with a list of images each; streams are lines of JSON."""

    name = NAME
    too_long_pattern = re.compile(r"exceeds the (?:available )?context (?:length|size)", re.IGNORECASE)
    translated_parameters = frozenset({*OPTIONS, "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset(
        {"options", "format", "think", "keep_alive", "truncate", "shift", "logprobs", "top_logprobs"}
    )
    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = frozenset({"options", "keep_alive", "truncate"})

    def path(self, work: WorkRequest, model: str) -> str:
        return PATHS[work.operation]

    def is_stream(self, content_type: str) -> bool:
        return content_type.partition(";")[0].strip().lower() == STREAM_TYPE

    def inapplicable_parameters(self, chat: Chat, model: str) -> Set[str]:
        # Ollama has no tool choice: the gateway can leave the tools out, but cannot force a call.
        forced = chat.tool_choice is not None and chat.tool_choice.mode in FORCING
        return frozenset({"tool_choice"} if forced else ())

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        messages = [turn for message in chat.messages for turn in turns_of(message)]
        body: JsonObject = {"model": model, "messages": messages, "stream": work.stream}
        values = {theirs: getattr(chat, ours) for ours, theirs in OPTIONS.items()}
        if parameters := {name: value for name, value in values.items() if value not in (None, [])}:
            body["options"] = parameters
        if chat.tools and not (chat.tool_choice is not None and chat.tool_choice.mode == ToolMode.NONE):
            body["tools"] = [function_of(tool) for tool in chat.tools]
        if chat.output is not None:
            body["format"] = "json" if chat.output.schema is None else chat.output.schema
        if chat.thinking is not None and (think := think_of(chat.thinking)) is not None:
            body["think"] = think
        return body

    def read_reply(self, value: JsonObject) -> Reply:
        return read_reply(value)

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return OllamaReader(work)

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        body: JsonObject = {"model": model, "input": require_texts(embedding)}
        if embedding.dimensions is not None:
            body["dimensions"] = embedding.dimensions
        return body | self.native_embedding_values(embedding)

    def read_vectors(self, value: JsonObject) -> Vectors:
        vectors = value.get("embeddings")
        if not isinstance(vectors, list) or not all(isinstance(vector, list) for vector in vectors):
            raise ProviderError("The provider answered 200 without embeddings.")
        return Vectors(vectors, usage_of(value), as_text(value.get("model")))
