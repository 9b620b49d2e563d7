"""The callers and keys that send requests, and the aliases that somebody among them may use. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from rules.lint.reach import Audiences, Reach
from rules.offers import OfferedAlias


class Caller(NamedTuple):
    """A usable user, with all groups whose rules are for the user."""

    id: int
    group_ids: tuple[int, ...]


class Key(NamedTuple):
    """A usable key, with what narrows it."""

    id: int
    name: str
    owner: str
    owner_id: int
    provider_id: int | None
    models: list[str]


class AliasUsers:
    """Says whether rules let any of these callers ask for an alias, and use one of its targets."""

    def __init__(self, callers: Iterable[Caller], keys: Iterable[Key], reach: Reach) -> None:
        self._reach = reach
        self._keys: dict[int, list[Key]] = defaultdict(list)
        for key in keys:
            self._keys[key.owner_id].append(key)
        self._callers: dict[Audiences, list[Caller]] = defaultdict(list)
        for caller in callers:
            self._callers[reach.audiences_of(caller.id, caller.group_ids)].append(caller)

    def may_ask(self, alias: OfferedAlias) -> bool:
        """Whether rules let somebody ask for the name; of an alias with stars, perhaps for some name that fits."""
        return any(self._reach.providers_of(audiences, alias) for audiences in self._callers)

    def may_use(self, alias: OfferedAlias) -> bool:
        """The same with a target that rules allow, too, and whose conditions hold with some tags."""
        return any(self._may_use(audiences, callers, alias) for audiences, callers in self._callers.items())

    def _may_use(self, audiences: Audiences, callers: Iterable[Caller], alias: OfferedAlias) -> bool:
        targets = self._reach.targets_of(audiences, alias)
        return bool(targets) and any(
            target.fits(caller, key, None)
            for caller in callers
            for key in (None, *self._keys.get(caller.id, ()))
            for target in targets
        )
