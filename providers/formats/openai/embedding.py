"""OpenAI's embeddings: vectors as numbers or as base64 of little-endian float32, as the client wants them."""

import base64
import struct

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import dump_value


def check_embeddings(value: JsonObject) -> list[JsonObject]:
    """The items of an answer that holds vectors. Raises ProviderError if there are no vectors."""
    data = value.get("data")
    if not isinstance(data, list) or not data:
        raise ProviderError("The provider answered 200 without embeddings.")
    if not all(isinstance(item, dict) and isinstance(item.get("embedding"), list | str) for item in data):
        raise ProviderError("The provider answered 200 with an invalid embedding.")
    return data


def in_encoding(value: JsonObject, data: list[JsonObject], body: bytes, encoding: object) -> bytes:
    """The answer's body with its vectors in the wanted encoding; the same bytes if nothing changes."""
    kind, change = (str, pack_vector) if encoding == "base64" else (list, unpack_vector)
    if all(isinstance(item["embedding"], kind) for item in data):
        return body
    changed = [
        item if isinstance(item["embedding"], kind) else {**item, "embedding": change(item["embedding"])}
        for item in data
    ]
    return dump_value({**value, "data": changed})


def pack_vector(vector: list[float]) -> str:
    """A vector as base64 of little-endian float32. Raises ProviderError if a member is not such a number."""
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    except (struct.error, OverflowError) as error:
        raise ProviderError("The provider answered 200 with a vector that does not consist of numbers.") from error


def unpack_vector(text: str) -> list[float]:
    """The vector in such a text. Raises ProviderError if the text is invalid."""
    try:
        content = base64.b64decode(text, validate=True)
        return list(struct.unpack(f"<{len(content) // 4}f", content))
    except (ValueError, struct.error) as error:  # of base64, and of text that is not ASCII
        raise ProviderError("The provider answered 200 with an invalid embedding.") from error
