"""A random world of providers, rules, limits and keys, and random requests to it."""

import io
import json
import math
import time
from random import Random

from gateway_project.work.doors import WORK
from gateway_project.work.exchange import Exchange
from gateway_project.work.guardrails.book import Audience, GuardrailBook, GuardrailSnapshot
from gateway_project.work.guardrails.remote.compilation import compile_guardrail
from gateway_project.work.limits.book import LimitBook, LimitRow
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.routing.aliases import AliasRow, Condition, MirrorRow, TargetRow
from gateway_project.work.snapshot.records import Caller, KeySnapshot, Target, as_siblings
from gateway_project.work.streaming.stream import ClientConnection
from keys.restrictions import KeyRestrictions, restrictions_of
from keys.secrets import generate_key
from licensing.terms import Terms
from providers.transport.calls import Call
from providers.transport.transport import TransportLimits
from rules.matching import RuleSnapshot
from rules.patterns import compile_pattern
from tests.support.snapshot_records import provider

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
