"""An explanation in plain English: one thought a sentence, and for a refusal what would have to change."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gateway_project.work.cache.verdict import HIT, IN_FLIGHT
from gateway_project.work.explain.candidates import candidates_of
from gateway_project.work.explain.estimate import Estimate, verdict_of
from gateway_project.work.explain.remedies import networks_of, remedies_for
from gateway_project.work.explain.rules import Consideration
from gateway_project.work.explain.subjects import Subject
from gateway_project.work.explain.walk import Walk
from gateway_project.work.guardrails.refusals import may_repair
from gateway_project.work.limits.checks import Reading

CACHE = {
    "miss": "No stored answer fits, so a provider would be called.",
    "in flight": "An identical request is in flight, and its answer would be used.",
    "refresh": "The request asks for a fresh answer, which would be stored.",
    "bypass": "The request bypasses the cache.",
    "off": "The answer would not be stored.",
}


class Facts(NamedTuple):
    """What is known of a request that was explained."""

    walk: Walk
    subject: Subject
    consideration: Consideration
    readings: Sequence[Reading]
    estimate: Estimate | None
    cache_age: int | None


def sentences_of(facts: Facts) -> list[str]:
    """The decision, how it came about, and what would change a refusal."""
    return [
        *_verdict(facts),
        *_caller(facts),
        *_model(facts),
        *_rules(facts),
        *_targets(facts),
        *_describe_answer(facts),
    ]


def _verdict(facts: Facts) -> Iterator[str]:
    error = facts.walk.exchange.error
    if error is None:
        yield "The request would be served."
        return
    yield f"The request would be refused with {error.code} {error.exception}: {error.message}"
    yield from remedies_for(error, facts.walk, facts.subject, facts.consideration)


def _caller(facts: Facts) -> Iterator[str]:
    caller, key = facts.subject
    yield f"User {caller.name} sends it with {_credential(facts)}."
    if key is not None and (networks := networks_of(key)) and not facts.walk.exchange.connection.address:
        yield f"The key may only be used from {networks}. The address of the client is unknown and was not checked."


def _credential(facts: Facts) -> str:
    key, issuer = facts.subject.key, facts.walk.exchange.identity.trusted_issuer
    return f"key {key.name}" if key is not None else f"a token of {issuer}" if issuer else "a login"


def _model(facts: Facts) -> Iterator[str]:
    exchange = facts.walk.exchange
    if exchange.request is None or exchange.identity.caller is None:
        return
    if (alias := exchange.decision.alias) is not None:
        pattern = "" if alias.name == exchange.model else f" by its pattern {alias.name}"
        targets = count_of(len(exchange.decision.offers), "target")
        yield f"The model {exchange.model} is an alias{pattern}, with {targets} for it."
    else:
        providers = len({target.provider.id for target in exchange.decision.offers})
        verb = "offers" if providers == 1 else "offer"
        yield f"{count_of(providers, 'provider')} {verb} the model {exchange.model}."


def _rules(facts: Facts) -> Iterator[str]:
    rule = facts.walk.exchange.decision.rule
    yield from rules_sentences(facts.consideration, None if rule is None else rule.name)


def rules_sentences(consideration: Consideration, rule_name: str | None, *, past: bool = False) -> Iterator[str]:
    """Which rule allows the request, and how many are not shown."""
    rules, hidden = consideration.rules, consideration.hidden
    allows = "allowed" if past else "allows"
    if rule_name is not None:
        yield f"Rule {rule_name} {allows} it."
    elif rules or hidden:
        yield f"None of {count_of(len(rules) + hidden, 'rule')} {allows} it."
    if hidden:
        yield f"{count_of(hidden, 'rule')} for others {'is' if hidden == 1 else 'are'} not shown."


def _targets(facts: Facts) -> Iterator[str]:
    targets = candidates_of(facts.walk)
    if not targets or facts.walk.exchange.error is not None or verdict_of(facts.walk) in (HIT, IN_FLIGHT):
        return
    first, *others = targets
    yield f"Provider {first.provider.name} would be asked for {first.model}."
    if others:
        names = ", ".join(dict.fromkeys(f"{target.provider.name} ({target.model})" for target in others))
        yield f"If it fails, the next would be {names}."


def _describe_answer(facts: Facts) -> Iterator[str]:
    if facts.walk.exchange.error is not None:
        return
    checks = [reading.check for reading in facts.readings if not reading.check.is_unbounded]
    if own := [check for check in checks if not check.limit.subject.is_upstream]:
        yield f"{count_of(len(own), 'limit')} of the caller {'has' if len(own) == 1 else 'have'} room."
    yield from _cache(facts)
    yield from _repairs(facts)
    yield from _estimate(facts.estimate)


def _repairs(facts: Facts) -> Iterator[str]:
    """Which guardrails let the model be asked once more."""
    guarding, request = facts.walk.exchange.guarding, facts.walk.exchange.request
    if guarding is None or request is None or not may_repair(request) or verdict_of(facts.walk) in (HIT, IN_FLIGHT):
        return
    for guardrail in guarding.applicable.guardrails:
        if guardrail.is_for_answers and guardrail.detector.repairs:
            yield f"The model would be asked once more if the guardrail {guardrail.name} refuses its answer."


def _cache(facts: Facts) -> Iterator[str]:
    verdict = verdict_of(facts.walk)
    if verdict == HIT:
        age = "" if facts.cache_age is None else f" of {count_of(facts.cache_age, 'second')} ago"
        yield f"The stored answer{age} would be served, and no provider would be called."
    else:
        yield CACHE[verdict]


def _estimate(estimate: Estimate | None) -> Iterator[str]:
    if estimate is None:
        return
    tokens = count_of(estimate.input_tokens, "input token")
    if estimate.cost is None:
        yield f"It has about {tokens}, and its model has no price."
    else:
        amount = f"at most {estimate.cost:f} {estimate.currency}".rstrip() if estimate.cost else "nothing"
        yield f"It has about {tokens} and would cost {amount}."


def count_of(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}" if number == 1 or not noun else f"{number:,} {noun}s"
