"""What if and the pipeline judge alike: thousands of random requests, before and after a draft is in force."""

from copy import copy
from decimal import Decimal
from random import Random

import pytest

from gateway_project.errors import GatewayError
from gateway_project.work import pipeline
from gateway_project.work.routing.ordering import tiers_of
from gateway_project.work.routing.strategies import Strategy
from gateway_project.work.stages.rules import apply_rules
from gateway_project.work.what_if.outcome import Change
from gateway_project.work.what_if.replay import Replay, change_of
from gateway_project.work.what_if.traffic import Traffic
from providers.catalogue import servable_targets
from providers.formats import Usage
from tests.gateway_project.work.explain.test_same_decision import gateway
from tests.support.random_world import RandomWorld, exchange_of
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store
__all__ = ["gateway"]

REQUESTS, CHANGES = number_of(22_000), number_of(50)


class Tiers:
    """The targets that can serve a request in the pipeline's own tiers, by their keys."""

    def __init__(self, exchange, targets):
        tiers = tiers_of(exchange, targets)
        alias = exchange.decision.alias
        is_drawn = alias is None or alias.strategy in (Strategy.WEIGHTED, Strategy.STICKY)
        weighed = [one for one in tiers[0] if not is_drawn or one.weight > 0.001] if tiers else []
        self.first = [one.target.key for one in weighed or (tiers[0] if tiers else ())]
        self.all = [one.target.key for tier in tiers for one in tier]

    def __bool__(self):
        return bool(self.all)

    def are(self, possible):
        """Whether what-if comes to the same targets in the same order."""
        behind = [key for key in self.all if key not in self.first]
        return [[one.key for one in side] for side in (possible.targets, possible.first)] == [
            [*self.first, *behind],
            self.first,
        ]


def judged(environ, body, parts, snapshot):
    """The exchange after the stages up to the rules, and the targets that can serve; None: it did not get so far."""
    parts.snapshot = snapshot
    exchange = exchange_of(environ, body, parts)
    for stage, _ in pipeline.STAGES:
        try:
            stage(exchange, parts)
        except GatewayError:
            return (exchange, Tiers(exchange, ())) if stage is apply_rules else (exchange, None)
        if stage is apply_rules:
            return exchange, Tiers(exchange, servable_targets(exchange.decision.allowed))
    raise AssertionError("The rules are no stage.")


def traffic_of(exchange, served):
    caller, key, tags = exchange.identity.caller, exchange.identity.key, exchange.options.tags
    whose = caller.id, None if key is None else key.id, exchange.model, tags
    return Traffic(*whose, *served, False, "USD", 1, Usage(1, 0, 0, 1, 0), 1, Decimal(1), 1)


def expected_change(before, after, served):
    if bool(before) != bool(after):
        return Change.ALLOWED if after else Change.DENIED
    still = after.first if served in before.first else after.all
    return Change.REROUTED if before and served not in still else Change.NONE


@pytest.mark.thorough
def test_thousands_of_requests_are_judged_alike(gateway):
    (parts, _), random, changes, promoted = gateway, Random(24), dict.fromkeys(Change, 0), 0
    world = RandomWorld(random, parts, "http://127.0.0.1:9/v1")
    for _ in range(CHANGES):
        before = copy(world.gateway.snapshot)
        world.change()
        after = world.gateway.snapshot
        replay = Replay(before, after, lambda share: None)
        for _ in range(REQUESTS // CHANGES):
            environ, body = world.request()
            environ.pop("HTTP_X_SVC_PROVIDER", None)  # the log does not have it
            exchange, now = judged(environ, body, parts, before)
            drafted = judged(environ, body, parts, after)[1]
            if now is None or drafted is None:
                continue
            served = random.choice([now.first[0], random.choice(now.all)]) if now else (None, "")
            traffic = traffic_of(exchange, served)
            judgement = replay.judge(traffic, exchange.identity.key)
            assert now.are(judgement[0]), (environ, body)
            assert drafted.are(judgement[1]), (environ, body)
            change = change_of(traffic, *judgement)
            assert change is expected_change(now, drafted, served)
            changes[change] += 1
            promoted += change is Change.REROUTED and served in drafted.all
    assert sum(changes.values()) > 0.45 * REQUESTS  # the others were refused before rules were asked
    assert min(changes[change] for change in (Change.ALLOWED, Change.DENIED, Change.REROUTED)) > REQUESTS / 100
    assert promoted > REQUESTS / 440  # another target would have been asked before the one that served
