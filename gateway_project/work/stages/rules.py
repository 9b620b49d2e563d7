"""Stage 3: may this caller, with this key, ask this model of one of these providers?"""

from collections.abc import Mapping
from typing import NamedTuple

from gateway_project.errors import PermissionDenied, RuleDenied
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot.records import AliasSnapshot, Caller, KeySnapshot, Snapshot, Target, Tiers
from keys.restrictions import WRONG_MODEL
from providers.catalogue import servable_targets
from rules.matching import RuleSnapshot, name_of

Judgement = tuple[RuleSnapshot | None, tuple[Target, ...]]


def apply_rules(exchange: Exchange, gateway: Gateway) -> None:
    """Set the targets that may serve the request, and the rule that allows it. Raises RuleDenied, PermissionDenied."""
    caller, key, decision, snapshot = (
        exchange.identity.caller,
        exchange.identity.key,
        exchange.decision,
        gateway.snapshot,
    )
    assert caller is not None
    model = exchange.model
    alias = decision.alias = snapshot.aliases.resolve(model)
    if alias is None:
        decision.offers = _offers(model, key, snapshot)
    else:
        decision.tiers = alias.tiers_for(caller, key, exchange.options.tags)
        decision.offers = _targets(decision.tiers, key)
    targets = requested_targets(exchange)
    model_name = model if alias is not None else name_of(model, targets)
    permitted = permitted_targets(model_name, targets, key)
    if permitted is None:
        raise PermissionDenied(WRONG_MODEL.format(model=model_name), field="model")
    decision.rule, decision.allowed = _judge(model, alias, permitted, caller, snapshot)
    if decision.rule is None:
        raise RuleDenied(f"No rule allows {caller.name} to use the model {model_name}.")


def requested_targets(exchange: Exchange) -> tuple[Target, ...]:
    """The offers; if the request names a provider, only those of that provider."""
    offers, provider_name = exchange.decision.offers, exchange.options.provider_name
    if not provider_name:
        return offers
    return tuple(target for target in offers if target.provider.matches_name(provider_name))


def allowed_targets(model: str, caller: Caller, key: KeySnapshot | None, snapshot: Snapshot) -> tuple[Target, ...]:
    """The targets that may and can serve this caller's requests for the model, each with some tags at least."""
    return judge_question(Question(model, caller, key), snapshot).targets


class Question(NamedTuple):
    """May this caller, with this key, ask for the model? Without tags, with any; a provider's id, if it is named."""

    model: str
    caller: Caller
    key: KeySnapshot | None = None
    tags: Mapping[str, str] | None = None
    provider_id: int | None = None


class QuestionAnswer(NamedTuple):
    """The rule that allows it and the targets that may and can serve it.

    `name` is what the rules judge, `permitted` are the offers that the key's own list names, None if it names none.
    `alias` is what the model names, with `tiers` as they are for this caller.
    """

    name: str
    permitted: tuple[Target, ...] | None
    rule: RuleSnapshot | None = None
    targets: tuple[Target, ...] = ()
    alias: AliasSnapshot | None = None
    tiers: Tiers = ()


def judge_question(question: Question, snapshot: Snapshot) -> QuestionAnswer:
    """What apply_rules() decides, without a request."""
    model, caller, key, tags, provider_id = question
    alias = snapshot.aliases.resolve(model)
    tiers = () if alias is None else alias.tiers_for(caller, key, tags)
    offers = _offers(model, key, snapshot) if alias is None else _targets(tiers, key)
    if provider_id is not None:
        offers = tuple(target for target in offers if target.provider.id == provider_id)
    name = model if alias is not None else name_of(model, offers)
    permitted = permitted_targets(name, offers, key)
    if permitted is None:
        return QuestionAnswer(name, None)
    rule, allowed = _judge(model, alias, permitted, caller, snapshot)
    return QuestionAnswer(name, permitted, rule, servable_targets(allowed) if rule is not None else (), alias, tiers)


def permitted_targets(name: str, targets: tuple[Target, ...], key: KeySnapshot | None) -> tuple[Target, ...] | None:
    """The targets whose models the key's own list names, too; None if it does not name what was asked for, or any."""
    restrictions = None if key is None else key.restrictions
    if restrictions is None or not restrictions.models:
        return targets
    permitted = tuple(target for target in targets if restrictions.allow_model(target.model))
    return permitted if restrictions.allow_model(name) and (permitted or not targets) else None


def _offers(model: str, key: KeySnapshot | None, snapshot: Snapshot) -> tuple[Target, ...]:
    """The key's own provider, else every provider with the model."""
    if key is None or key.provider_id is None:
        return snapshot.targets_for(model)
    return snapshot.linked_targets(model, key.provider_id)


def _targets(tiers: Tiers, key: KeySnapshot | None) -> tuple[Target, ...]:
    """The targets of an alias; with a linked key those at its provider."""
    linked = None if key is None else key.provider_id
    return tuple(one.target for tier in tiers for one in tier if linked in (None, one.target.provider.id))


def _judge(
    model: str, alias: AliasSnapshot | None, offers: tuple[Target, ...], caller: Caller, snapshot: Snapshot
) -> Judgement:
    judge = snapshot.rules.judge if alias is None else snapshot.rules.judge_alias
    return judge(model, offers, user_id=caller.id, group_ids=caller.group_ids)
