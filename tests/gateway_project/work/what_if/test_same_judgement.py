"""What if and the pipeline judge alike: thousands of random requests, before and after a draft is in force."""

from copy import copy
from decimal import Decimal
from random import Random

import pytest

from gateway_project.errors import GatewayError
from gateway_project.work import pipeline
from gateway_project.work.stages.rules import apply_rules
from gateway_project.work.what_if.outcome import Change
from gateway_project.work.what_if.replay import Replay, change_of
from gateway_project.work.what_if.traffic import Traffic
from providers.catalogue import servable
from providers.formats import Usage
from tests.gateway_project.work.explain.test_same_decision import RandomWorld, exchange_of, gateway

pytestmark = pytest.mark.either_store
__all__ = ["gateway"]

REQUESTS, CHANGES = 22_000, 50


def judged(environ, body, parts, snapshot):
    """The exchange after the stages up to the rules, and the targets that can serve; None: it did not get so far."""
    parts.snapshot = snapshot
    exchange = exchange_of(environ, body, parts)
    for stage in pipeline.STAGES:
        try:
            stage(exchange, parts)
        except GatewayError:
            return (exchange, ()) if stage is apply_rules else (exchange, None)
        if stage is apply_rules:
            return exchange, servable(exchange.decision.allowed)
    raise AssertionError("The rules are no stage.")


def traffic_of(exchange, targets):
    caller, key, tags = exchange.identity.caller, exchange.identity.key, exchange.options.tags
    served = targets[0].key if targets else (None, "")
    whose = caller.id, None if key is None else key.id, exchange.model, tags
    return Traffic(*whose, *served, False, "USD", 1, Usage(1, 0, 0, 1, 0), 1, Decimal(1), 1)


def expected_change(before, after):
    if bool(before) != bool(after):
        return Change.ALLOWED if after else Change.DENIED
    return Change.REROUTED if before and before[0].key not in {one.key for one in after} else Change.NONE


def test_ten_thousand_requests_are_judged_alike(gateway):
    (parts, _), random, changes = gateway, Random(24), dict.fromkeys(Change, 0)
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
            traffic = traffic_of(exchange, now)
            judgement = replay.judge(traffic, exchange.identity.caller, exchange.identity.key)
            assert judgement == (now, drafted), (environ, body)
            change = change_of(traffic, *judgement)
            assert change is expected_change(now, drafted)
            changes[change] += 1
    assert sum(changes.values()) > 10_000  # the others were refused before rules were asked
    assert min(changes[change] for change in (Change.ALLOWED, Change.DENIED, Change.REROUTED)) > REQUESTS / 100
