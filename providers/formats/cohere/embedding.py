"""Embeddings in the shape that Cohere's own API and Bedrock share: texts written, vectors read."""

from typing import Any

from gateway_project.errors import ProviderError, ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.neutral.chat import Embedding
from providers.formats.parts import require_texts

MOST_TEXTS = 96
# Cohere requires the purpose of the vectors. The index of a search is the most frequent one.
INPUT_TYPE = "search_document"
FLOATS = ["float"]  # the only type of vector that other shapes have


def write_texts(embedding: Embedding) -> JsonObject:
    """The fields that every model takes. Raises ValidationError for token ids and for too many texts."""
    texts = require_texts(embedding)
    if len(texts) > MOST_TEXTS:
        raise ValidationError(f"input must hold at most {MOST_TEXTS} texts for this provider.")
    return {"texts": texts, "input_type": INPUT_TYPE, "embedding_types": FLOATS}


def read_texts(value: JsonObject) -> list[Any]:
    """The vectors in an answer: numbers or base64. Raises ProviderError if there are none."""
    vectors = value.get("embeddings")
    if isinstance(vectors, dict):  # by type: without floats, the only type that the client asked for
        vectors = vectors.get("float") or next(iter(vectors.values()), None)
    if not isinstance(vectors, list) or not all(isinstance(vector, list | str) for vector in vectors):
        raise ProviderError("The provider answered 200 without embeddings.")
    return vectors
