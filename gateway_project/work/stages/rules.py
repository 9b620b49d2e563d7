"""Stage 3: may this caller ask this model of one of these providers?"""

from gateway_project.errors import RuleDenied
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot.records import Caller, KeySnapshot, Snapshot, Target
from providers.catalogue import servable
from rules.matching import RuleSnapshot


def apply_rules(exchange: Exchange, gateway: Gateway) -> None:
    """Set the targets that may serve the request, and the first rule that allows it. Raises RuleDenied."""
    caller = exchange.caller
    assert caller is not None
    offered = exchange.offers = _offers(exchange.model, exchange.key, gateway.snapshot)
    if provider_name := exchange.requested_provider:
        offered = tuple(target for target in offered if target.provider.matches_name(provider_name))
    exchange.rule, exchange.allowed = _judge(exchange.model, offered, caller, gateway.snapshot)
    if exchange.rule is None:
        model = offered[0].model if offered else exchange.model
        raise RuleDenied(f"No rule allows {caller.name} to use the model {model}.")


def allowed_targets(model: str, caller: Caller, key: KeySnapshot | None, snapshot: Snapshot) -> tuple[Target, ...]:
    """The targets that may and can serve this caller's request for the model."""
    rule, allowed = _judge(model, _offers(model, key, snapshot), caller, snapshot)
    return servable(allowed) if rule is not None else ()


def _offers(model: str, key: KeySnapshot | None, snapshot: Snapshot) -> tuple[Target, ...]:
    """The key's own provider, else every provider with the model."""
    if key is None or key.provider_id is None:
        return snapshot.targets_for(model)
    return snapshot.linked_targets(model, key.provider_id)


def _judge(
    model: str, offered: tuple[Target, ...], caller: Caller, snapshot: Snapshot
) -> tuple[RuleSnapshot | None, tuple[Target, ...]]:
    return snapshot.rules.judge(model, offered, user_id=caller.id, group_ids=caller.group_ids)
