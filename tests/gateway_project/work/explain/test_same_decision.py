"""The explanation of a request and the pipeline decide alike, for thousands of requests of a random world."""

import io
import json
import math
import time
from random import Random
from types import SimpleNamespace
from uuid import uuid4

import pytest

from gateway_project.errors import ActiveUseLimitReached, ProviderOverloaded
from gateway_project.work import pipeline
from gateway_project.work.doors import WORK
from gateway_project.work.exchange import Exchange
from gateway_project.work.explain import subjects
from gateway_project.work.explain.document import describe_decision
from gateway_project.work.explain.rules import ALIAS_ONLY
from gateway_project.work.explain.subjects import authentication_as
from gateway_project.work.explain.walk import walk_request
from gateway_project.work.guardrails.book import Audience, GuardrailBook, GuardrailSnapshot
from gateway_project.work.guardrails.remote.compilation import compile_guardrail
from gateway_project.work.limits.book import LimitBook, LimitRow
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.routing.aliases import AliasRow, Condition, MirrorRow, TargetRow
from gateway_project.work.routing.full_providers import FullProviders
from gateway_project.work.runtime import make_gateway
from gateway_project.work.snapshot.records import Caller, KeySnapshot, Target, as_siblings, target_key
from gateway_project.work.streaming.stream import ClientConnection
from keys.restrictions import KeyRestrictions, restrictions_of
from keys.secrets import generate_key
from licensing.terms import Terms
from providers.health.breakers import Breakers
from providers.health.rests import Rests
from providers.transport.calls import Call
from providers.transport.transport import TransportLimits
from rules.matching import RuleSnapshot
from rules.patterns import compile_pattern
from telemetry.models import Candidate
from tests.gateway_project.work.snapshot.test_records import provider
from tests.support.provider import ScriptedProvider
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

REQUESTS, DESCRIBE_EVERY = number_of(10_000), 10
SHOW_SECONDS = (ActiveUseLimitReached, ProviderOverloaded)  # their messages change each second
AFTERWARDS = "blocked the answer"  # in the message of a guardrail
PASSED_OVER = (Candidate.FULL, Candidate.UNFIT, Candidate.RESTING)  # what a target is that is never asked
REFUSED_BY = {"network": "from the address", "model": "its list of models", "tokens": "this key allows"}
MODELS = [f"m{number}" for number in range(8)]
PATTERNS = ["", "m[0-3]", "m.*", "m1|m2", "a.*", "a[02]", "m7", "nothing"]
STRATEGIES = ["weighted", "cheapest", "least-busy", "sticky"]
CAUSES = ["error", "rate_limited", "budget", "context_length", "content_filter"]
LIMITS = [("requests", "minute"), ("tokens", "minute"), ("concurrent", "none"), ("tokens", "none")]


class RandomWorld:
    """Users, groups, keys, rules, providers, aliases and limits in a gateway's memory, and requests for them."""

    def __init__(self, random: Random, gateway, url: str) -> None:
        self.random, self.gateway, self.url = random, gateway, url
        self.credentials: list[str] = ["nonsense"]
        self.keys: dict[str, KeySnapshot] = {}  # by their text
        snapshot = gateway.snapshot
        snapshot.terms = Terms("standard", 13, 600)
        snapshot.callers = {number: self.caller(number) for number in range(1, 31)}
        snapshot.put_providers([self.provider(number) for number in range(1, 8)])
        for number in range(1, 61):
            self.add_key(number)
        self.change()

    def change(self) -> None:
        """Other rules, aliases and limits."""
        snapshot = self.gateway.snapshot
        snapshot.put_rules([self.rule(number) for number in range(1, self.random.randrange(5, 40))])
        snapshot.put_aliases([self.alias(number) for number in range(1, 6)])
        snapshot.limits = LimitBook(self.limit() for _ in range(25))
        snapshot.guardrails = GuardrailBook(self.guardrail(number) for number in range(1, 5))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def maybe(self, share: float, value):
        return value if self.chance(share) else None

    def caller(self, number: int) -> Caller:
        features = frozenset({"work"} if self.chance(0.95) else ())
        groups = tuple(self.random.sample(range(1, 7), self.random.randrange(3)))
        return Caller(number, f"user-{number}", self.chance(0.95), features, groups)

    def provider(self, number: int):
        pick = self.random
        options = {
            "url": self.url,
            "priority": pick.randrange(3),
            "weight": pick.randrange(1, 4),
            "cache_seconds": pick.choice([0, 600]),
            "cache_scope": pick.choice(["global", "group", "user", "key"]),
            "transport_limits": TransportLimits(5, 30, 30, 10**6),
            "total_seconds": 30,
            "auth_headers": {"Authorization": "Bearer sk-1"},
            **({"format": None} if self.chance(0.1) else {}),
        }
        models = pick.sample(MODELS, 5)
        accounts = [provider(number, *models, credential_id=one, **options) for one in range(pick.choice([1, 1, 2]))]
        return as_siblings(accounts)

    def add_key(self, number: int) -> None:
        new, expires = generate_key(), time.time() - 5 if self.chance(0.05) else math.inf
        permissions = frozenset({"work"} if self.chance(0.95) else ())
        owner, linked = self.random.randrange(1, 33), self.maybe(0.2, self.random.randrange(1, 9))
        locked, restrictions = self.chance(0.05), self.maybe(0.5, self.restrictions())
        name = f"key-{number}"
        key = KeySnapshot(number, name, new.digest, owner, linked, expires, locked, permissions, restrictions)
        self.gateway.snapshot.put_key(new.public_id, key)
        self.credentials.append(new.text)
        self.keys[new.text] = key

    def restrictions(self) -> KeyRestrictions | None:
        """Of the key's own: models, networks, a beginning, tags, tokens."""
        pick = self.random
        return restrictions_of(
            pick.choice([[], [], ["m[0-3]", "a[02]"], ["a.*", "m[2-6]"], ["m.*"]]),
            pick.choice([[], [], [], ["127.0.0.0/8"], ["192.0.2.0/24"]]),
            time.time() + 600 if self.chance(0.05) else 0.0,
            self.maybe(0.2, {"stage": "beta"}) or {},
            self.maybe(0.3, 40),
            "default",
        )

    def rule(self, number: int) -> RuleSnapshot:
        audience = self.random.choice(["user", "group", "group", "everyone", "nobody"])
        pattern = self.random.choice(PATTERNS)
        return RuleSnapshot(
            number,
            f"rule-{number}",
            compile_pattern(pattern) if pattern else None,
            self.random.randrange(1, 31) if audience == "user" else None,
            self.random.randrange(1, 7) if audience == "group" else None,
            audience == "everyone",
            self.maybe(0.4, self.random.randrange(1, 8)),
            denies=self.chance(0.15),
            enabled=self.chance(0.9),
            position=self.random.choice([50, 100, 100, 150]),
        )

    def alias(self, number: int) -> AliasRow:
        pick = self.random
        targets = tuple(
            TargetRow(None, "", number - 1, 1, tier, self.condition())
            if number > 1 and self.chance(0.15)
            else TargetRow(pick.randrange(1, 8), pick.choice(MODELS), None, pick.randrange(4), tier, self.condition())
            for tier in (0, 0, 1, 2)
        )
        name = pick.choice([f"a{number}", f"a{number}", "a*", "m1"])
        causes = frozenset(pick.sample(CAUSES, pick.randrange(6)))
        mirror = self.maybe(0, MirrorRow(1, "m1", 0.1))
        return AliasRow(number, name, pick.choice(STRATEGIES), causes, targets, mirror, enabled=self.chance(0.9))

    def condition(self) -> Condition:
        if self.chance(0.7):
            return Condition()
        return Condition(
            (("stage", "beta"),) if self.chance(0.5) else (), self.maybe(0.3, 2), None, self.maybe(0.1, "key-1")
        )

    def limit(self) -> LimitRow:
        kind = self.random.choice(["key", "user", "group", "provider", "login"])
        subject = Subject(kind, self.random.randrange(1, 31 if kind != "provider" else 8))
        measure, window = self.random.choice([("requests", "minute"), ("tokens", "minute"), ("concurrent", "none")])
        amount = {"requests": 20, "tokens": 3000, "concurrent": 2}[measure]
        return LimitRow(subject, f"{kind}-{subject.id}", measure, window, amount)

    def guardrail(self, number: int) -> GuardrailSnapshot:
        """One that blocks, redacts or only counts a word, for somebody; some of them for answers alone."""
        pick, words = self.random, self.random.choice([["swordfish"], ["Hello"], ["prompt 1", "prompt 2"], ["4"]])
        audience = Audience(
            everyone=self.chance(0.2),
            groups=frozenset(pick.sample(range(1, 7), 1)),
            users=frozenset(pick.sample(range(1, 31), 3)),
            rules=frozenset(pick.sample(range(1, 40), 2)),
            keys=frozenset(pick.sample(range(1, 61), 5)),
            aliases=frozenset(["a1"] if self.chance(0.3) else []),
        )
        return GuardrailSnapshot(
            number,
            f"guardrail-{number}",
            pick.randrange(3),
            pick.choice(["block", "redact", "monitor"]),
            str(words),
            compile_guardrail("words", {"words": words}),
            audience,
            is_for_requests=self.chance(0.8),
        )

    def request(self):
        """WSGI's environment of a request, without its body, and the body."""
        pick = self.random
        body = {
            "model": pick.choice([*MODELS, "a1", "a2", "a3", "a4", "a5", "axe", "p1/m1", "unknown", ""]),
            "messages": [{"role": "user", "content": f"prompt {pick.randrange(5)}"}],
        }
        if self.chance(0.3):
            body["max_tokens"] = pick.choice([5, 50, 5000])
        if self.chance(0.02):
            body["stream"] = "yes"
        environ = {"HTTP_AUTHORIZATION": f"Bearer {pick.choice(self.credentials)}", "CONTENT_TYPE": "application/json"}
        headers = {
            "HTTP_X_SVC_PROVIDER": f"p{pick.randrange(1, 9)}",
            "HTTP_X_SVC_CACHE": pick.choice(["refresh", "only"]),
            "HTTP_X_SVC_FALLBACK": "off",
            "HTTP_X_SVC_TAGS": "stage=beta",
            "HTTP_X_SVC_STRATEGY": pick.choice(STRATEGIES),
            "HTTP_X_SVC_SESSION": "s1",
            "HTTP_X_SVC_TIMEOUT": pick.choice(["30", "never"]),
        }
        share = {"HTTP_X_SVC_TIMEOUT": 0.03}
        environ |= {name: value for name, value in headers.items() if self.chance(share.get(name, 0.1))}
        return environ, json.dumps(body).encode()

    def disturb(self) -> None:
        """A provider fails, rests or is full, for a moment."""
        account = self.random.choice(self.random.choice(list(self.gateway.snapshot.providers.values())).accounts)
        if self.chance(0.6):
            for _ in range(5):
                self.gateway.breakers.record_failure(account)
        else:
            target = Target(account, self.random.choice(sorted(account.models) or ["m0"]))
            if self.chance(0.3):
                self.gateway.rests.pause(target)
            else:
                self.gateway.rests.begin(target, self.random.choice([429, 503]), 3)


def exchange_of(environ, body, gateway):
    values = environ | {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "REQUEST_METHOD": "POST"}
    call = Call(client=None, total_seconds=gateway.total_seconds)
    return Exchange(ClientConnection(values, None, "127.0.0.1"), "request", WORK, call=call)


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
