"""OpenAI's embeddings as clients write them (openai-openapi, August 2026)."""

from gateway_project.json_types import JsonObject
from gateway_project.work.doors import fields
from gateway_project.work.doors.fields import invalid_field, optional
from providers.formats.dialect import Dialect, WorkRequest
from providers.formats.json_values import dump_value
from providers.formats.neutral.chat import Embedding
from providers.formats.neutral.reply import Vectors
from providers.formats.openai.embedding import pack_vector

READ = frozenset({"model", "input", "dimensions", "encoding_format", "user"})


class OpenAIEmbedding(Dialect):
    """`POST /embeddings`, and what /work reads as an embedding."""

    name = "openai-embedding"

    def read_embedding(self, body: JsonObject) -> Embedding:
        return Embedding(
            _inputs(body.get("input")),
            optional(body, "dimensions", fields.positive, ""),
            optional(body, "encoding_format", fields.one_of("float", "base64"), "") == "base64",
            optional(body, "user", fields.text, "", ""),
            fields.unknown_parameters(body, READ),
        )

    def write_vectors(self, work: WorkRequest, vectors: Vectors) -> bytes:
        encoded = pack_vector if work.embedding.base64 else list
        data = [
            {"object": "embedding", "index": index, "embedding": encoded(vector)}
            for index, vector in enumerate(vectors.vectors)
        ]
        tokens = vectors.usage.all_input if vectors.usage is not None else 0
        body = {
            "object": "list",
            "data": data,
            "model": vectors.model or work.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        return dump_value(body)


def _inputs(value: object) -> list[str] | list[list[int]]:
    """The inputs as a list of texts, or of lists of token ids."""
    if type(value) is str:
        return [value]
    if type(value) is list and value:
        if all(type(item) is str for item in value):
            return value
        if all(type(item) is int for item in value):
            return [value]
        if all(type(item) is list and item and all(type(token) is int for token in item) for item in value):
            return value
    raise invalid_field("input", "a string, a list of strings, or token ids (a list of them, or a list of lists)")
