"""The targets in the order in which they would be asked, with the reasons, and those that are left out."""

import math
from collections.abc import Iterator, Sequence

from gateway_project.json_types import JsonObject
from gateway_project.work.exchange import Exchange
from gateway_project.work.explain.walk import Walk
from gateway_project.work.failover.outcomes import outcome_at
from gateway_project.work.routing.alias_preview import words_of
from gateway_project.work.routing.aliases import Condition
from gateway_project.work.routing.ordering import strategy_of, tiers_of
from gateway_project.work.routing.strategies import Strategy, Weighted
from gateway_project.work.snapshot.records import Target, Tiers, target_key
from providers.models import Model
from telemetry.models import Candidate

BY_STRATEGY = {
    Strategy.WEIGHTED: "drawn by weight",
    Strategy.FASTEST: "in the order of the time to the first token",
    Strategy.CHEAPEST: "in the order of the estimated cost",
    Strategy.LEAST_BUSY: "in the order of the requests in flight",
    Strategy.STICKY: "drawn by weight for the session",
}
# Why the stages leave a target out.
PASSED_OVER = {
    Candidate.FULL: "One of its limits is used up.",
    Candidate.NOT_WANTED: "The request names another provider.",
    Candidate.NOT_TRIED: "It comes after targets whose failure ends the request.",
}
Row = tuple[Target, str]  # a target and the reason


def candidates_of(walk: Walk) -> tuple[Target, ...]:
    """The targets that would be asked, best first."""
    passed = walk.exchange.attempts.outcomes
    return tuple(target for target in walk.exchange.candidates if target_key(target) not in passed)


def candidate_rows(walk: Walk) -> list[JsonObject]:
    """The targets that would be asked as data, each with the reason for its position."""
    targets = candidates_of(walk)
    return [
        _row(target, _position_reason(number, targets, walk), position=number + 1)
        for number, target in enumerate(targets)
    ]


def omitted_rows(walk: Walk, *, with_all: bool) -> list[JsonObject]:
    """The targets that would not be asked, as data, each once and with the reason.

    `with_all`: with conditions of aliases that name other users, groups and keys.
    """
    exchange = walk.exchange
    if exchange.request is None or exchange.identity.caller is None:
        return []
    keys = {target.key for target in candidates_of(walk)}
    rows: dict[tuple[int, str], Row] = {}
    omissions = (*_passed_over(walk), *_unlinked_targets(walk), *_without_conditions(walk, with_all=with_all))
    for target, reason in omissions:
        if target.key not in keys:
            rows.setdefault(target.key, (target, reason))
    return [_row(*row) for row in rows.values()] + _disabled_providers(exchange)


def _row(target: Target, reason: str, **more: object) -> JsonObject:
    return {"provider": target.provider.name, "model": target.model, **more, "reason": reason}


def _position_reason(number: int, targets: Sequence[Target], walk: Walk) -> str:
    target, exchange = targets[number], walk.exchange
    if number and targets[number - 1].key == target.key:
        return "It is another credential of the provider before it."
    if len(targets) == 1:
        return "It is the only target that can serve."
    if walk.gateway.rests.pause_of(target) is not None:
        return "Its provider refused a request with 429 a moment ago. It is asked only if no other target can serve."
    for tier_number, tier in enumerate(tiers_of(exchange, targets), 1):
        if weighted := next((one for one in tier if one.target.key == target.key), None):
            return _place(target, weighted, tier, tier_number, exchange)
    return "It can serve."


def _place(
    target: Target, weighted: Weighted[Target], tier: Sequence[Weighted[Target]], number: int, exchange: Exchange
) -> str:
    alias = exchange.decision.alias
    where = f"tier {number} of alias {alias.name}" if alias is not None else f"priority {target.provider.priority}"
    weights = {one.target.key: one.weight for one in tier}
    if len(weights) == 1:
        return f"It is alone in {where}."
    share = round(100 * weighted.weight / sum(weights.values()))
    return f"It has {share} % of the weight of {where}, {BY_STRATEGY[strategy_of(exchange)]}."


def _passed_over(walk: Walk) -> Iterator[Row]:
    """The targets that have been candidates at some stage, and are not asked."""
    exchange = walk.exchange
    for target in (*exchange.candidates, *exchange.selection.targets, *exchange.decision.offers):
        outcome, detail = outcome_at(target, exchange)
        yield target, _reason(Candidate(outcome), detail, target, walk)


def _reason(outcome: Candidate, detail: str, target: Target, walk: Walk) -> str:
    key = walk.exchange.identity.key
    if outcome is Candidate.NOT_ALLOWED and key is not None and not key.allows_model(target.model):
        return "The key's list of models does not name it."
    if outcome is Candidate.NOT_ALLOWED:
        return _refusal_reason(target, walk)
    if outcome is Candidate.UNFIT:
        return f"It cannot take the request: {detail.partition(': ')[2] or detail}"
    if outcome is Candidate.RESTING:
        return _rest_reason(target, walk)
    return PASSED_OVER.get(outcome, PASSED_OVER[Candidate.NOT_TRIED])


def _rest_reason(target: Target, walk: Walk) -> str:
    if seconds := math.ceil(walk.gateway.rests.seconds_left(target)):
        return f"It rests for {seconds} more seconds: the provider sent Retry-After."
    return "Its circuit is open."


def _refusal_reason(target: Target, walk: Walk) -> str:
    """Why the rules leave the target out. They judge its own name, or else that of the alias."""
    exchange, caller, book = walk.exchange, walk.exchange.identity.caller, walk.gateway.snapshot.rules
    assert caller is not None, "who is not known has no targets"
    is_allowed = book.allows(target, user_id=caller.id, group_ids=caller.group_ids)
    name = exchange.model if is_allowed else target.model
    considered = book.consider_rules(name, (target,), user_id=caller.id, group_ids=caller.group_ids)
    rule = next((one.rule for one in considered if one.has_matched and one.rule.denies), None)
    if rule is not None:
        return f"Rule {rule.name} denies it."
    if is_allowed and exchange.decision.rule is not None:
        return f"Rule {exchange.decision.rule.name} decides, and it allows another provider."
    return f"No rule allows {name} of this provider."


def _unlinked_targets(walk: Walk) -> Iterator[Row]:
    """The targets of other providers than the one that the key is linked to."""
    exchange, snapshot = walk.exchange, walk.gateway.snapshot
    key = exchange.identity.key
    if key is None or key.provider_id is None:
        return
    linked = snapshot.providers.get(key.provider_id)
    reason = f"The key is linked to {f'provider {linked.name}' if linked is not None else 'a disabled provider'}."
    is_alias = exchange.decision.alias is not None
    targets = _flatten_tiers(exchange.decision.tiers) if is_alias else snapshot.targets_for(exchange.model)
    yield from ((target, reason) for target in targets if target.provider.id != key.provider_id)


def _flatten_tiers(tiers: Tiers) -> tuple[Target, ...]:
    return tuple(one.target for tier in tiers for one in tier)


def _without_conditions(walk: Walk, *, with_all: bool) -> Iterator[Row]:
    """The targets of the alias whose conditions do not hold."""
    exchange = walk.exchange
    caller, key, alias = exchange.identity.caller, exchange.identity.key, exchange.decision.alias
    if alias is None or caller is None:
        return
    for tier in alias.tiers:
        for target in tier:
            if not target.fits(caller, key, exchange.options.tags):
                yield (
                    target.target,
                    f"Its conditions do not hold: {_words(target.conditions, walk, with_all=with_all)}.",
                )


def _words(conditions: Sequence[Condition], walk: Walk, *, with_all: bool) -> str:
    """The conditions, as far as they are about tags or about this caller; `with_all`: all of them."""
    visible = [
        condition if with_all or _is_about_caller(condition, walk) else Condition(condition.tags)
        for condition in conditions
    ]
    words = list(filter(None, map(words_of, visible)))
    return "; ".join(words if visible == [*conditions] else [*words, "it is for other callers"])


def _is_about_caller(condition: Condition, walk: Walk) -> bool:
    """Whether a condition names nothing but tags, this caller, their groups and the key that they use."""
    identity = walk.exchange.identity
    caller, key = identity.caller, identity.key
    assert caller is not None, "who is not known has no targets"
    _, group_id, user_id, key_name = condition
    may_name_key = not identity.trusted_issuer if key is None else key.name == key_name
    is_own_key = key_name is None or (user_id == caller.id and may_name_key)
    return is_own_key and user_id in (None, caller.id) and group_id in (None, *caller.group_ids)


def _disabled_providers(exchange: Exchange) -> list[JsonObject]:
    """The models of disabled providers, which are not in the snapshot."""
    if exchange.decision.alias is not None:
        return []
    models = Model.objects.filter(name=exchange.model, provider__enabled=False).select_related("provider")
    return [
        {"provider": row.provider.name, "model": row.name, "reason": "The provider is disabled."}
        for row in models.order_by("provider__name")
    ]
