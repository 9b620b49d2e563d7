"""Mistral's chat completions and embeddings (https://docs.mistral.ai/api; checked with client-python, June 2026)."""

import re

from gateway_project.json_types import JsonObject
from providers.formats.base import Options, StreamReader
from providers.formats.dialect import WorkRequest
from providers.formats.json_values import as_dict, as_text
from providers.formats.mistral.reply import read_reply
from providers.formats.mistral.request import NAME, PARAMETERS, effort_of, messages_of, tool_choice_of, write_tool
from providers.formats.mistral.stream import MistralReader
from providers.formats.neutral.chat import Chat, Embedding
from providers.formats.neutral.reply import Reply, Vectors
from providers.formats.openai.embedding import check_embeddings
from providers.formats.openai.request import response_format_of
from providers.formats.openai.responses import DIALECT as RESPONSES
from providers.formats.parts import require_texts
from providers.formats.translated import TranslatedFormat
from providers.formats.usage import Usage, read_count


class Mistral(TranslatedFormat):
    """Messages like OpenAI's, in a stricter order and with shorter call ids. Unknown parameters are refused."""

    name = NAME
    too_long_pattern = re.compile(r"too large for model with \d+ maximum context length", re.IGNORECASE)
    strict = True
    translated_parameters = frozenset({*PARAMETERS, "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset(
        {"random_seed", "safe_prompt", "prompt_mode", "prediction", "metadata", "prompt_cache_key", "guardrails"}
    )
    native_tools = frozenset(
        {"web_search", "web_search_premium", "code_interpreter", "image_generation", "document_library", "connector"}
    )
    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = frozenset({"output_dtype", "metadata"})

    def native_tools_in(self, chat: Chat) -> dict[str, list[JsonObject]]:
        # Tools of the same names in a Responses request are OpenAI's, with other fields.
        return {} if chat.source == RESPONSES else super().native_tools_in(chat)

    def path(self, work: WorkRequest, model: str) -> str:
        return "/embeddings" if work.operation == "embedding" else "/chat/completions"

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        body: JsonObject = {"model": model, "messages": messages_of(chat), "stream": work.stream}
        values = {theirs: getattr(chat, ours) for ours, theirs in PARAMETERS.items()}
        body |= {name: value for name, value in values.items() if value not in (None, [])}
        if chat.tools:
            body["tools"] = [write_tool(tool) for tool in chat.tools]
        if chat.tool_choice is not None:
            body["tool_choice"] = tool_choice_of(chat.tool_choice)
        if chat.output is not None:
            body["response_format"] = response_format_of(chat)
        if chat.thinking is not None and (effort := effort_of(chat.thinking)):
            body["reasoning_effort"] = effort
        return body

    def read_reply(self, value: JsonObject) -> Reply:
        return read_reply(value)

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return MistralReader(work)

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        body: JsonObject = {"model": model, "input": require_texts(embedding)}
        if embedding.dimensions is not None:
            body["output_dimension"] = embedding.dimensions
        if embedding.base64 and not self.translates(work):
            body["encoding_format"] = "base64"
        return body | self.native_embedding_values(embedding)

    def read_vectors(self, value: JsonObject) -> Vectors:
        vectors = [item["embedding"] for item in sorted(check_embeddings(value), key=_place)]
        tokens = read_count(as_dict(value.get("usage")).get("prompt_tokens"))
        return Vectors(vectors, None if tokens is None else Usage(tokens), as_text(value.get("model")))


def _place(item: JsonObject) -> int:
    """The number of the input that an embedding is for."""
    index = item.get("index")
    return index if isinstance(index, int) else 0
