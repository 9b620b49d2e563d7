"""What an administrator should know about a rule: whom and what it lets through, and whether it can matter. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that an enabled provider has."""

    provider_id: int
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A rule as it would be: `pattern` is compiled, None for every model; `audience` None for nobody."""

    id: int | None
    pattern: Any
    audience: tuple[str, int] | None  # ("everyone", 0), ("user", id) or ("group", id)
    provider_id: int | None
    enabled: bool = True
    name: str = ""

    def covers(self, offer: Offer) -> bool:
        """Whether it lets its audience ask for this model of this provider."""
        fits = self.provider_id is None or self.provider_id == offer.provider_id
        return fits and (self.pattern is None or self.pattern.fullmatch(offer.model) is not None)


def covered(rule: Drawn, offers: Iterable[Offer]) -> list[Offer]:
    """The models that the rule lets through, of those that there are."""
    return [offer for offer in offers if rule.covers(offer)]


def warnings(rule: Drawn, others: Iterable[Drawn], offers: Iterable[Offer], *, nobody: str) -> list[str]:
    """Sentences on why the rule lets nobody through, or nothing that another one does not.

    `nobody` is one on why none of those whom it is for can send anything, '' if somebody can.
    """
    found, offers = [], list(offers)
    models = covered(rule, offers)
    if not rule.enabled:
        found.append("The rule is not enabled.")
    if rule.audience is None:
        found.append("The rule is for nobody: say a user, a group or everyone.")
    if nobody:
        found.append(nobody)
    if not models:
        found.append("No model of an enabled provider matches: the rule lets nothing through today.")
    earlier = [other for other in others if other.enabled and _is_before(other, rule) and _reaches(other, rule)]
    if models and (hiding := _hidden_by(models, earlier)):
        found.append(f"The rule never matters: {hiding} lets the same requests through before it.")
    return found


def _is_before(other: Drawn, rule: Drawn) -> bool:
    return other.id is not None and (rule.id is None or other.id < rule.id)


def _reaches(other: Drawn, rule: Drawn) -> bool:
    """Whether everybody whom the rule is for is reached by the other one too."""
    return rule.audience is not None and other.audience in (("everyone", 0), rule.audience)


def _hidden_by(models: list[Offer], earlier: list[Drawn]) -> str:
    """The name of one earlier rule that covers all of the models, '' if there is none."""
    return next((f"{other.name!r}" for other in earlier if all(other.covers(offer) for offer in models)), "")
