"""The in-memory copy of what every request needs: keys, callers, rules, providers, limits and licence.

Requests read `Snapshot` and not the database; `Follower` (follower.py) keeps it at most a second old.
"""

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from urllib.parse import quote

from accounts.trusted_issuers.book import IssuerBook
from gateway_project.work.guardrails.book import GuardrailBook
from gateway_project.work.limits.book import LimitBook, LimitRow
from gateway_project.work.routing import aliases
from gateway_project.work.routing.aliases import AliasBook, AliasRow
from keys.restrictions import KeyRestrictions
from licensing import terms
from licensing.terms import Terms
from providers import catalogue
from providers.catalogue import Catalogue
from providers.formats import DEFAULT_OPTIONS, Format, Options
from providers.pricing.facts import ModelFacts
from providers.pricing.prices import Price, PriceBook
from providers.transport import auth
from providers.transport.sigv4 import Signer
from providers.transport.transport import TransportLimits
from rules.matching import RuleBook, RuleSnapshot

MIN_SECRET_LENGTH = 12  # shorter credentials can occur in a body by chance, such as the dummies for local providers
MASK = "…".encode()


@dataclass(frozen=True, slots=True)
class KeySnapshot:
    """An API key that is not deleted, with one of its secrets; `expires` in seconds since 1970, infinite for never."""

    id: int
    name: str
    digest: bytes
    owner_id: int
    provider_id: int | None
    expires: float
    locked: bool
    permissions: frozenset[str]
    restrictions: KeyRestrictions | None = None

    def allows_model(self, name: str) -> bool:
        """Whether its own list of models names this one, or it has none."""
        return self.restrictions is None or self.restrictions.allow_model(name)


@dataclass(frozen=True, slots=True)
class Caller:
    """A user as requests see them."""

    id: int
    name: str
    usable: bool
    features: frozenset[str]
    group_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProviderSnapshot:
    """An enabled provider with one of its credentials in the clear; never printed.

    Of a provider with several there is one for each: they are each other's siblings.
    """

    id: int
    name: str
    url: str
    auth_method: str
    credential: str = field(repr=False)
    format: Format | None
    format_name: str
    priority: int
    weight: int
    transport_limits: TransportLimits
    total_seconds: float
    cache_scope: str
    cache_seconds: int
    models: frozenset[str]
    host: str = ""  # of its URL, in lower case
    options: Options = DEFAULT_OPTIONS
    max_output_tokens: dict[str, int] = field(default_factory=dict)  # by model, where an administrator set it
    upstream_names: dict[str, str] = field(default_factory=dict)  # by model, where the provider is asked for another
    facts: dict[str, ModelFacts] = field(default_factory=dict)  # by model
    health_check_seconds: int = 0  # 0: never
    health_check_always: bool = False
    credential_id: int = 0  # 0: the provider's own
    credential_weight: int = 1
    header_name: str = ""  # the name as it is written in headers
    auth_headers: dict[str, str] = field(repr=False, default_factory=dict)
    signer: Signer | None = field(repr=False, default=None)  # instead of auth_headers, where each request is signed
    # All that have one of its credentials, this one too; empty if there is one credential.
    siblings: tuple["ProviderSnapshot", ...] = field(repr=False, compare=False, default=())
    _secrets: tuple[str, ...] = field(repr=False, init=False, compare=False, default=())  # the longest first
    # Those of at least MIN_SECRET_LENGTH, in each spelling.
    _in_bodies: tuple[bytes, ...] = field(repr=False, init=False, compare=False, default=())
    longest_secret_bytes: int = field(repr=False, init=False, compare=False, default=0)  # of these

    def __post_init__(self) -> None:
        secrets_sent = {value.removeprefix("Bearer ").removeprefix("Basic ") for value in self.auth_headers.values()}
        secrets_sent |= auth.secrets(self.auth_method, self.credential) | {
            self.credential,
            quote(self.credential, safe=""),
        }
        self._mask(secrets_sent - {""})

    def _mask(self, secrets_sent: Iterable[str]) -> None:
        secrets = sorted(secrets_sent, key=len, reverse=True)
        in_bodies = _in_bodies(secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH)
        object.__setattr__(self, "_secrets", tuple(secrets))
        object.__setattr__(self, "_in_bodies", in_bodies)
        object.__setattr__(self, "longest_secret_bytes", max(map(len, in_bodies), default=0))

    def join(self, siblings: "tuple[ProviderSnapshot, ...]") -> None:
        """Know those with the provider's other credentials, and mask these too."""
        object.__setattr__(self, "siblings", siblings)
        self._mask({secret for sibling in siblings for secret in sibling._secrets})

    @property
    def account(self) -> tuple[int, int]:
        """Provider and credential: whom the provider sees, and what rests or fails by itself."""
        return self.id, self.credential_id

    @property
    def accounts(self) -> "tuple[ProviderSnapshot, ...]":
        """The provider with each of its credentials."""
        return self.siblings or (self,)

    def upstream_name(self, model: str) -> str:
        """What the provider is asked for, by our name of the model."""
        return self.upstream_names.get(model, model)

    def matches_name(self, name: str) -> bool:
        """Whether this is the provider's name, as it is or as response headers write it."""
        return name in (self.name, self.header_name)

    def redact(self, text: str) -> str:
        """The text with the credential masked, in every form in which it is sent."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text

    def redact_body(self, body: bytes, max_bytes: int) -> bytes:
        """The first bytes of a body with the credential masked; shorter words, such as "ollama", are not masked."""
        body = body[: max_bytes + self.longest_secret_bytes]  # a secret may straddle the cut
        for secret in self._in_bodies:
            body = body.replace(secret, MASK)
        return body[:max_bytes]

    def leaks_credential(self, body: bytes) -> bool:
        """Whether the provider's answer contains the credential."""
        return any(map(body.__contains__, self._in_bodies))

    def authentication(self, address: str, body: bytes, at: float) -> dict[str, str]:
        """The headers that authenticate a request sent at this time (seconds since 1970)."""
        return self.signer.headers(address, body, at) if self.signer else self.auth_headers

    def options_for(self, model: str) -> Options:
        """The translation options of the provider and of this model."""
        max_tokens = self.max_output_tokens.get(model)
        return self.options if max_tokens is None else replace(self.options, max_output_tokens=max_tokens)

    def address(self, path: str) -> str:
        """The full URL of a path of its format, with the credential if the auth method puts it there."""
        assert self.format is not None, "a provider without a format is no candidate"
        return auth.url(self.auth_method, self.credential, self.format.url(self.url, path))


Target: TypeAlias = catalogue.Target[ProviderSnapshot]
AliasSnapshot: TypeAlias = aliases.AliasSnapshot[ProviderSnapshot]
Tiers: TypeAlias = aliases.Tiers[ProviderSnapshot]


def target_key(target: Target) -> tuple[tuple[int, int], str]:
    """What tells a target from the others of a request: its account and its model."""
    return target.provider.account, target.model


def as_siblings(accounts: Sequence[ProviderSnapshot]) -> ProviderSnapshot | None:
    """The first of one provider's accounts, once each knows all; None if there is none."""
    if len(accounts) > 1:
        siblings = tuple(accounts)
        for account in siblings:
            account.join(siblings)
    return accounts[0] if accounts else None


def _in_bodies(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """The spellings of these secrets in a body: unchanged, and as JSON strings."""
    forms = (form for secret in secrets for form in (secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/")))
    return tuple(form.encode() for form in dict.fromkeys(forms))


class Snapshot(Catalogue[ProviderSnapshot]):
    """The current rows. Only the follower changes it, each entry by one assignment."""

    def __init__(self) -> None:
        self.aliases, self.alias_rows = AliasBook[ProviderSnapshot](), tuple[AliasRow, ...]()
        super().__init__()
        self.loaded = False
        self.keys: dict[str, KeySnapshot] = {}
        self.public_ids: dict[int, tuple[str, ...]] = {}  # by key id; a rotated key has two for a while
        self.keys_complete = True
        self.callers: dict[int, Caller] = {}
        self.issuers: IssuerBook | None = None  # None: there are none, and tokens are those of logins
        self.rules = RuleBook()
        self.rule_rows: dict[int, RuleSnapshot] = {}
        self.prices = PriceBook()
        self.terms: Terms = terms.refused_terms("It is not loaded yet.", 0, 0)
        self.limits = LimitBook()
        self.limit_rows: dict[int, LimitRow] = {}  # by id
        self.credential_limits: tuple[LimitRow, ...] = ()
        self.next_grant_end = math.inf  # when a grant of an access request ends, in seconds since 1970
        self.guardrails: GuardrailBook | None = None  # None: there are none, and requests are not searched

    def provider(self, provider_id: int) -> ProviderSnapshot | None:
        """An enabled provider."""
        return self.providers.get(provider_id)

    def key(self, key_id: int) -> KeySnapshot | None:
        """A key in memory: with its present secret, or else with its latest former one."""
        public_ids = self.public_ids.get(key_id, ())
        return next((key for one in reversed(public_ids) if (key := self.keys.get(one)) is not None), None)

    def put_key(self, public_id: str, key: KeySnapshot) -> None:
        self.keys[public_id] = key
        public_ids = self.public_ids.get(key.id, ())
        if public_id not in public_ids:
            self.public_ids[key.id] = (*public_ids, public_id)

    def drop_key(self, key_id: int, *, keep: Collection[str] = ()) -> None:
        """Remove the key under each of its public ids except those in `keep`."""
        public_ids = self.public_ids.pop(key_id, ())
        if remaining := tuple(public_id for public_id in public_ids if public_id in keep):
            self.public_ids[key_id] = remaining
        for public_id in public_ids:
            if public_id not in remaining:
                self.keys.pop(public_id, None)

    def put_providers(self, providers: Iterable[ProviderSnapshot]) -> None:
        super().put_providers(providers)
        if self.alias_rows:  # their targets are the new providers
            self.put_aliases(self.alias_rows)

    def put_aliases(self, rows: Iterable[AliasRow]) -> None:
        self.alias_rows = tuple(rows)
        self.aliases = AliasBook(self.alias_rows, self.providers)

    def put_rules(self, rules: Iterable[RuleSnapshot]) -> None:
        self.rule_rows = {rule.id: rule for rule in rules}
        self.rules = RuleBook(self.rule_rows.values())

    def price(self, target: Target, at: float) -> Price | None:
        """The price of the target's model at this time (seconds since 1970); None if none is set."""
        provider, model = target
        return self.prices.price(provider.id, provider.host, model, at, provider.upstream_name(model))
