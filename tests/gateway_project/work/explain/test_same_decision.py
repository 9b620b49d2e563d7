"""The explanation of a request and the pipeline decide alike, for thousands of requests of a random world."""

import time
from random import Random
from types import SimpleNamespace
from uuid import uuid4

import pytest

from gateway_project.errors import ActiveUseLimitReached, ProviderOverloaded
from gateway_project.work import pipeline
from gateway_project.work.explain import subjects
from gateway_project.work.explain.document import describe_decision
from gateway_project.work.explain.rules import ALIAS_ONLY
from gateway_project.work.explain.subjects import authentication_as
from gateway_project.work.explain.walk import walk_request
from gateway_project.work.routing.full_providers import FullProviders
from gateway_project.work.runtime import make_gateway
from gateway_project.work.snapshot.records import target_key
from providers.health.breakers import Breakers
from providers.health.rests import Rests
from telemetry.models import Candidate
from tests.support.provider import ScriptedProvider
from tests.support.random_world import RandomWorld, exchange_of
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

REQUESTS, DESCRIBE_EVERY = number_of(10_000), 10
SHOW_SECONDS = (ActiveUseLimitReached, ProviderOverloaded)  # their messages change each second
AFTERWARDS = "blocked the answer"  # in the message of a guardrail
PASSED_OVER = (Candidate.FULL, Candidate.UNFIT, Candidate.RESTING)  # what a target is that is never asked
REFUSED_BY = {"network": "from the address", "model": "its list of models", "tokens": "this key allows"}


def decision(exchange, target):
    """What was decided: the error, the rule, the candidates in order, who is asked, and whether an answer is stored."""
    error = exchange.error
    if error is not None and AFTERWARDS in error.message:
        error = None  # an answer cannot be foreseen
    message = "" if error is None or isinstance(error, SHOW_SECONDS) else error.message
    rule, guarding = exchange.decision.rule, exchange.guarding
    return {
        "error": (None if error is None else error.exception, message),
        "rule": None if rule is None else rule.id,
        "candidates": [(one.provider.account, one.model) for one in exchange.selection.targets],
        "first": None if target is None else (target.provider.account, target.model),
        "stored": exchange.cache.hit is not None,
        "cache": exchange.cache.key if exchange.cache.hit is not None else "",
        "guardrails": [] if guarding is None else results(guarding.request_search),
    }


def results(search):
    """What the guardrails that searched a request have come to."""
    return [] if search is None else [(one.guardrail.id, one.result, one.counts) for one in search.tallies.values()]


class SteppedClock:
    """A clock that stands still while a request is decided twice."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def gateway(settings, tmp_path):
    settings.GATEWAY_JOURNAL_DIR = tmp_path
    settings.GATEWAY_REDIS_PREFIX = f"same-decision-{uuid4().hex}"  # other tests count uses, too
    settings.GATEWAY_PROVIDER_NETWORKS = ("127.0.0.0/8",)
    parts = make_gateway()
    clock = SteppedClock()
    parts.breakers, parts.rests = Breakers(failures=5, cooldown=3, clock=clock), Rests(clock=clock)
    parts.full_providers = FullProviders(clock=clock)
    yield parts, clock
    parts.journal.close()


@pytest.mark.thorough
def test_thousands_of_requests_are_decided_alike(gateway, db):
    (parts, clock), random, outcomes = gateway, Random(24), {}
    with ScriptedProvider() as upstream:
        world = RandomWorld(random, parts, upstream.url)
        for number in range(REQUESTS):
            clock.now += 0.1
            if number % 200 == 199:
                world.change()
            if world.chance(0.03):
                world.disturb()
            compare(world, outcomes, is_described=number % DESCRIBE_EVERY == 0)
    assert "InternalError" not in outcomes
    assert outcomes.pop("as their key") > REQUESTS * 0.8
    assert all(outcomes.pop(name) > at_least for name, at_least in DESCRIBED.items()), outcomes
    assert all(outcomes.pop(name) > SOME for name in REFUSED_BY), outcomes
    assert sum(outcomes.values()) >= REQUESTS * 0.99
    assert outcomes[None] > REQUESTS * 0.05
    assert {"RuleDenied", "ProviderNotSelected", "AuthenticationFailed", "PermissionDenied"} <= outcomes.keys()
    assert {"RateLimited", "ActiveUseLimitReached", "CacheMiss", "ValidationError"} <= outcomes.keys()
    assert outcomes["GuardrailBlocked"] > SOME
    assert outcomes["RuleDenied"] > SOME


SOME = REQUESTS // 500
# What the documents have to have shown how often.
DESCRIBED = {
    "described": REQUESTS // 20, "with a rule": REQUESTS // 100, "with candidates": REQUESTS // 200,
    "with some left out": REQUESTS // 200,
}  # fmt: skip


def compare(world, outcomes, *, is_described):
    gateway, (environ, body) = world.gateway, world.request()
    minute = time.time() // 60
    explained = walk_request(exchange_of(environ, body, gateway), gateway)
    subject = subject_of(world, environ)
    as_key = subject and walk_request(exchange_of(environ, body, gateway), gateway, authentication_as(subject))
    document = describe_decision(explained, subject, with_all=True) if subject and is_described else None
    real = exchange_of(environ, body, gateway)
    pipeline.run_stages(real, gateway, pipeline.STAGES)
    first_sending = SimpleNamespace(target=real.attempts.sendings[0].target if real.attempts.sendings else None)
    pipeline.finish_request(real, gateway)
    if time.time() // 60 != minute:
        return  # the limits of a minute began anew between the two
    decided = decision(real, first_sending.target)
    assert decision_of(explained) == decided, (environ, body)
    if as_key:
        assert decision_of(as_key) == decided, (environ, body)
        count(outcomes, "as their key")
    if document is not None:
        check_document(document, real, outcomes)
    count(outcomes, real.error.exception if real.error is not None else None)
    if (reason := restriction_of(real)) is not None:
        count(outcomes, reason)


def count(outcomes, name):
    outcomes[name] = outcomes.get(name, 0) + 1


def subject_of(world, environ):
    """The key of a request and its owner; None if one of them does not exist."""
    key = world.keys.get(environ["HTTP_AUTHORIZATION"].removeprefix("Bearer "))
    caller = key and world.gateway.snapshot.callers.get(key.owner_id)
    return subjects.Subject(caller, key) if caller else None


def decision_of(explained):
    return decision(explained.exchange, explained.exchange.attempts.target if explained.request is not None else None)


def check_document(document, real, outcomes):
    """The document shows the rule, the candidates and what is left out of the request that was sent."""
    count(outcomes, "described")
    allowing = {row["id"]: row["reason"] for row in document["rules"] if row["matched"] and row["effect"] == "allow"}
    if real.decision.rule is not None:
        assert list(allowing) == [real.decision.rule.id]
        assert ALIAS_ONLY not in allowing.values()
        count(outcomes, "with a rule")
    elif real.error is not None and real.error.exception == "RuleDenied":
        assert set(allowing.values()) <= {ALIAS_ONLY if real.decision.alias is not None else None}
    passed = {key for key, (outcome, _) in real.attempts.outcomes.items() if outcome in PASSED_OVER}
    candidates = [target for target in real.candidates if target_key(target) not in passed]
    assert names_of(document["candidates"]) == [(one.provider.name, one.model) for one in candidates]
    assert [row["position"] for row in document["candidates"]] == list(range(1, len(candidates) + 1))
    check_left_out(document, real, {one.key for one in candidates})
    if candidates:
        count(outcomes, "with candidates")
    if document["leftOut"]:
        count(outcomes, "with some left out")


def check_left_out(document, real, candidate_keys):
    """All that was offered or chosen and is no candidate, once; more only for a linked key or an alias's conditions."""
    considered = (*real.candidates, *real.selection.targets, *real.decision.offers)
    rest = {(one.provider.name, one.model) for one in considered if one.key not in candidate_keys}
    omissions = names_of(document["leftOut"])
    assert len(omissions) == len(set(omissions))
    assert not set(omissions) & set(names_of(document["candidates"]))
    key = real.identity.key
    if real.decision.alias is None and (key is None or key.provider_id is None):
        assert set(omissions) == rest
    else:
        assert set(omissions) >= rest


def names_of(rows):
    return [(row["provider"], row["model"]) for row in rows]


def restriction_of(exchange):
    """The restriction of its key that refused a request; None if none did."""
    message = "" if exchange.error is None else exchange.error.message
    return next((name for name, words in REFUSED_BY.items() if words in message), None)
