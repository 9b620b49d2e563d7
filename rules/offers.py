"""What callers can ask for: the models of providers, and the aliases; by what names rules judge them. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from providers.catalogue import Catalogue, Target, servable_targets
from rules.coverage import TargetSets, may_match_like
from rules.matching import RuleSnapshot

ANY_MODEL = "\0"  # no model has this name


@dataclass(slots=True)
class OfferedProvider:
    """An enabled provider with the names of its models; `format` is None if this version does not speak it."""

    id: int
    name: str
    models: Collection[str]
    format: object


class ConditionalTarget(Protocol):
    """A target of an alias, as the pipeline resolves it."""

    @property
    def target(self) -> Target[OfferedProvider]: ...

    # Callers and keys are the pipeline's, or rows with the same attributes.
    def fits(self, caller: Any, key: Any, tags: Mapping[str, str] | None) -> bool: ...


@dataclass(frozen=True, slots=True)
class OfferedAlias:
    """An enabled alias with all its targets; `fits` says whether it stands for a name."""

    id: int
    name: str
    fits: Callable[[str], bool]
    targets: tuple[ConditionalTarget, ...]

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for all names that fit it."""
        return "*" in self.name

    @property
    def providers(self) -> dict[int, OfferedProvider]:
        """The providers of its targets, by id."""
        return {one.target.provider.id: one.target.provider for one in self.targets}

    @property
    def can_serve(self) -> bool:
        return bool(servable_targets(one.target for one in self.targets))


class Offers(Catalogue[OfferedProvider]):
    """The enabled providers and aliases.

    `sets` has each model of each provider, and the name of each alias without stars with each provider of its targets,
    in the order in which they are shown. Names of aliases with stars cannot be listed: see pattern_providers().
    """

    def __init__(self, providers: Iterable[OfferedProvider] = (), aliases: Iterable[OfferedAlias] = ()) -> None:
        super().__init__(providers)
        self.aliases = tuple(aliases)
        listed = [one for one in self.aliases if not one.is_pattern]
        models = [(target, False) for targets in self.targets_by_model.values() for target in targets]
        names = [(Target(provider, one.name), True) for one in listed for provider in one.providers.values()]
        rows = sorted([*models, *names], key=lambda row: (row[0].model, row[0].provider.id))
        self.sets = TargetSets([target for target, _ in rows])
        self.served = _set_of(target.provider.format is not None for target, _ in rows)
        self.alias_names = self.served & _set_of(is_alias for _, is_alias in rows)
        self.model_names = self.served & ~self.alias_names
        self._patterns = [one for one in self.aliases if one.is_pattern]
        self._pattern_providers: dict[str, dict[int, OfferedProvider]] = {}

    @property
    def models(self) -> list[Target[OfferedProvider]]:
        """The models of providers that can serve."""
        return list(self.sets.members(self.model_names))

    def link_to(self, provider_id: int) -> Target[OfferedProvider] | None:
        """The provider of a linked key, with any model name; None if it cannot serve."""
        return next(iter(servable_targets(self.linked_targets(ANY_MODEL, provider_id))), None)

    def name_with(self, alias: OfferedAlias, provider_id: int) -> int:
        """The set of the name of an alias without stars, with one of its providers."""
        return self.sets.of(Target(self.providers[provider_id], alias.name))

    def pattern_providers(self, rule: RuleSnapshot) -> frozenset[int]:
        """Where the rule may matter for a name that fits an alias with stars: the ids of providers.

        A rule that denies matters at those that cannot serve, too: a target there can be chosen for a request.
        """
        if not self._patterns:
            return frozenset()
        text = text_of(rule)
        if text not in self._pattern_providers:
            aliases = (one for one in self._patterns if may_match_alias(text, one))
            self._pattern_providers[text] = {number: row for one in aliases for number, row in one.providers.items()}
        return frozenset(
            number
            for number, provider in self._pattern_providers[text].items()
            if rule.provider_id in (None, number) and (rule.denies or provider.format is not None)
        )


def may_match_alias(pattern: str, alias: OfferedAlias) -> bool:
    """Whether a pattern, '' for every name, may match a name that fits an alias with stars."""
    return not pattern or may_match_like(pattern, alias.name.partition("*")[0], alias.fits)


def text_of(rule: RuleSnapshot) -> str:
    """The pattern of a rule, '' for every name."""
    return "" if rule.pattern is None else rule.pattern.pattern


def _set_of(members: Iterable[bool]) -> int:
    """The set of the places that are true."""
    return sum(1 << number for number, is_member in enumerate(members) if is_member)
