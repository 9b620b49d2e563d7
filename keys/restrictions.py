"""What narrows an API key: models, networks, a beginning, tags and tokens. No ORM, no HTTP, no clock."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from gateway_project.errors import ValidationError
from gateway_project.name_patterns import Pattern, compile_pattern

MAX_PATTERNS = MAX_NETWORKS = 100
MAX_PATTERN_LENGTH = 1000
MAX_NETWORK_LENGTH = 64
MAX_TAGS, MAX_TAG_NAME_LENGTH, MAX_TAG_LENGTH = 20, 64, 256
MAX_TOKENS = 1_000_000_000
TAG_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_TAG_NAME_LENGTH}}}\Z")
TAG_VALUE = re.compile(rf"[^\x00-\x1f\x7f,\ud800-\udfff]{{0,{MAX_TAG_LENGTH}}}\Z")
MAPPED_BITS = 96  # of the prefix of IPv4 addresses in IPv6, ::ffff:0:0

WRONG_NETWORK = "This key may not be used from the address {address}."
WRONG_MODEL = "This key may not use the model {model}: its list of models does not name it."

Network: TypeAlias = IPv4Network | IPv6Network


class ContentLogging(StrEnum):
    """What the log keeps of prompts and answers, at most: as the gateway's setting says, sizes and hashes, nothing."""

    DEFAULT = "default"
    REDACTED = "redacted"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class KeyRestrictions:
    """What a request with the key is judged by; a key without any has none of these objects."""

    models: tuple[Pattern, ...] = ()
    networks: tuple[Network, ...] = ()
    not_before: float = 0.0  # in seconds since 1970
    tags: dict[str, str] = field(default_factory=dict)
    max_tokens: int | None = None
    content_logging: ContentLogging = ContentLogging.DEFAULT

    def allow_model(self, name: str) -> bool:
        """Whether one of the patterns matches the whole name; without patterns every name is allowed."""
        return not self.models or any(pattern.fullmatch(name) for pattern in self.models)

    def allow_address(self, address: str) -> bool:
        """Whether one of the networks has the client's address; without networks every address is allowed."""
        return not self.networks or is_inside(address, self.networks)


def is_inside(text: str, networks: Iterable[Network]) -> bool:
    """Whether one of the networks has this address; False for a text that is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)


def restrictions_of(
    models: object,
    networks: object,
    not_before: float,
    tags: object,
    max_tokens: int | None,
    content_logging: str,
) -> KeyRestrictions | None:
    """The restrictions in a stored row, None if there are none. Raises ValidationError for malformed values."""
    kind = ContentLogging(content_logging) if content_logging in set(ContentLogging) else None
    if kind is None:
        raise ValidationError("is not known.", field="content_logging")
    if not (models or networks or not_before or tags or max_tokens) and kind is ContentLogging.DEFAULT:
        return None
    return KeyRestrictions(
        tuple(map(_pattern, read_models(models))),
        tuple(map(_network, read_networks(networks))),
        not_before,
        read_tags(tags),
        max_tokens,
        kind,
    )


# Many keys have the same few.
_pattern = lru_cache(maxsize=4096)(compile_pattern)
_network = lru_cache(maxsize=4096)(ip_network)


def read_models(value: object, path: str = "") -> list[str]:
    """Patterns of model names; raises ValidationError naming the place of the one that is wrong."""
    patterns = _texts(value, path, most=MAX_PATTERNS, longest=MAX_PATTERN_LENGTH, noun="patterns")
    for number, text in enumerate(patterns):
        compile_pattern(text, field=f"{path}[{number}]")
    return patterns


def read_networks(value: object, path: str = "") -> list[str]:
    """Networks in CIDR notation, in their canonical form; an address alone is a network of one.

    Those of IPv4-mapped addresses become those of IPv4, as the addresses of clients do.
    """
    texts = _texts(value, path, most=MAX_NETWORKS, longest=MAX_NETWORK_LENGTH, noun="networks")
    return list(dict.fromkeys(_canonical(text.strip(), f"{path}[{number}]") for number, text in enumerate(texts)))


def _canonical(text: str, path: str) -> str:
    try:
        network = ip_network(text)
    except ValueError:
        raise ValidationError(_network_problem(text), field=path) from None
    first = network.network_address
    if isinstance(first, IPv6Address):
        if first.scope_id is not None:
            raise ValidationError("must be a network without a zone (%).", field=path)
        if first.ipv4_mapped is not None and network.prefixlen >= MAPPED_BITS:
            return f"{first.ipv4_mapped}/{network.prefixlen - MAPPED_BITS}"
    return str(network)


def _network_problem(text: str) -> str:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return "must be a network such as 192.0.2.0/24 or 2001:db8::/32."
    return f"has bits set after its prefix: write {network}."


def read_tags(value: object, path: str = "") -> dict[str, str]:
    """Tags: an object of texts, as X-Svc-Tags has them; raises ValidationError."""
    if not isinstance(value, dict):
        raise ValidationError('must be an object such as {"team": "search"}.', field=path)
    if len(value) > MAX_TAGS:
        raise ValidationError(f"must have at most {MAX_TAGS} members.", field=path)
    for name, text in value.items():
        if not TAG_NAME.match(name):
            raise ValidationError("must have names of 1 to 64 of A-Z a-z 0-9 . _ -.", field=path)
        if not isinstance(text, str) or not TAG_VALUE.match(text):
            problem = f"must be a text of at most {MAX_TAG_LENGTH} characters without commas and control characters."
            raise ValidationError(f"{name} {problem}", field=path)
    return dict(value)


def _texts(value: object, path: str, *, most: int, longest: int, noun: str) -> list[str]:
    """An array of so many texts of this length; raises ValidationError."""
    if not isinstance(value, list):
        raise ValidationError(f"must be an array of {noun}.", field=path)
    if len(value) > most:
        raise ValidationError(f"must have at most {most} {noun}.", field=path)
    for number, text in enumerate(value):
        if not isinstance(text, str) or not text.strip() or len(text) > longest or "\0" in text:
            raise ValidationError(f"must be a text of 1 to {longest} characters.", field=f"{path}[{number}]")
    return value
