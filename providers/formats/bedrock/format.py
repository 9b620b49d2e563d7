"""AWS Bedrock: Converse, ConverseStream, and InvokeModel for embeddings.

https://docs.aws.amazon.com/bedrock/latest/APIReference/ (checked with botocore's bedrock-runtime, November 2026).
"""

import re
from collections.abc import Mapping, Set
from dataclasses import replace

from gateway_project.errors import GatewayError, ProviderRejected, ProviderTimeout
from gateway_project.json_types import JsonObject
from providers.formats.anthropic.models import claude
from providers.formats.anthropic.request import lost_stops
from providers.formats.anthropic.thinking import can_think, conflicting_sampling, thinking_of, unsupported_parameters
from providers.formats.base import ClientResponse, Options, StreamReader, failure_with_words, read_object
from providers.formats.bedrock import embedding as bedrock_embedding
from providers.formats.bedrock.embedding import family_of, reported_usage
from providers.formats.bedrock.event_stream import MEDIA_TYPE
from providers.formats.bedrock.reply import read_reply
from providers.formats.bedrock.request import (
    INFERENCE,
    NAME,
    additional_fields,
    cannot_refuse_tools,
    inference_config,
    is_claude,
    output_config,
    system_of,
    tool_config,
    turns_of,
    without_signed_thoughts,
)
from providers.formats.bedrock.stream import BedrockReader
from providers.formats.dialect import WorkRequest
from providers.formats.neutral.chat import Chat, Embedding
from providers.formats.neutral.reply import Reply, Vectors
from providers.formats.parts import path_segment
from providers.formats.translated import TranslatedFormat

MODEL_TIMEOUT, MODEL_ERROR = 408, 424
QUOTA = "ServiceQuotaExceededException"


class Bedrock(TranslatedFormat):
    """`Converse`; the model's name is part of the path, and streams are binary frames."""

    name = NAME
    too_long_pattern = re.compile(
        r"input is too long|prompt is too long|too many input tokens|maximum context length", re.IGNORECASE
    )
    translated_parameters = frozenset({*INFERENCE, "top_k", "tools", "tool_choice", "output", "thinking"})
    native_parameters = frozenset(
        {
            "additionalModelRequestFields",
            "additionalModelResponseFieldPaths",
            "guardrailConfig",
            "inferenceConfig",
            "outputConfig",
            "performanceConfig",
            "promptVariables",
            "requestMetadata",
            "serviceTier",
        }
    )

    translated_embedding_parameters = frozenset({"dimensions"})
    native_embedding_parameters = bedrock_embedding.NATIVE

    def path(self, work: WorkRequest, model: str) -> str:
        chat = "converse-stream" if work.stream else "converse"
        return f"/model/{path_segment(model)}/{'invoke' if work.operation == 'embedding' else chat}"

    def is_stream(self, content_type: str) -> bool:
        return content_type.partition(";")[0].strip().lower() == MEDIA_TYPE

    def unknown_parameters(self, chat: Chat, model: str) -> set[str]:
        return super().unknown_parameters(chat, model) | unsupported_parameters(chat, model)

    def inapplicable_parameters(self, chat: Chat, model: str) -> set[str]:
        names = set() if can_think(chat, model, NAME) else {"reasoning_effort"}
        names |= {"tool_choice"} if cannot_refuse_tools(chat) else set()
        names |= lost_stops(chat) if is_claude(model) else set()
        return names | conflicting_sampling(chat, model, NAME)

    def chat_body(self, work: WorkRequest, chat: Chat, model: str, options: Options) -> JsonObject:
        system, messages = system_of(chat)
        if not is_claude(model):
            messages = without_signed_thoughts(messages)
        # Without a maximum, AWS reserves the model's own maximum from the account's quota.
        most = chat.max_tokens if chat.max_tokens is not None else options.max_output_tokens
        thinking, effort = thinking_of(chat, model, most or claude(model).max_output or 0, NAME)
        fields = {
            "system": system,
            "messages": turns_of(messages),
            "inferenceConfig": inference_config(chat, model, most),
            "toolConfig": tool_config(chat),
            "outputConfig": output_config(chat, effort),
            "additionalModelRequestFields": additional_fields(chat, model, thinking),
        }
        return {name: value for name, value in fields.items() if value}

    def read_reply(self, value: JsonObject) -> Reply:
        return read_reply(value)

    def embedding_parameters(self, model: str) -> tuple[Set[str], Set[str]]:
        family = family_of(model)
        return self.translated_embedding_parameters if family.dimensions else frozenset(), family.native_parameters

    def embedding_body(self, work: WorkRequest, embedding: Embedding, model: str) -> JsonObject:
        return family_of(model).body(embedding, floats=self.translates(work))

    def read_vectors(self, value: JsonObject) -> Vectors:
        return bedrock_embedding.read_vectors(value)

    def answer_from_response(self, work: WorkRequest, headers: Mapping[str, str], body: bytes) -> ClientResponse:
        usage = reported_usage(headers) if work.operation == "embedding" else None
        if usage is None:
            return super().answer_from_response(work, headers, body)
        return self.build_embedding_answer(work, body, replace(self.read_vectors(read_object(body)), usage=usage))

    def native_reader(self, work: WorkRequest) -> StreamReader:
        return BedrockReader(work)

    def refusal_from_response(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        if headers.get("x-amzn-errortype", "").partition(":")[0] == QUOTA:
            return self.refusal(ProviderRejected.PAYMENT_REQUIRED, body)  # AWS sends 400
        return super().refusal_from_response(status, headers, body)

    def refusal(self, status: int, body: bytes, retry_after: float | None = None) -> GatewayError:
        if status == MODEL_TIMEOUT:
            return ProviderTimeout("The provider's model did not answer in time.")
        if status == MODEL_ERROR:
            return failure_with_words("The provider's model failed.", self.error_text(body))
        return super().refusal(status, body, retry_after)
