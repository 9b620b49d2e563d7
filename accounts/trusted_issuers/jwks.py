"""The public keys in a JSON Web Key Set (RFC 7517): asymmetric ones with an id."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from gateway_project.json_types import JsonObject

MAX_KEYS, MAX_KEY_ID_LENGTH = 100, 500
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192
# The type and curve of the keys of each algorithm; symmetric ones are not among them.
ALGORITHMS = {
    **{f"{family}{bits}": ("RSA", "") for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
PUBLIC_MEMBERS = ("kid", "kty", "use", "alg", "crv", "n", "e", "x", "y")
PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
SHAPE = f"must be a JSON Web Key Set: an object with keys, an array of at most {MAX_KEYS} objects."


class BadKeySet(Exception):
    """The document is no key set; the message says what it must be."""


class PublicKey(NamedTuple):
    """A key as cryptography has it, and the algorithms that it may verify."""

    key: Any
    algorithms: frozenset[str]


class KeySet(NamedTuple):
    """The public members of the keys that can be used, and what is wrong with each other one."""

    keys: tuple[JsonObject, ...]
    problems: tuple[str, ...]

    @property
    def document(self) -> JsonObject:
        """The key set as it is stored."""
        return {"keys": list(self.keys)}


def read_key_set(document: object) -> KeySet:
    """The keys of a document. Keys for encryption are left out. Raises BadKeySet."""
    rows = [row for row in _rows(document) if row.get("use", "sig") == "sig"]
    public = [{name: row[name] for name in PUBLIC_MEMBERS if name in row} for row in rows]
    distinct = [row for number, row in enumerate(public) if row not in public[:number]]
    uses = Counter(str(row.get("kid")) for row in distinct)
    judged = [(row, _problem(row, uses[str(row.get("kid"))])) for row in distinct]
    keys = tuple(row for row, problem in judged if not problem)
    return KeySet(keys, tuple(f"The key {row.get('kid')!r:.60} {problem}" for row, problem in judged if problem))


def has_private_members(document: object) -> bool:
    """Whether a key set contains what only the issuer should know."""
    return any(PRIVATE_MEMBERS.intersection(row) for row in _rows(document))


def public_keys(keys: Iterable[JsonObject], algorithms: Collection[str]) -> dict[str, PublicKey]:
    """The keys of a stored set by their ids, with those of the algorithms that each may verify."""
    usable = ((row["kid"], _load(row), _algorithms_of(row) & frozenset(algorithms)) for row in keys)
    return {key_id: PublicKey(key, allowed) for key_id, key, allowed in usable if allowed}


def _rows(document: object) -> list[JsonObject]:
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list) or len(rows) > MAX_KEYS or not all(isinstance(row, dict) for row in rows):
        raise BadKeySet(SHAPE)
    return rows


def _problem(row: JsonObject, uses: int) -> str:
    """Why a key cannot be used; '' if it can."""
    if not all(isinstance(value, str) and value.isprintable() for value in row.values()):
        return "cannot be read."
    if not 0 < len(row.get("kid", "")) <= MAX_KEY_ID_LENGTH:
        return "has no kid."
    if uses > 1:
        return "has the same kid as another key."
    if row.get("kty") == "oct":
        return "is symmetric: whoever can verify its signatures can also make them."
    if not _algorithms_of(row):
        return f"fits none of the algorithms {', '.join(ALGORITHMS)}."
    return _size_problem(row)


def _size_problem(row: JsonObject) -> str:
    try:
        bits = getattr(_load(row), "key_size", 0)
    except Exception:  # what libraries raise for numbers that are no key is not documented
        return "cannot be read."
    if row["kty"] == "RSA" and not MIN_RSA_BITS <= bits <= MAX_RSA_BITS:
        return f"has {bits} bits; {MIN_RSA_BITS} to {MAX_RSA_BITS} are accepted."
    return ""


def _algorithms_of(row: JsonObject) -> frozenset[str]:
    """The algorithms of its type and curve, or the one that it names."""
    kind = row.get("kty"), row.get("crv", "")
    names = frozenset(name for name, needed in ALGORITHMS.items() if needed == kind)
    return names & {row["alg"]} if "alg" in row else names


def _load(row: JsonObject) -> Any:
    # Imported with the first issuer: it takes 3 MB in each worker.
    from jwt import PyJWK

    return PyJWK(row, algorithm=min(_algorithms_of(row))).key
