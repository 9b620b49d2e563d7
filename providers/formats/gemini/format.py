"""Google Gemini (Developer API v1beta, https://ai.google.dev/api; checked with python-genai, August 2026)."""

import re

from gateway_project.errors import GatewayError, ProviderError, ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.base import DEFAULT_OPTIONS, ClientResponse, Options, OutgoingRequest, StreamReader, read_object
from providers.formats.dialect import COUNT_TOKENS, WorkRequest
from providers.formats.gemini.reply import read_reply, usage_of
from providers.formats.gemini.request import CONFIG, NAME, model_path, write_chat
from providers.formats.gemini.stream import GeminiReader
from providers.formats.json_values import as_dict, as_list, dump_value, read_json
from providers.formats.neutral.chat import Chat, Embedding
from providers.formats.neutral.reply import Reply, Vectors
from providers.formats.parts import require_texts
from providers.formats.translated import TranslatedFormat
from providers.formats.usage import read_count
from providers.transport.retry_after import retry_after as seconds_of

ACTIONS = {"embedding": "batchEmbedContents", COUNT_TOKENS: "countTokens"}


class Gemini(TranslatedFormat):
    """`generateContent` and `batchEmbedContents`; the model's name is part of the path."""

    name = NAME
    too_long_pattern = re.compile(r"input token count \S* ?exceeds the maximum", re.IGNORECASE)
    strict = True
    counts_tokens = True
    translated_parameters = frozenset({*CONFIG, "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset({"generationConfig", "safetySettings", "toolConfig", "cachedContent", "serviceTier"})
    native_tools = frozenset({"googleSearch", "googleMaps", "urlContext", "codeExecution", "fileSearch", "computerUse"})
    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = frozenset({"taskType", "title"})

    def path(self, work: WorkRequest, model: str) -> str:
        action = ACTIONS.get(work.operation) or ("streamGenerateContent?alt=sse" if work.stream else "generateContent")
        return f"/{model_path(model)}:{action}"

    def request(self, work: WorkRequest, model: str, options: Options = DEFAULT_OPTIONS) -> OutgoingRequest:
        if work.operation != COUNT_TOKENS:
            return super().request(work, model, options)
        content = {"model": model_path(model, quoted=False)} | self.chat_body(work, work.chat, model, options)
        return OutgoingRequest(self.path(work, model), dump_value({"generateContentRequest": content}))

    def answer(self, work: WorkRequest, body: bytes) -> ClientResponse:
        if work.operation != COUNT_TOKENS:
            return super().answer(work, body)
        total = read_count(read_object(body).get("totalTokens"))
        if total is None:
            raise ProviderError("The provider answered 200 without a number of tokens.")
        return ClientResponse(dump_value({"input_tokens": total}))

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        if self.translates(work) and as_dict(chat.extra.get("generationConfig")).get("candidateCount") not in (None, 1):
            raise ValidationError(
                "generationConfig: this API returns one candidate. Use /work to get several.",
                field="generationConfig",
            )
        return write_chat(chat, model)

    def read_reply(self, value: JsonObject) -> Reply:
        return read_reply(value)

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return GeminiReader(work)

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        about: JsonObject = {"model": model_path(model, quoted=False)}
        if embedding.dimensions is not None:
            about["outputDimensionality"] = embedding.dimensions
        about |= self.native_embedding_values(embedding)
        return {"requests": [about | {"content": {"parts": [{"text": text}]}} for text in require_texts(embedding)]}

    def read_vectors(self, value: JsonObject) -> Vectors:
        items = as_list(value.get("embeddings"))
        vectors = [vector for item in items if isinstance(vector := as_dict(item).get("values"), list)]
        if not vectors or len(vectors) != len(items):
            raise ProviderError("The provider answered 200 without embeddings.")
        return Vectors(vectors, usage_of(value.get("usageMetadata")))

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        details = _details(body)
        if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
            status = 401  # Google sends 400
        delays = [detail["retryDelay"] for detail in details if isinstance(detail.get("retryDelay"), str)]
        if retry_after is None and delays:
            retry_after = seconds_of({"retry-after": delays[0]})
        return super().refusal(status, body, retry_after)


def _details(body: bytes) -> list[JsonObject]:
    """The details of a refusal, whose body is sometimes wrapped in a list."""
    value = read_json(body)
    error = as_dict(as_dict(value[0] if isinstance(value, list) and value else value).get("error"))
    return [detail for detail in as_list(error.get("details")) if isinstance(detail, dict)]
