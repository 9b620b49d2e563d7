"""Stage 4: which of the allowed targets, best first?"""

from gateway_project.errors import ProviderNotSelected, ValidationError
from gateway_project.work.cache.key import digest
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.admission import accountable_targets
from gateway_project.work.reading.body import bound_for_unknown_shapes
from gateway_project.work.routing.credentials import account_seed, with_credentials
from gateway_project.work.routing.ordering import in_order, seed_of, tiers_of
from gateway_project.work.routing.readiness import account_state, reachable_tiers, without_full, without_resting
from gateway_project.work.snapshot.records import Target, target_key
from providers.catalogue import servable_targets
from rules.aliases.models import FallbackCause
from telemetry.models import Candidate


def choose_candidates(exchange: Exchange, gateway: Gateway) -> None:
    """Set the candidates in the order in which they are tried. Raises ProviderNotSelected."""
    request, usable = exchange.request, list(servable_targets(exchange.decision.allowed))
    assert request is not None
    if not usable:
        raise ProviderNotSelected(_why_none(exchange))
    if len(usable) > 1 and (name := request.stateful_parameter):
        raise ValidationError(
            f"{name} refers to something that one provider stores, but several providers offer this model. Name the "
            f"provider, as in {usable[0].provider.name}/{usable[0].model}.",
            field=name,
            reason=request.dialect.stateful_unsupported_code,
        )
    if request.operation == "embedding":
        request = bound_for_unknown_shapes(exchange, usable)
    if exchange.options.cache_control != "bypass":
        exchange.selection.digest = digest(request.body)
    if len(usable) > 1 or usable[0].provider.siblings:
        usable = _in_order(usable, exchange, gateway)
    exchange.selection.targets = tuple(usable)


def _in_order(targets: list[Target], exchange: Exchange, gateway: Gateway) -> list[Target]:
    """The targets that may be asked, tier after tier; only one, with all its credentials, without any fallback."""
    seed = seed_of(exchange)
    tiers = [in_order(tier, exchange, gateway, seed) for tier in tiers_of(exchange, targets)]
    if not exchange.options.may_fall_back:
        tiers = tiers[:1]
    ordered = [target for tier in reachable_tiers(tiers, exchange.fallback_on, gateway) for target in tier]
    ready = _ready_targets(with_credentials(ordered, account_seed(exchange, ordered, seed)), exchange, gateway)
    return ready if exchange.options.may_fall_back else [target for target in ready if target.key == ready[0].key]


def _ready_targets(ordered: list[Target], exchange: Exchange, gateway: Gateway) -> list[Target]:
    """Those that do not rest and whose limits are not known to be full; all of them if each is.

    One that limits refuse for its lack of a price does not stand in for one that rests.
    """
    accountable = accountable_targets(ordered, exchange, gateway)
    ready = without_full(without_resting(accountable, gateway), gateway)
    if len(ready) < len(ordered):
        for target in ordered:
            if target not in ready:
                is_full = target not in accountable or account_state(target, gateway) is FallbackCause.BUDGET
                exchange.selection.passed_over[target_key(target)] = Candidate.FULL if is_full else Candidate.RESTING
    return ready


def _why_none(exchange: Exchange) -> str:
    if exchange.decision.allowed:
        formats = ", ".join(sorted({target.provider.format_name for target in exchange.decision.allowed}))
        return f"This version does not know the format of the model's providers: {formats}."
    if exchange.decision.alias is not None:
        return (
            f"No target of the alias {exchange.decision.alias.name} is enabled and meets its conditions for this "
            "request."
        )
    if exchange.identity.key is not None and exchange.identity.key.provider_id is not None:
        return "The provider that this key is linked to is disabled, or is not the one requested."
    if exchange.options.provider_name:
        return f"No enabled provider named {exchange.options.provider_name} offers the model {exchange.model}."
    return f"No enabled provider offers the model {exchange.model}."
