"""The aliases in memory: what a name means, with all aliases in aliases resolved when the snapshot is loaded. Pure."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias

from gateway_project.json_types import JsonObject
from gateway_project.work.routing.strategies import MEASURED
from providers.catalogue import P, Target
from rules.aliases.models import MAX_DEPTH, MAX_TARGETS
from rules.offers import OfferedAlias

log = logging.getLogger("gateway.snapshot")

Tier = tuple[int, ...]  # of the alias, then of the aliases in it; without zeros at its end
REMEMBERED_NAMES = 2048  # clients can send any name
DRAINED = 1e-9  # the weight of a target that comes after all others of its tier


class Caller(Protocol):
    """The user of a request."""

    @property
    def id(self) -> int: ...

    @property
    def group_ids(self) -> Collection[int]: ...


class Key(Protocol):
    """The key of a request."""

    @property
    def name(self) -> str: ...


class Condition(NamedTuple):
    """What must hold of a request for a target to serve it; None and () ask nothing."""

    tags: tuple[tuple[str, str], ...] = ()
    group_id: int | None = None
    user_id: int | None = None
    key_name: str | None = None

    @classmethod
    def from_json(cls, match: JsonObject) -> "Condition":
        """The condition as the database holds it."""
        tags = tuple(sorted(match.get("tags", {}).items()))
        return cls(tags, match.get("groupId"), match.get("userId"), match.get("keyName"))

    def holds(self, caller: Caller, key: Key | None, tags: Mapping[str, str] | None) -> bool:
        """Whether it holds of a request; without tags (None), of some request of this caller and key."""
        return (
            (self.group_id is None or self.group_id in caller.group_ids)
            and (self.user_id is None or self.user_id == caller.id)
            and (self.key_name is None or (key is not None and key.name == self.key_name))
            and (tags is None or all(tags.get(name) == value for name, value in self.tags))
        )


class TargetRow(NamedTuple):
    """A target as it is stored: a model of a provider, or (`nested_id`) another alias."""

    provider_id: int | None
    model: str
    nested_id: int | None
    weight: int
    tier: int
    condition: Condition = Condition()


class MirrorRow(NamedTuple):
    """The model that a share of the requests is sent to as well, as it is stored."""

    provider_id: int
    model: str
    share: float


@dataclass(frozen=True, slots=True)
class AliasRow:
    """An alias as it is stored."""

    id: int
    name: str
    strategy: str
    fallback_on: frozenset[str]
    targets: tuple[TargetRow, ...]
    mirror: MirrorRow | None = None
    hedge: bool = False
    enabled: bool = True

    @property
    def provider_ids(self) -> set[int]:
        """The providers of its targets and of its mirror."""
        ids = {target.provider_id for target in self.targets if target.provider_id is not None}
        return ids if self.mirror is None else {*ids, self.mirror.provider_id}


class Mirror(NamedTuple, Generic[P]):
    """The target that a share of the requests is sent to as well."""

    target: Target[P]
    share: float


class AliasTarget(NamedTuple, Generic[P]):
    """A target of an alias or of an alias in it; all conditions must hold."""

    target: Target[P]
    weight: float
    conditions: tuple[Condition, ...] = ()

    def fits(self, caller: Caller, key: Key | None, tags: Mapping[str, str] | None) -> bool:
        """Whether it may serve a request; see Condition.holds()."""
        return all(condition.holds(caller, key, tags) for condition in self.conditions)


Tiers: TypeAlias = tuple[tuple[AliasTarget[P], ...], ...]


@dataclass(frozen=True, slots=True)
class AliasSnapshot(Generic[P]):
    """An enabled alias with its targets, best tier first."""

    id: int
    name: str
    strategy: str
    fallback_on: frozenset[str]
    tiers: Tiers[P]
    mirror: Mirror[P] | None = None
    hedge: bool = False

    # Its tiers for everybody, where no target has a condition.
    _for_everybody: Tiers[P] | None = field(init=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if not any(one.conditions for tier in self.tiers for one in tier):
            object.__setattr__(self, "_for_everybody", _distinct(self.tiers))

    def tiers_for(self, caller: Caller, key: Key | None, tags: Mapping[str, str] | None) -> Tiers[P]:
        """The targets whose conditions hold, each once: where it comes first."""
        if self._for_everybody is not None:
            return self._for_everybody
        return _distinct([[one for one in tier if one.fits(caller, key, tags)] for tier in self.tiers])


def _distinct(tiers: Iterable[Sequence[AliasTarget[P]]]) -> Tiers[P]:
    """The tiers with each target once: where it comes first."""
    keys: set[tuple[int, str]] = set()
    distinct = []
    for tier in tiers:
        # The first of the same targets counts.
        first = {one.target.key: one for one in reversed(tier) if one.target.key not in keys}
        keys |= first.keys()
        distinct.append(tuple(one for one in tier if first.get(one.target.key) is one))
    return tuple(tier for tier in distinct if tier)


class AliasBook(Generic[P]):
    """All enabled aliases at one moment."""

    def __init__(self, rows: Collection[AliasRow] = (), providers: Mapping[int, P] | None = None) -> None:
        aliases = [_alias(row, {row.id: row for row in rows}, providers or {}) for row in rows if row.enabled]
        self._by_name = {alias.name: alias for alias in aliases if "*" not in alias.name}
        patterns = (NamePattern(alias.name, alias) for alias in aliases if "*" in alias.name)
        self._patterns = sorted(patterns, key=NamePattern.rank)
        self._remembered: dict[str, AliasSnapshot[P] | None] = {}
        self.needs_measurements = any(alias.hedge or alias.strategy in MEASURED for alias in aliases)

    def by_id(self, alias_id: int) -> AliasSnapshot[P] | None:
        """The enabled alias with this id."""
        return next((alias for alias in self if alias.id == alias_id), None)

    def __iter__(self) -> Iterator[AliasSnapshot[P]]:
        yield from self._by_name.values()
        yield from (pattern.alias for pattern in self._patterns)

    def offered_aliases(self) -> list[OfferedAlias]:
        """Each alias with all its targets, by id, as the linter of rules takes them."""
        aliases = [_offer_alias(alias, name.__eq__) for name, alias in self._by_name.items()]
        aliases += [_offer_alias(pattern.alias, pattern.fits) for pattern in self._patterns]
        return sorted(aliases, key=lambda alias: alias.id)

    @property
    def names(self) -> Collection[str]:
        """The names without stars."""
        return self._by_name.keys()

    def resolve(self, name: str) -> AliasSnapshot[P] | None:
        """The alias of this name, else the one whose pattern fits it with the most characters; None if none does."""
        alias = self._by_name.get(name)
        return alias if alias is not None or not self._patterns else self._by_pattern(name)

    def _by_pattern(self, name: str) -> AliasSnapshot[P] | None:
        try:
            return self._remembered[name]
        except KeyError:
            alias = next((pattern.alias for pattern in self._patterns if pattern.fits(name)), None)
        if len(self._remembered) >= REMEMBERED_NAMES:
            self._remembered.clear()
        self._remembered[name] = alias
        return alias


@dataclass(frozen=True, slots=True)
class NamePattern(Generic[P]):
    """A name with stars, each of which stands for any characters, or none."""

    name: str
    alias: AliasSnapshot[P]
    parts: tuple[str, ...] = field(init=False)  # between the stars

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.name.split("*")))

    def rank(self) -> tuple[int, int, str]:
        """The most specific pattern first: that with the most characters, then the fewest stars, then by name."""
        return -len(self.name) + self.name.count("*"), self.name.count("*"), self.name

    def fits(self, text: str) -> bool:
        """Whether it stands for the text; each part is looked for once, from where the one before it ends."""
        first, *inner, last = self.parts
        end = len(text) - len(last)
        if len(first) > end or not (text.startswith(first) and text.endswith(last)):
            return False
        begin = len(first)
        for part in inner:
            place = text.find(part, begin, end)
            if place < 0:
                return False
            begin = place + len(part)
        return begin <= end


def _offer_alias(alias: AliasSnapshot[Any], fits: Callable[[str], bool]) -> OfferedAlias:
    return OfferedAlias(alias.id, alias.name, fits, tuple(one for tier in alias.tiers for one in tier))


def _alias(row: AliasRow, rows: Mapping[int, AliasRow], providers: Mapping[int, P]) -> AliasSnapshot[P]:
    try:
        targets = _flatten_alias(row, rows, providers, ())
    except RecursionError:
        log.error("The alias %s serves nothing: its aliases contain each other, or are nested too deep.", row.name)
        targets = []
    tiers: dict[Tier, list[AliasTarget[P]]] = {}
    for tier, target in targets:
        tiers.setdefault(tier, []).append(target)
    mirror = None
    if row.mirror is not None:
        mirrored = _target(row.mirror.provider_id, row.mirror.model, providers)
        mirror = Mirror(mirrored, row.mirror.share) if mirrored is not None else None
    ordered = tuple(tuple(tiers[tier]) for tier in sorted(tiers))
    return AliasSnapshot(row.id, row.name, row.strategy, row.fallback_on, ordered, mirror, row.hedge)


def _flatten_alias(
    row: AliasRow, rows: Mapping[int, AliasRow], providers: Mapping[int, P], path: tuple[int, ...]
) -> list[tuple[Tier, AliasTarget[P]]]:
    """The targets of an alias and of the aliases in it. Raises RecursionError for a cycle, and for too deep a nesting.

    The tiers of an alias stand within its own tier of the outer one, and its targets share its weight.
    """
    if row.id in path or len(path) >= MAX_DEPTH:
        raise RecursionError
    targets: list[tuple[Tier, AliasTarget[P]]] = []
    for target_row in row.targets:
        conditions = () if target_row.condition == Condition() else (target_row.condition,)
        if target_row.nested_id is None:
            target = (
                None if target_row.provider_id is None else _target(target_row.provider_id, target_row.model, providers)
            )
            if target is not None:
                targets.append(((target_row.tier,), AliasTarget(target, target_row.weight or DRAINED, conditions)))
        elif (nested := rows.get(target_row.nested_id)) is not None and nested.enabled:
            inner = _flatten_alias(nested, rows, providers, (*path, row.id))
            targets += _nest_targets(target_row, conditions, inner)
        if len(targets) > MAX_TARGETS:
            raise RecursionError
    return [(_strip_tier(tier), target) for tier, target in targets]


def _nest_targets(
    outer: TargetRow, conditions: tuple[Condition, ...], inner: Iterable[tuple[Tier, AliasTarget[P]]]
) -> Iterator[tuple[Tier, AliasTarget[P]]]:
    """The targets of an alias as targets of the one that it stands in."""
    inner = list(inner)
    totals: dict[Tier, float] = {}
    for tier, target in inner:
        totals[tier] = totals.get(tier, 0) + target.weight
    for tier, target in inner:
        weight = max(outer.weight * target.weight / totals[tier], DRAINED)
        yield (outer.tier, *tier), AliasTarget(target.target, weight, (*conditions, *target.conditions))


def _strip_tier(tier: Tier) -> Tier:
    """The tier without zeros at its end: the first tier of an alias is that of the alias itself."""
    while tier and tier[-1] == 0:
        tier = tier[:-1]
    return tier


def _target(provider_id: int, model: str, providers: Mapping[int, P]) -> Target[P] | None:
    """The target, if the provider is enabled and offers the model."""
    provider = providers.get(provider_id)
    return Target(provider, model) if provider is not None and model in provider.models else None
