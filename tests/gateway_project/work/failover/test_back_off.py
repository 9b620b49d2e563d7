"""How long a request waits before a provider is asked once more."""

from types import SimpleNamespace
from unittest.mock import Mock

from gateway_project.errors import ProviderOverloaded
from gateway_project.work.failover.retries import BACK_OFF_SECONDS, wait_for_retry


def test_requests_that_failed_together_do_not_come_back_together():
    target = SimpleNamespace(key=(1, "model"), provider=Mock(), model="model")
    exchange = Mock(remaining=[target], candidates=(target,), fallback_on=frozenset(), has_next_credential=False)
    exchange.call.total_deadline = float("inf")
    gateway = Mock()
    gateway.rests.current.return_value, gateway.breakers.is_resting.return_value = None, False
    for _ in range(200):
        exchange.attempts.has_retried = False
        assert wait_for_retry(exchange, gateway, ProviderOverloaded("It is overloaded.", code=503))
    waits = [call.args[0] for call in exchange.call.wait.call_args_list]
    least, most = BACK_OFF_SECONDS
    assert least <= min(waits) < least + 0.1 < most - 0.1 < max(waits) <= most
