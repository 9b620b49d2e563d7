"""Which requests are measured."""

from types import SimpleNamespace

import pytest

from gateway_project.work.failover.measuring import begin_measuring
from gateway_project.work.routing.signals import Signals
from gateway_project.work.snapshot.records import Target

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize(("model", "is_measured"), [("listed", True), ("invented", False)])
def test_models_that_a_provider_does_not_list_are_not_measured(model, is_measured):
    """A linked key may name any model: the measurements of all that clients invent would fill the memory."""
    provider = SimpleNamespace(id=1, models=frozenset({"listed"}), account=(1, 0))
    gateway = SimpleNamespace(
        signals=Signals(), snapshot=SimpleNamespace(aliases=SimpleNamespace(needs_measurements=True))
    )
    exchange = SimpleNamespace(request=SimpleNamespace(stream=False), attempts=SimpleNamespace(sending=None))
    begin_measuring(exchange, gateway, Target(provider, model))
    assert (exchange.attempts.sending is not None) is is_measured
