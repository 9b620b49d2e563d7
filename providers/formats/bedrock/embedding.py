"""Embeddings by Bedrock's InvokeModel (AWS's user guide, November 2026).

Each family of models has its own body. Titan takes one text per request, Cohere up to 96. A part of the model's name,
of the id of an inference profile or of an ARN says which family it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway_project.errors import ProviderError, ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.cohere.embedding import FLOATS, read_texts, write_texts
from providers.formats.json_values import as_dict
from providers.formats.neutral.chat import Embedding
from providers.formats.neutral.reply import Vectors
from providers.formats.parts import require_texts
from providers.formats.usage import Usage, read_count

# Every answer of InvokeModel has it. Cohere's bodies have no token counts.
INPUT_TOKENS = "x-amzn-bedrock-input-token-count"


@dataclass(frozen=True, slots=True)
class Family:
    """How requests to one family of models look. `dimensions` writes their number, if the client can choose it."""

    texts: Callable[[Embedding], JsonObject]
    dimensions: Callable[[int], JsonObject] | None = None
    native_parameters: frozenset[str] = frozenset()
    types: str = ""  # the parameter that selects the type of the vectors

    def body(self, embedding: Embedding, *, floats: bool) -> JsonObject:
        """The request's body; `floats`: the client's shape has only float vectors. Raises ValidationError."""
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
COHERE_3 = Family(write_texts, None, frozenset({"input_type", "truncate", "embedding_types"}), types="embedding_types")
COHERE_4 = Family(
    write_texts,
    lambda number: {"output_dimension": number},
    COHERE_3.native_parameters | {"max_tokens", "output_dimension"},
    "embedding_types",
)
# The first key that is part of the model's name counts.
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
    """The family of a model. Raises ValidationError if its name contains none."""
    for part, family in FAMILIES.items():
        if part in model:
            return family
    raise ValidationError(
        "model: must be one of Amazon Titan's or Cohere's embedding models; others are not supported."
    )


def read_vectors(value: JsonObject) -> Vectors:
    """The vectors in an answer of either family. Raises ProviderError if there are none."""
    if "embeddings" in value:
        return Vectors(read_texts(value))
    by_type = as_dict(value.get("embeddingsByType"))
    vector = value.get("embedding") or by_type.get("float") or next(iter(by_type.values()), None)
    if not isinstance(vector, list):
        raise ProviderError("The provider answered 200 without an embedding.")
    tokens = read_count(value.get("inputTextTokenCount"))
    return Vectors([vector], None if tokens is None else Usage(tokens))


def reported_usage(headers: Mapping[str, str]) -> Usage | None:
    """The tokens in the headers of an answer; None if there are none."""
    header = headers.get(INPUT_TOKENS, "")
    tokens = read_count(int(header)) if header.isascii() and header.isdigit() and len(header) < 20 else None
    return None if tokens is None else Usage(tokens)
