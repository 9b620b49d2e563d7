"""Cohere's embeddings, in the shape that its own API and Bedrock's share: the texts sent, the vectors read."""

from typing import Any

from gateway_project.errors import ProviderError, ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.neutral import Embedding
from providers.formats.parts import require_texts

MOST_TEXTS = 96
# What texts are embedded for must be said; the index of a search is the most frequent reason.
INPUT_TYPE = "search_document"
FLOATS = ["float"]  # the only type of vector that other shapes have


def written_texts(embedding: Embedding) -> JsonObject:
    """The part of a request that every model takes. Raises ValidationError for token ids and for too many texts."""
    texts = require_texts(embedding)
    if len(texts) > MOST_TEXTS:
        raise ValidationError(f"input must hold at most {MOST_TEXTS} texts for this provider.")
    return {"texts": texts, "input_type": INPUT_TYPE, "embedding_types": FLOATS}


def read_texts(value: JsonObject) -> list[Any]:
    """The vectors in an answer, numbers or base64. Raises ProviderError where there are none."""
    vectors = value.get("embeddings")
    if isinstance(vectors, dict):  # by type; another than this one is there if the client asked for it alone
        vectors = vectors.get("float") or next(iter(vectors.values()), None)
    if not isinstance(vectors, list) or not all(isinstance(vector, list | str) for vector in vectors):
        raise ProviderError("The provider answered 200 without embeddings.")
    return vectors
