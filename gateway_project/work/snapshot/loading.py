"""Loads rows into a snapshot: all of a kind, or only those that changed."""

import logging
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.db.models import F, Model, QuerySet
from django.utils import timezone

from accounts.builtin import ADMIN_ROLE
from accounts.models import Feature, Group, Role, Session, User
from gateway_project.errors import ValidationError
from gateway_project.work.limits.book import LimitBook, LimitRow
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.snapshot.records import Caller, KeySnapshot, ProviderSnapshot, Snapshot
from keys.models import ApiKey
from licensing import services as licence
from licensing.models import Limit
from providers.credentials import CredentialUnreadable, KeyMissing, decrypt, hint_of, origin_of
from providers.formats import FORMATS, Options
from providers.models import ModelPrice, Provider
from providers.transport import auth
from providers.transport.transport import TransportLimits
from rules.matching import RuleSnapshot
from rules.models import Rule
from rules.patterns import compile_pattern

log = logging.getLogger("gateway.snapshot")

# Above this number of changed rows it is cheaper to load all.
LOAD_ALL_ABOVE = 5_000
# Cache scopes, the narrowest last: a provider can narrow the setting, not widen it.
SCOPES = ("global", "group", "user", "key")


def load(snapshot: Snapshot, kind: str, ids: Collection[int]) -> None:
    """Load the changed rows of a kind; id 0, or more than LOAD_ALL_ABOVE ids, means all."""
    if kind == "key":
        load_keys(snapshot, _ids_or_all(ids))
    elif kind in ("user", "role", "group"):
        load_callers(snapshot, _ids_or_all(ids) if kind == "user" else None)
    elif kind == "rule":
        load_rules(snapshot, _ids_or_all(ids))
    elif kind == "provider":
        load_providers(snapshot)
    elif kind == "price":
        load_prices(snapshot)
    elif kind == "limit":
        load_limits(snapshot)
    elif kind == "licence":
        snapshot.terms = licence.current()


def load_all(snapshot: Snapshot) -> None:
    """Read everything."""
    for kind in ("licence", "provider", "price", "rule", "limit", "user", "key"):
        load(snapshot, kind, {0})
    snapshot.loaded = True


def load_keys(snapshot: Snapshot, ids: Collection[int] | None) -> None:
    """Load keys by id, or (ids=None) the GATEWAY_SNAPSHOT_KEYS most recently used."""
    rows = ApiKey.objects.live()
    if ids is None:
        max_keys = settings.GATEWAY_SNAPSHOT_KEYS
        last_used_first = F("last_used").desc(nulls_last=True), "-id"
        # The first in the dictionary are the first to be evicted.
        keys = dict(reversed(list(_keys(rows.order_by(*last_used_first)[:max_keys]))))
        snapshot.keys_complete = len(keys) < max_keys
        snapshot.public_ids = _by_key(keys)
        snapshot.keys = keys
        return
    keys = dict(_keys(rows.filter(id__in=ids)))
    for key_id in ids:
        snapshot.drop_key(key_id, keep=keys)
    for public_id, key in keys.items():
        snapshot.put_key(public_id, key)
    _evict_oldest(snapshot)


def load_wanted_keys(snapshot: Snapshot, public_ids: Collection[str]) -> None:
    """Load keys that requests used and memory did not have."""
    for public_id, key in _keys(ApiKey.objects.live().with_public_id(*public_ids)):
        snapshot.put_key(public_id, key)
    _evict_oldest(snapshot)


def load_callers(snapshot: Snapshot, ids: Collection[int] | None) -> None:
    """Load users with the features of their roles and the ids of their groups; all of them if ids is None."""
    users = User.objects.all() if ids is None else User.objects.filter(id__in=ids)
    features = _features_by_role()
    roles = _pairs(User.roles.through, "user_id", "role_id", ids)
    groups = _pairs(Group.members.through, "user_id", "group_id", ids)
    callers = {}
    for user_id, name, active, deleted in users.values_list("id", "username", "is_active", "is_deleted").iterator():
        granted = frozenset().union(*(features.get(role, ()) for role in roles.get(user_id, ())))
        callers[user_id] = Caller(
            user_id, name, active and not deleted, _interned(granted), tuple(groups.get(user_id, ()))
        )
    if ids is None:
        snapshot.callers = callers
        return
    for user_id in set(ids) - callers.keys():
        snapshot.callers.pop(user_id, None)
    snapshot.callers.update(callers)


def load_rules(snapshot: Snapshot, ids: Collection[int] | None) -> None:
    """Load and compile enabled rules; one whose pattern does not compile is left out."""
    rows = Rule.objects.enabled()
    rules = {}
    if ids is not None:
        rows = rows.filter(id__in=ids)
        rules = {rule_id: rule for rule_id, rule in snapshot.rule_rows.items() if rule_id not in ids}
    columns = ("id", "name", "regex", "user_id", "group_id", "everyone", "provider_id")
    for row in rows.values_list(*columns).iterator():
        if (rule := _rule(*row)) is not None:
            rules[rule.id] = rule
    snapshot.put_rules(rules.values())


def load_providers(snapshot: Snapshot) -> None:
    """Load enabled providers; one whose credential cannot be decrypted is left out."""
    rows = Provider.objects.enabled().select_related("format").prefetch_related("models")
    providers = (_provider(row, snapshot.providers.get(row.id)) for row in rows)
    snapshot.put_providers([provider for provider in providers if provider is not None])


def load_prices(snapshot: Snapshot) -> None:
    """Load current and future prices."""
    snapshot.prices = ModelPrice.objects.not_over().book()


def load_limits(snapshot: Snapshot) -> None:
    """Load the limits, and the settings' defaults for subjects without their own."""
    snapshot.limits = LimitBook(limit_rows(Limit.objects.all()), settings.GATEWAY_LIMITS, snapshot.limits.started_at)


def limit_rows(limits: QuerySet[Limit]) -> Iterator[LimitRow]:
    """The rows for a LimitBook."""
    names = {"key": "key__name", "user": "user__username", "group": "group__name", "provider": "provider__name"}
    ids = [f"{subject}_id" for subject in names]
    columns = ("measure", "window", "amount", "bounds_since", *ids, *names.values())
    for measure, window, amount, since, *subjects in limits.values_list(*columns):
        for kind, subject_id, name in zip(names, subjects[:4], subjects[4:], strict=True):
            if subject_id is not None:
                yield LimitRow(Subject(kind, subject_id), name, measure, window, amount, since)


def live_sessions(session_ids: Collection[str]) -> dict[str, int]:
    """Those of these sessions that are live, each with the id of its user."""
    rows = Session.objects.live(timezone.now()).filter(id__in=session_ids).values_list("id", "user_id")
    return {session_id.hex: user_id for session_id, user_id in rows}


def _ids_or_all(ids: Collection[int]) -> Collection[int] | None:
    return None if 0 in ids or len(ids) > LOAD_ALL_ABOVE else ids


def _keys(rows: QuerySet[ApiKey]) -> Iterator[tuple[str, KeySnapshot]]:
    columns = (
        "public_id", "id", "name", "digest", "owner_id", "provider_id", "expiry", "locked_time", "permissions",
        "former_public_id", "former_digest", "former_until",
    )  # fmt: skip
    for row in rows.values_list(*columns):
        public_id, key_id, name, digest, owner, provider, expiry, locked, permissions, *former = row
        if not isinstance(permissions, list) or not all(isinstance(name, str) for name in permissions):
            log.error("Key %s is not used: its permissions are not a list of names.", public_id)
            continue
        expires = expiry.timestamp() if expiry else math.inf
        granted = _interned(frozenset(permissions))
        key = KeySnapshot(key_id, name, bytes(digest), owner, provider, expires, locked is not None, granted)
        former_id, former_digest, until = former
        if former_id is not None:
            yield former_id, replace(key, digest=bytes(former_digest), expires=min(expires, until.timestamp()))
        yield public_id, key


def _by_key(keys: Mapping[str, KeySnapshot]) -> dict[int, tuple[str, ...]]:
    """The public ids of each key."""
    public_ids: dict[int, tuple[str, ...]] = {}
    for public_id, key in keys.items():
        public_ids[key.id] = (*public_ids.get(key.id, ()), public_id)
    return public_ids


def _evict_oldest(snapshot: Snapshot) -> None:
    """Bound the memory for keys: the oldest entries are evicted, and looked up again when they are used."""
    while len(snapshot.keys) > settings.GATEWAY_SNAPSHOT_KEYS:
        snapshot.drop_key(next(iter(snapshot.keys.values())).id)
        snapshot.keys_complete = False


def _features_by_role() -> dict[int, frozenset[str]]:
    everything = frozenset(Feature.objects.values_list("name", flat=True))
    granted = defaultdict(set)
    for role_id, name in Role.features.through.objects.values_list("role_id", "feature__name"):
        granted[role_id].add(name)
    features = {role_id: frozenset(names) for role_id, names in granted.items()}
    return features | dict.fromkeys(Role.objects.named(ADMIN_ROLE).values_list("id", flat=True), everything)


def _pairs(through: type[Model], one: str, other: str, users: Collection[int] | None) -> dict[int, list[int]]:
    rows = through._default_manager.order_by("id")
    if users is not None:
        rows = rows.filter(user_id__in=users)
    pairs = defaultdict(list)
    for one_id, other_id in rows.values_list(one, other).iterator():
        pairs[one_id].append(other_id)
    return pairs


def _rule(
    rule_id: int,
    name: str,
    regex: str,
    user_id: int | None,
    group_id: int | None,
    everyone: bool | None,
    provider_id: int | None,
) -> RuleSnapshot | None:
    try:
        pattern = compile_pattern(regex) if regex else None
    except ValidationError as error:
        log.error("Rule %s is not applied: %s", name, error.message)
        return None
    return RuleSnapshot(rule_id, name, pattern, user_id, group_id, bool(everyone), provider_id)


def _provider(row: Provider, before: ProviderSnapshot | None) -> ProviderSnapshot | None:
    try:
        credential = _credential(row, before) if row.credential else ""
        signer = auth.signer(row.auth_method, credential, row.url)
        headers = {} if signer else auth.headers(row.auth_method, credential)
    except (CredentialUnreadable, auth.CredentialUnusable, ValueError) as error:
        log.error("Provider %s is not used: %s", row.name, error)
        return None
    return ProviderSnapshot(
        id=row.id,
        name=row.name,
        url=row.url,
        host=urlsplit(row.url).hostname or "",
        auth_method=row.auth_method,
        credential=credential,
        format=FORMATS.get(row.format.name),
        format_name=row.format.name,
        priority=row.priority,
        weight=row.weight,
        transport_limits=TransportLimits(
            connect=row.connect_timeout_seconds or settings.GATEWAY_CONNECT_TIMEOUT,
            first_byte=row.first_byte_timeout_seconds or settings.GATEWAY_FIRST_BYTE_TIMEOUT,
            idle=row.idle_timeout_seconds or settings.GATEWAY_IDLE_TIMEOUT,
            response_bytes=row.max_response_bytes or settings.GATEWAY_MAX_RESPONSE_BYTES,
        ),
        total_seconds=row.total_timeout_seconds or settings.GATEWAY_TOTAL_TIMEOUT,
        cache_scope=max(row.cache_scope or "global", settings.GATEWAY_CACHE_SCOPE, key=SCOPES.index),
        cache_seconds=settings.GATEWAY_CACHE_TTL if row.cache_ttl_seconds is None else row.cache_ttl_seconds,
        models=frozenset(model.name for model in row.models.all()),
        options=Options(
            unknown_parameters=row.unknown_parameters, default_max_tokens=settings.GATEWAY_ANTHROPIC_MAX_TOKENS
        ),
        max_output_tokens={model.name: tokens for model in row.models.all() if (tokens := model.max_output_tokens)},
        header_name=row.name if row.name.isascii() else quote(row.name),
        auth_headers=headers,
        signer=signer,
    )


def _credential(row: Provider, before: ProviderSnapshot | None) -> str:
    """The decrypted credential. Raises CredentialUnreadable and ValueError.

    A process that does not have a new encryption key yet keeps the credential it has, as long as origin and hint show
    that it is unchanged.
    """
    try:
        return decrypt(row.credential, origin=row.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)
    except KeyMissing as error:
        if before is None or (origin_of(before.url), hint_of(before.credential)) != (row.origin, row.credential_hint):
            raise
        if not row.credential_hint:
            raise
        log.warning("Provider %s keeps its former credential: %s", row.name, error)
        return before.credential


@lru_cache(maxsize=4096)
def _interned(names: frozenset[str]) -> frozenset[str]:
    """One shared object for equal sets: many keys and users have the same."""
    return names
