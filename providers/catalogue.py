"""Which provider has which model, and where a request may go before rules are asked. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar


class Offering(Protocol):
    """A provider as the catalogue needs it; `format` is None for one that this version cannot speak to."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def models(self) -> Collection[str]: ...

    @property
    def format(self) -> object: ...


P = TypeVar("P", bound=Offering)


class Target(NamedTuple, Generic[P]):
    """A provider that a request may go to, and that provider's name of the model."""

    provider: P
    model: str

    @property
    def key(self) -> tuple[int, str]:
        """What distinguishes it from the other targets of a request."""
        return self.provider.id, self.model


class Catalogue(Generic[P]):
    """The enabled providers and their models."""

    def __init__(self, providers: Iterable[P] = ()) -> None:
        self.put_providers(providers)

    def put_providers(self, providers: Iterable[P]) -> None:
        by_id = {provider.id: provider for provider in providers}
        targets_by_model = defaultdict(list)
        for provider in by_id.values():
            for model in provider.models:
                targets_by_model[model].append(Target(provider, model))
        self.targets_by_model = {model: tuple(targets) for model, targets in targets_by_model.items()}
        self.providers_by_name = {provider.name: provider for provider in by_id.values()}
        self.providers: dict[int, P] = by_id
        self._spellings = {one.id: {fold_name(model): model for model in one.models} for one in by_id.values()}

    def targets_for(self, model: str) -> tuple[Target[P], ...]:
        """Every provider with this model; `provider/model` selects one provider.

        A model whose own name contains a slash takes precedence.
        """
        if targets := self.targets_by_model.get(model):
            return targets
        name, slash, bare = model.partition("/")
        provider = self.providers_by_name.get(name) if slash else None
        return (Target(provider, bare),) if provider is not None and bare in provider.models else ()

    def linked_targets(self, model: str, provider_id: int) -> tuple[Target[P], ...]:
        """The provider that a key is linked to, with any model name; () while it is disabled.

        A name that is spelled differently from one of the provider's models is that model: some providers ignore case,
        and no rule, limit or price may be evaded by it.
        """
        provider = self.providers.get(provider_id)
        if provider is None:
            return ()
        # A model whose name contains a slash takes precedence over provider/model.
        bare = model.removeprefix(f"{provider.name}/")
        return (Target(provider, model if model in provider.models else self._own_spelling(provider, model, bare)),)

    def _own_spelling(self, provider: P, model: str, bare: str) -> str:
        """The provider's own name for the model; the bare one if it has none."""
        spellings = self._spellings[provider.id]
        return (
            bare
            if bare in provider.models
            else spellings.get(fold_name(model)) or spellings.get(fold_name(bare)) or bare
        )


def fold_name(model: str) -> str:
    """A model's name without what some providers ignore in it: case, and spaces around it."""
    return model.strip().casefold()


def servable_targets(targets: Iterable[Target[P]]) -> tuple[Target[P], ...]:
    """Those whose provider speaks a format that this version does too."""
    return tuple(target for target in targets if target.provider.format is not None)
