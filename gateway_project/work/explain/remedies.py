"""What would have to change for a refused request to be served."""

import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from gateway_project.errors import (
    ActiveUseLimitReached,
    AuthenticationFailed,
    CacheMiss,
    GatewayError,
    LicenceInvalid,
    LimitError,
    PermissionDenied,
    ProviderNotSelected,
    ProviderOverloaded,
    RuleDenied,
    ValidationError,
)
from gateway_project.work.explain.rules import Consideration, is_for
from gateway_project.work.explain.subjects import Subject
from gateway_project.work.explain.walk import Walk
from gateway_project.work.snapshot.records import Caller, KeySnapshot
from gateway_project.work.stages.authentication import FEATURE
from rules.matching import ConsideredRule, Mismatch

MAX_NEAR_MISSES = 3
Remedy: TypeAlias = Callable[[GatewayError, Walk, Subject, Consideration], Iterator[str]]


def remedies_for(error: GatewayError, walk: Walk, subject: Subject, consideration: Consideration) -> Iterator[str]:
    """Sentences on what would help, the simplest first."""
    for kind, remedy in REMEDIES.items():
        if isinstance(error, kind):
            yield from remedy(error, walk, subject, consideration)
            return


def _credential(error: GatewayError, walk: Walk, subject: Subject, _: Consideration) -> Iterator[str]:
    caller, key = subject
    if not caller.usable:
        yield f"User {caller.name} is inactive or deleted and has to be activated."
    if key is not None and key.locked:
        yield f"Key {key.name} is locked, and has to be unlocked."
    if key is not None and key.expires <= time.time():
        yield f"Key {key.name} has expired, and needs a later expiry."
    if key is not None and key.restrictions is not None and key.restrictions.not_before > time.time():
        yield f"Key {key.name} is not valid yet and needs an earlier beginning."


def _permission(error: GatewayError, walk: Walk, subject: Subject, consideration: Consideration) -> Iterator[str]:
    caller, key = subject
    if FEATURE not in caller.features:
        yield f"User {caller.name} needs a role with the feature {FEATURE}."
    if key is not None and FEATURE not in key.permissions:
        yield f"Key {key.name} needs the permission {FEATURE}."
    if key is None or key.restrictions is None:
        return
    if (address := walk.exchange.connection.address) and not key.restrictions.allow_address(address):
        yield (
            f"The networks of key {key.name} have to contain {address}. Now the key may only be used from "
            f"{networks_of(key)}."
        )
    elif walk.exchange.request is not None and FEATURE in caller.features & key.permissions:
        yield from _key_models(key, walk, consideration.model)


def networks_of(key: KeySnapshot) -> str:
    """The networks from which the key may be used, for people; '' for any."""
    return "" if key.restrictions is None else ", ".join(map(str, key.restrictions.networks))


def _key_models(key: KeySnapshot, walk: Walk, model: str) -> Iterator[str]:
    if not key.allows_model(model):
        yield f"The list of models of key {key.name} has to name {model}."
    models = dict.fromkeys(target.model for target in walk.exchange.decision.offers if target.model != model)
    if walk.exchange.decision.alias is not None and not any(map(key.allows_model, models)):
        yield f"The list of models of key {key.name} has to name a target of the alias: {' or '.join(models)}."


def _rule(error: GatewayError, walk: Walk, subject: Subject, consideration: Consideration) -> Iterator[str]:
    is_alias = walk.exchange.decision.alias is not None
    yield from rule_remedies(consideration, subject.caller, is_alias=is_alias)


def rule_remedies(consideration: Consideration, caller: Caller, *, is_alias: bool) -> Iterator[str]:
    """What would help against a refusal by the rules."""
    denying = [verdict.rule.name for verdict in consideration.rules if verdict.has_matched and verdict.rule.denies]
    if denying:
        yield f"Rule {denying[0]} denies it, and has to be changed or disabled."
        return
    if is_alias and any(verdict.has_matched for verdict in consideration.rules):  # its name is allowed
        yield "Rules have to allow one of the alias's targets, too."
        return
    yield f"A rule for user {caller.name}, a group of theirs or everyone has to allow the model {consideration.model}."
    if is_alias:
        yield "Rules have to allow one of the alias's targets, too."
    near = [verdict for verdict in consideration.rules if _is_near(verdict, caller, consideration.model)]
    yield from map(_near_miss, near[:MAX_NEAR_MISSES])


NEAR = (Mismatch.MODEL, Mismatch.PROVIDER, Mismatch.DISABLED)


def _is_near(verdict: ConsideredRule, caller: Caller, model: str) -> bool:
    """Whether the rule is for the caller, and one change would let it allow the model."""
    rule, mismatch = verdict
    if rule.denies or mismatch not in NEAR or not is_for(rule, caller):
        return False
    return mismatch is not Mismatch.DISABLED or rule.pattern is None or bool(rule.pattern.fullmatch(model))


def _near_miss(verdict: ConsideredRule) -> str:
    rule, mismatch = verdict
    if mismatch is Mismatch.DISABLED:
        return f"Rule {rule.name} is disabled."
    if mismatch is Mismatch.PROVIDER:
        return f"Rule {rule.name} allows another provider only."
    return f"Rule {rule.name} allows only models that match {rule.pattern.pattern if rule.pattern else ''}."


def _limit(error: GatewayError, walk: Walk, subject: Subject, _: Consideration) -> Iterator[str]:
    assert isinstance(error, LimitError)
    if error.permanent:
        yield "The request has to become smaller, or the limit higher."
    else:
        yield "The request fits again after the reset, or with a higher limit."


def _uses(error: GatewayError, walk: Walk, subject: Subject, _: Consideration) -> Iterator[str]:
    yield "Another user's active use has to end, or the licence has to allow more."


def _licence(error: GatewayError, walk: Walk, subject: Subject, _: Consideration) -> Iterator[str]:
    yield "A valid licence has to be installed."


def _provider(error: GatewayError, walk: Walk, subject: Subject, _: Consideration) -> Iterator[str]:
    key, alias = subject.key, walk.exchange.decision.alias
    if alias is not None:
        yield f"The alias {alias.name} needs an enabled target {_place_of_target(walk, key)}."
    elif key is not None and key.provider_id is not None:
        yield (
            f"Key {key.name} is linked to one provider. This provider has to be enabled, and the request must not "
            "name another one."
        )
    else:
        yield f"An enabled provider has to offer the model {walk.exchange.model}."


def _place_of_target(walk: Walk, key: KeySnapshot | None) -> str:
    """Which target an alias lacks."""
    if walk.exchange.options.provider_name:
        return "at the provider that the request names"
    if key is not None and key.provider_id is not None:
        return f"at the provider that key {key.name} is linked to"
    return "whose conditions the request meets"


def _pause(error: GatewayError, walk: Walk, subject: Subject, _: Consideration) -> Iterator[str]:
    yield "The request can be served after the pause, or by another provider of the model."


def _request(error: GatewayError, walk: Walk, subject: Subject, _: Consideration) -> Iterator[str]:
    place = getattr(error, "field", "") or error.header or error.parameter
    yield f"The request has to be corrected{f' at {place}' if place else ''}."


def _miss(error: GatewayError, walk: Walk, subject: Subject, _: Consideration) -> Iterator[str]:
    yield "Without X-Svc-Cache: only, a provider would be asked."


REMEDIES: dict[type[GatewayError], Remedy] = {
    AuthenticationFailed: _credential,
    PermissionDenied: _permission,
    RuleDenied: _rule,
    LicenceInvalid: _licence,
    ActiveUseLimitReached: _uses,
    LimitError: _limit,
    ProviderNotSelected: _provider,
    ProviderOverloaded: _pause,
    CacheMiss: _miss,
    ValidationError: _request,
}
