"""Checks of a rule for administrators: what it allows, and whether it has any effect. Pure.

It asks what the pipeline asks (Catalogue and RuleBook.judge), for the requests that somebody in the rule's audience can
send: each model of each provider, and any model name with a key that is linked to a provider.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from providers.catalogue import Catalogue, Target, servable
from rules.matching import RuleBook, RuleSnapshot

STRANGER = 0  # no user has this id
ANY_MODEL = "\0"  # no model has this name
LAST = 2**63  # the id of a rule that is not stored yet
MAX_NAMED = 3


@dataclass(slots=True)
class OfferedProvider:
    """An enabled provider with the names of its models; `format` is None if this version does not speak it."""

    id: int
    name: str
    models: Collection[str]
    format: object


class Offers(Catalogue[OfferedProvider]):
    """The enabled providers, and each model of each in the order in which it is shown."""

    def __init__(self, providers: Iterable[OfferedProvider] = ()) -> None:
        super().__init__(providers)
        pairs = (target for targets in self.targets_by_model.values() for target in servable(targets))
        self.models = sorted(pairs, key=lambda target: (target.model, target.provider.id))


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """A rule, stored or not, that is judged as if it were enabled."""

    rule: RuleSnapshot
    enabled: bool = True
    linked_provider_ids: Collection[int] = ()  # of its audience's usable keys

    @property
    def has_audience(self) -> bool:
        return self.rule.everyone or self.rule.user_id is not None or self.rule.group_id is not None


def allowed_models(draft: RuleDraft, offers: Offers) -> list[Target]:
    """The models of enabled providers that the rule allows its audience, by name and provider."""
    book = RuleBook([_for_everyone(draft.rule)])
    return [target for target in offers.models if _first(book, target, draft.rule) is not None]


def allowed_links(draft: RuleDraft, offers: Offers) -> list[Target]:
    """The providers that keys of the audience are linked to, and that the rule allows with any name that it matches."""
    book = RuleBook([_for_any_model(_for_everyone(draft.rule))])
    targets = (offers.linked_targets(ANY_MODEL, number) for number in sorted(draft.linked_provider_ids))
    return [target for group in targets for target in servable(group) if _first(book, target, draft.rule) is not None]


def warnings(draft: RuleDraft, others: Iterable[RuleSnapshot], offers: Offers, *, nobody: str) -> list[str]:
    """Sentences on why the rule allows nobody, or nothing that an earlier rule does not allow.

    `others` are enabled rules, the rule itself perhaps among them. `nobody` is a sentence on why nobody in its audience
    can send requests, '' if somebody can.
    """
    sentences = []
    models, links = allowed_models(draft, offers), allowed_links(draft, offers)
    if not draft.enabled:
        sentences.append("The rule is not enabled.")
    if not draft.has_audience:
        sentences.append("The rule applies to nobody: choose a user, a group or everyone.")
    if nobody:
        sentences.append(nobody)
    if not models and not links:
        sentences.append("No model of an enabled provider matches: the rule currently allows nothing.")
    elif hiding := _hiding_rules(draft, others, models, links):
        verb = "allows" if len(hiding) == 1 else "allow"
        sentences.append(f"The rule has no effect: {_listed(hiding)} {verb} the same requests before it.")
    return sentences


def _hiding_rules(
    draft: RuleDraft, others: Iterable[RuleSnapshot], models: list[Target], links: list[Target]
) -> list[str]:
    """The names of the earlier rules that allow all of these before the rule does; [] if one of them gets past."""
    if not draft.has_audience:
        return []
    earlier = [other for other in others if other.id < draft.rule.id]
    hiding: dict[str, None] = {}
    for first in _firsts(draft.rule, earlier, models, links):
        if first is None:
            return []
        hiding[first.name] = None
    return list(hiding)


def _firsts(
    rule: RuleSnapshot, earlier: list[RuleSnapshot], models: list[Target], links: list[Target]
) -> Iterator[RuleSnapshot | None]:
    """The earlier rule that allows each of these to the rule's audience."""
    book = RuleBook(earlier)
    yield from (_first(book, target, rule) for target in models)
    if links:
        # Of two patterns nobody knows whether one matches all that the other does, unless they are the same.
        same = [one for one in earlier if one.pattern is None or _text(one) == _text(rule)]
        any_model = RuleBook(map(_for_any_model, same))
        yield from (_first(any_model, target, rule) for target in links)


def _first(book: RuleBook, target: Target, rule: RuleSnapshot) -> RuleSnapshot | None:
    """The rule that allows the target to whoever of the rule's audience has the fewest rights.

    A request can name a provider, so each of a model's providers is judged by itself.
    """
    user_id = STRANGER if rule.user_id is None else rule.user_id
    group_ids = () if rule.group_id is None else (rule.group_id,)
    return book.judge(target.model, (target,), user_id=user_id, group_ids=group_ids)[0]


def _for_everyone(rule: RuleSnapshot) -> RuleSnapshot:
    return replace(rule, everyone=True)


def _for_any_model(rule: RuleSnapshot) -> RuleSnapshot:
    return replace(rule, pattern=None)


def _text(rule: RuleSnapshot) -> str:
    return "" if rule.pattern is None else rule.pattern.pattern


def _listed(names: list[str]) -> str:
    quoted = [repr(name) for name in names[:MAX_NAMED]]
    if len(names) > MAX_NAMED:
        return f"{', '.join(quoted)} and {len(names) - MAX_NAMED} more"
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
