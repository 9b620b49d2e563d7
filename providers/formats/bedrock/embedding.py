"""Embeddings of Bedrock's InvokeModel, whose body is each family of models' own (AWS's user guide, November 2026).

Titan's models take one text a request and Cohere's up to 96; which family a model is of shows in its name, wherever
in an inference profile's id or an ARN it stands.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway_project.errors import ProviderError, ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.cohere.embedding import FLOATS, read_texts, written_texts
from providers.formats.json_values import as_dict
from providers.formats.neutral import Embedding, Vectors
from providers.formats.parts import require_texts
from providers.formats.usage import Usage, count

# Cohere's answers say nothing of tokens, the header of every answer of InvokeModel does.
INPUT_TOKENS = "x-amzn-bedrock-input-token-count"


@dataclass(frozen=True, slots=True)
class Family:
    """How one family of models is asked; `dimensions` writes their number, where it can be chosen."""

    texts: Callable[[Embedding], JsonObject]
    dimensions: Callable[[int], JsonObject] | None = None
    native_parameters: frozenset[str] = frozenset()
    types: str = ""  # the parameter that chooses other vectors than floats

    def body(self, embedding: Embedding, *, floats: bool) -> JsonObject:
        """The request's body; `floats`: the client's shape has no other vectors. Raises ValidationError."""
        body = self.texts(embedding)
        if embedding.dimensions is not None and self.dimensions is not None:
            body |= self.dimensions(embedding.dimensions)
        body |= {name: value for name, value in embedding.extra.items() if name in self.native_parameters}
        return body | {self.types: FLOATS} if floats and self.types in body else body


def _one_text(embedding: Embedding) -> JsonObject:
    texts = require_texts(embedding)
    if len(texts) != 1:
        raise ValidationError("input must contain exactly one text: this model embeds one text per request.")
    return {"inputText": texts[0]}


TITAN_1 = Family(_one_text)
TITAN_2 = Family(
    _one_text,
    lambda number: {"dimensions": number},
    frozenset({"normalize", "embeddingTypes"}),
    "embeddingTypes",
)
TITAN_IMAGES = Family(
    _one_text, lambda number: {"embeddingConfig": {"outputEmbeddingLength": number}}, frozenset({"embeddingConfig"})
)
COHERE_3 = Family(
    written_texts, None, frozenset({"input_type", "truncate", "embedding_types"}), types="embedding_types"
)
COHERE_4 = Family(
    written_texts,
    lambda number: {"output_dimension": number},
    COHERE_3.native_parameters | {"max_tokens", "output_dimension"},
    "embedding_types",
)
# The first that is part of a model's name counts.
FAMILIES = {
    "titan-embed-text-v2": TITAN_2,
    "titan-embed-image": TITAN_IMAGES,
    "titan-embed": TITAN_1,
    "cohere.embed-english-v3": COHERE_3,
    "cohere.embed-multilingual-v3": COHERE_3,
    "cohere.embed": COHERE_4,
}
NATIVE = frozenset[str]().union(*(family.native_parameters for family in FAMILIES.values()))


def family_of(model: str) -> Family:
    """The family that a model is of. Raises ValidationError where its name does not tell."""
    for part, family in FAMILIES.items():
        if part in model:
            return family
    raise ValidationError("model: of Bedrock's models, those of Amazon Titan and Cohere named so have embeddings here.")


def read_vectors(value: JsonObject) -> Vectors:
    """The vectors in an answer of either family. Raises ProviderError where there are none."""
    if "embeddings" in value:
        return Vectors(read_texts(value))
    by_type = as_dict(value.get("embeddingsByType"))
    vector = value.get("embedding") or by_type.get("float") or next(iter(by_type.values()), None)
    if not isinstance(vector, list):
        raise ProviderError("The provider answered 200 without an embedding.")
    tokens = count(value.get("inputTextTokenCount"))
    return Vectors([vector], None if tokens is None else Usage(tokens))


def reported_usage(headers: Mapping[str, str]) -> Usage | None:
    """The tokens that the headers of an answer tell, None where they do not."""
    header = headers.get(INPUT_TOKENS, "")
    tokens = count(int(header)) if header.isascii() and header.isdigit() and len(header) < 20 else None
    return None if tokens is None else Usage(tokens)
