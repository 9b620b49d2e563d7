"""Loads rows into a snapshot: all of a kind, or only those that changed."""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from django.conf import settings
from django.db.models import F, Model, QuerySet
from django.utils import timezone

from accounts.access_requests.models import AccessRequest
from accounts.builtin import ADMIN_ROLE
from accounts.group_tree import with_ancestors, with_descendants
from accounts.models import Feature, Group, Role, Session, User
from gateway_project.errors import ValidationError
from gateway_project.name_patterns import Pattern
from gateway_project.work.guardrails.loading import load_guardrails
from gateway_project.work.routing.aliases import AliasBook, AliasRow, Condition, MirrorRow, TargetRow
from gateway_project.work.snapshot.issuers import load_issuers
from gateway_project.work.snapshot.limits import load_credential_limits, load_limits
from gateway_project.work.snapshot.provider_records import provider_record
from gateway_project.work.snapshot.records import Caller, KeySnapshot, Snapshot
from keys.models import ApiKey
from keys.restrictions import KeyRestrictions, restrictions_of
from licensing import services as licence
from licensing.models import Limit
from providers.models import ModelPrice, Provider
from rules.aliases.models import Alias, AliasTarget
from rules.matching import DEFAULT_POSITION, RuleSnapshot
from rules.models import Effect, Rule
from rules.offers import OfferedAlias, OfferedProvider
from rules.patterns import compile_pattern
from telemetry.models import KeptState

log = logging.getLogger("gateway.snapshot")

# Above this number of changed rows it is cheaper to load all.
LOAD_ALL_ABOVE = 5_000
MAX_OWNERS = 1000  # in one query
# Of a rule: in the order of rule_record().
RULE_COLUMNS = ("id", "name", "regex", "user_id", "group_id", "everyone", "provider_id", "effect", "position")
# Of a key: in the order of restrictions_of().
RESTRICTIONS = ("model_patterns", "networks", "not_before", "tags", "max_tokens_per_request", "content_logging")


def load_rows(snapshot: Snapshot, kind: str, ids: Collection[int]) -> None:
    """Load the changed rows of a kind; id 0, or more than LOAD_ALL_ABOVE ids, means all."""
    if kind in BY_ID:
        BY_ID[kind](snapshot, _ids_or_all(ids))
    elif kind in WHOLE:
        WHOLE[kind](snapshot)


def load_all(snapshot: Snapshot) -> None:
    """Read everything."""
    for kind in ALL:
        load_rows(snapshot, kind, {0})
    snapshot.loaded = True


def load_keys(snapshot: Snapshot, ids: Collection[int] | None) -> None:
    """Load keys by id, or (ids=None) the GATEWAY_SNAPSHOT_KEYS most recently used."""
    rows = ApiKey.objects.live()
    if ids is None:
        max_keys = settings.GATEWAY_SNAPSHOT_KEYS
        last_used_first = F("last_used").desc(nulls_last=True), "-id"
        # The keys at the beginning of the dictionary are evicted first.
        keys = dict(reversed(list(key_records(rows.order_by(*last_used_first)[:max_keys]))))
        snapshot.keys_complete = rows.count() < max_keys
        snapshot.public_ids = _by_key(keys)
        snapshot.keys = keys
        return
    keys = dict(key_records(rows.filter(id__in=ids)))
    for key_id in ids:
        snapshot.drop_key(key_id, keep=keys)
    for public_id, key in keys.items():
        snapshot.put_key(public_id, key)
    _evict_oldest(snapshot)


def load_wanted_keys(snapshot: Snapshot, public_ids: Collection[str]) -> None:
    """Load keys that requests used and memory did not have, after their owners, who may be as new."""
    keys = dict(key_records(ApiKey.objects.live().with_public_id(*public_ids)))
    if new_owners := {key.owner_id for key in keys.values()} - snapshot.callers.keys():
        load_callers(snapshot, new_owners)
    for public_id, key in keys.items():
        snapshot.put_key(public_id, key)
    _evict_oldest(snapshot)


def load_callers(snapshot: Snapshot, ids: Collection[int] | None = None) -> None:
    """Load users with the features of their roles, and the ids of their groups and of all groups above these.

    All users if ids is None.
    """
    users = User.objects.all() if ids is None else User.objects.filter(id__in=ids)
    features = _features_by_role()
    roles = _pairs(User.roles.through, "user_id", "role_id", ids)
    groups = _pairs(Group.members.through, "user_id", "group_id", ids)
    parents = Group.objects.parents()
    callers = {}
    for user_id, name, active, deleted in users.values_list("id", "username", "is_active", "is_deleted").iterator():
        granted = frozenset().union(*(features.get(role, ()) for role in roles.get(user_id, ())))
        callers[user_id] = Caller(
            user_id, name, active and not deleted, _share_set(granted), with_ancestors(groups.get(user_id, ()), parents)
        )
    if snapshot.issuers is not None:
        snapshot.issuers.user_ids.update({caller.name: caller.id for caller in callers.values()})
    if ids is None:
        snapshot.callers = callers
        return
    for user_id in set(ids) - callers.keys():
        snapshot.callers.pop(user_id, None)
    snapshot.callers.update(callers)


def load_rules(snapshot: Snapshot, ids: Collection[int] | None) -> None:
    """Load and compile enabled rules; one whose pattern does not compile allows nothing, or denies every model."""
    rows = Rule.objects.enabled()
    rules = {}
    if ids is not None:
        rows = rows.filter(id__in=ids)
        rules = {rule_id: rule for rule_id, rule in snapshot.rule_rows.items() if rule_id not in ids}
    for row in rows.values_list(*RULE_COLUMNS).iterator():
        if (rule := rule_record(*row)) is not None:
            rules[rule.id] = rule
    snapshot.put_rules(rules.values())


def load_providers(snapshot: Snapshot, ids: Collection[int] | None = None) -> None:
    """Load enabled providers, all or those with these ids; one that cannot be used as it is stored is left out."""
    rows, providers = Provider.objects.served(), {}
    if ids is not None:
        rows = rows.filter(id__in=ids)
        providers = {provider.id: provider for provider in snapshot.providers.values() if provider.id not in ids}
    for row in rows:
        try:
            provider = provider_record(row, snapshot.providers.get(row.id))
        except ValueError as error:  # a value of another version, or one that was written past the services
            log.error("Provider %s is not used: %s", row.name, error)
            continue
        if provider is not None:
            providers[row.id] = provider
    snapshot.put_providers([providers[provider_id] for provider_id in sorted(providers)])


def load_accounts(snapshot: Snapshot, ids: Collection[int] | None) -> None:
    """Load providers with the limits of their credentials, and the aliases that name models of them."""
    if ids is None or any(not row.provider_ids.isdisjoint(ids) for row in snapshot.alias_rows):
        snapshot.alias_rows = stored_aliases()
    load_providers(snapshot, ids)
    load_credential_limits(snapshot)


def load_roles(snapshot: Snapshot, ids: Collection[int] | None) -> None:
    """Load who has these roles; who has lost one is a user that has changed."""
    if ids is None:
        load_callers(snapshot)
        return
    holders = User.roles.through.objects.filter(role_id__in=ids).values_list("user_id", flat=True).distinct()
    load_callers(snapshot, _ids_or_all({*holders[: LOAD_ALL_ABOVE + 1]}))


def load_groups(snapshot: Snapshot, ids: Collection[int] | None) -> None:
    """Load who is or was in these groups or below, and the groups' limits: a limit contains its group's name."""
    limits = Limit.objects.exclude(group=None)
    if ids is None:
        load_callers(snapshot)
    else:
        load_callers(snapshot, _members_or_all(snapshot, frozenset(ids)))
        limits = limits.filter(group_id__in=ids)
    load_limits(snapshot, _ids_or_all(set(limits.values_list("id", flat=True))))


def _members_or_all(snapshot: Snapshot, group_ids: frozenset[int]) -> Collection[int] | None:
    """The users in these groups or in groups below them, in the database or in the snapshot."""
    if (below := _ids_or_all(with_descendants(group_ids, Group.objects.parents()))) is None:
        return None
    members = Group.members.through.objects.filter(group_id__in=below).values_list("user_id", flat=True).distinct()
    former = (caller.id for caller in snapshot.callers.values() if not group_ids.isdisjoint(caller.group_ids))
    return _ids_or_all({*members[: LOAD_ALL_ABOVE + 1], *former})


def load_prices(snapshot: Snapshot) -> None:
    """Load current and future prices."""
    snapshot.prices = ModelPrice.objects.not_over().book()


def load_aliases(snapshot: Snapshot) -> None:
    """Load all aliases."""
    snapshot.put_aliases(stored_aliases())


def stored_aliases() -> tuple[AliasRow, ...]:
    """All aliases; disabled ones too, as another may contain one."""
    return tuple(map(_alias, Alias.objects.shown()))


def resolve_stored_aliases(providers: Mapping[int, OfferedProvider]) -> list[OfferedAlias]:
    """The stored aliases that are enabled, by id, with those of their targets that these providers have."""
    return AliasBook(stored_aliases(), providers).offered_aliases()


def load_grants(snapshot: Snapshot) -> None:
    """Load when the next grant of an access request ends."""
    ends = AccessRequest.objects.granted().exclude(ends_at=None).order_by("ends_at")
    first = ends.values_list("ends_at", flat=True).first()
    snapshot.next_grant_end = math.inf if first is None else first.timestamp()


def load_terms(snapshot: Snapshot) -> None:
    """Load the licence."""
    snapshot.terms = licence.current_terms()


def load_guardrail_book(snapshot: Snapshot) -> None:
    """Load all guardrails; those that have not changed stay as they are."""
    snapshot.guardrails = load_guardrails(snapshot.guardrails)


# Kinds of which the changed rows are loaded, and those of which always all is.
BY_ID: dict[str, Callable[[Snapshot, Collection[int] | None], None]] = {
    "key": load_keys,
    "user": load_callers,
    "rule": load_rules,
    "provider": load_accounts,
    "limit": load_limits,
    "role": load_roles,
    "group": load_groups,
}
WHOLE: dict[str, Callable[[Snapshot], None]] = {
    "price": load_prices,
    "alias": load_aliases,
    "issuer": load_issuers,
    "guardrail": load_guardrail_book,
    "grant": load_grants,
    "licence": load_terms,
}
# What a process loads first, each after those that it needs; users come with their roles and groups.
ALL = ("licence", "provider", "price", "rule", "alias", "guardrail", "user", "issuer", "key", "limit", "grant")


def live_sessions(session_ids: Collection[str]) -> dict[str, int]:
    """Those of these sessions that are live, each with the id of its user."""
    rows = Session.objects.live(timezone.now()).filter(id__in=session_ids).values_list("id", "user_id")
    return {session_id.hex: user_id for session_id, user_id in rows}


def state_owners(digests: Collection[str]) -> dict[str, int]:
    """Those of these things that somebody is known to own, each with the id of its user."""
    ordered_digests, owners = sorted(digests), dict[str, int]()
    for begin in range(0, len(ordered_digests), MAX_OWNERS):
        rows = KeptState.objects.filter(digest__in=ordered_digests[begin : begin + MAX_OWNERS])
        owners.update(rows.values_list("digest", "user_id"))
    return owners


def _ids_or_all(ids: Collection[int]) -> Collection[int] | None:
    return None if 0 in ids or len(ids) > LOAD_ALL_ABOVE else ids


def key_records(rows: QuerySet[ApiKey]) -> Iterator[tuple[str, KeySnapshot]]:
    """The keys that can be used, by public id; a rotated one first under its former id."""
    columns = (
        "public_id", "id", "name", "digest", "owner_id", "provider_id", "expiry", "locked_time", "permissions",
        "former_public_id", "former_digest", "former_until",
    )  # fmt: skip
    for row in rows.values_list(*columns, *RESTRICTIONS):
        public_id, key_id, name, digest, owner, provider, expiry, locked, permissions, *others = row
        if not isinstance(permissions, list) or not all(isinstance(name, str) for name in permissions):
            log.error("Key %s is refused: its permissions are not a list of names.", public_id)
            continue
        expires = expiry.timestamp() if expiry else math.inf
        granted = _share_set(frozenset(permissions))
        former_id, former_digest, until, *values = others
        try:
            narrowed = _restrictions(*values)
        except ValidationError as error:
            log.error("Key %s is refused: its restrictions cannot be read: %s", public_id, error.sentence)
            continue
        key = KeySnapshot(key_id, name, bytes(digest), owner, provider, expires, locked is not None, granted, narrowed)
        if former_id is not None:
            yield former_id, replace(key, digest=bytes(former_digest), expires=min(expires, until.timestamp()))
        yield public_id, key


def _restrictions(
    models: object, networks: object, not_before: datetime | None, tags: object, max_tokens: int | None, logging: str
) -> KeyRestrictions | None:
    begins = not_before.timestamp() if not_before else 0.0
    return restrictions_of(models, networks, begins, tags, max_tokens, logging)


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


def rule_record(
    rule_id: int,
    name: str,
    regex: str,
    user_id: int | None,
    group_id: int | None,
    everyone: bool | None,
    provider_id: int | None,
    effect: str,
    position: int = DEFAULT_POSITION,
    *,
    compiled: Callable[[str], Pattern] = compile_pattern,
) -> RuleSnapshot | None:
    """A stored rule, compiled; None if it allows and its pattern does not compile."""
    denies = effect == Effect.DENY
    try:
        pattern = compiled(regex) if regex else None
    except ValidationError as error:
        log.error("Rule %s %s: %s", name, "denies every model" if denies else "is not applied", error.message)
        if not denies:
            return None
        pattern = None
    return RuleSnapshot(
        rule_id, name, pattern, user_id, group_id, bool(everyone), provider_id, denies, position=position
    )


def _alias(row: Alias) -> AliasRow:
    mirror = None
    if row.mirror is not None:
        mirror = MirrorRow(row.mirror.provider_id, row.mirror.name, row.mirror_share)
    targets = tuple(map(_alias_target, row.targets.all()))
    causes = frozenset(row.fallback_on)
    return AliasRow(row.pk, row.name, row.strategy, causes, targets, mirror, row.hedge, row.enabled)


def _alias_target(row: AliasTarget) -> TargetRow:
    condition = Condition.from_json(row.match)
    if row.model is None:
        return TargetRow(None, "", row.nested_id, row.weight, row.tier, condition)
    return TargetRow(row.model.provider_id, row.model.name, None, row.weight, row.tier, condition)


@lru_cache(maxsize=4096)
def _share_set(names: frozenset[str]) -> frozenset[str]:
    """One shared object for equal sets: many keys and users have the same."""
    return names
