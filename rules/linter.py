"""Checks of a rule for administrators: which models it allows, and whether it has any effect. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that an enabled provider has."""

    provider_id: int
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """A rule, stored or not: `pattern` is compiled, None for every model; `audience` None for nobody."""

    id: int | None
    pattern: Any
    audience: tuple[str, int] | None  # ("everyone", 0), ("user", id) or ("group", id)
    provider_id: int | None
    enabled: bool = True
    name: str = ""

    def covers(self, offer: OfferedModel) -> bool:
        """Whether it allows its audience this model of this provider."""
        fits = self.provider_id is None or self.provider_id == offer.provider_id
        return fits and (self.pattern is None or self.pattern.fullmatch(offer.model) is not None)


def covered(rule: RuleDraft, offers: Iterable[OfferedModel]) -> list[OfferedModel]:
    """The offered models that the rule allows."""
    return [offer for offer in offers if rule.covers(offer)]


def warnings(rule: RuleDraft, others: Iterable[RuleDraft], offers: Iterable[OfferedModel], *, nobody: str) -> list[str]:
    """Sentences on why the rule allows nobody, or nothing that an earlier rule does not allow.

    `nobody` is a sentence on why nobody in its audience can send requests, '' if somebody can.
    """
    found, offers = [], list(offers)
    models = covered(rule, offers)
    if not rule.enabled:
        found.append("The rule is not enabled.")
    if rule.audience is None:
        found.append("The rule applies to nobody: choose a user, a group or everyone.")
    if nobody:
        found.append(nobody)
    if not models:
        found.append("No model of an enabled provider matches: the rule currently allows nothing.")
    earlier = [other for other in others if other.enabled and _is_before(other, rule) and _reaches(other, rule)]
    if models and (hiding := _hidden_by(models, earlier)):
        found.append(f"The rule has no effect: {hiding} allows the same requests before it.")
    return found


def _is_before(other: RuleDraft, rule: RuleDraft) -> bool:
    return other.id is not None and (rule.id is None or other.id < rule.id)


def _reaches(other: RuleDraft, rule: RuleDraft) -> bool:
    """Whether the other rule's audience includes that of the rule."""
    return rule.audience is not None and other.audience in (("everyone", 0), rule.audience)


def _hidden_by(models: list[OfferedModel], earlier: list[RuleDraft]) -> str:
    """The name of one earlier rule that covers all of the models, '' if there is none."""
    return next((f"{other.name!r}" for other in earlier if all(other.covers(offer) for offer in models)), "")
