"""Measures targets if a strategy or hedging needs it. A request that is not measured costs no time."""

from gateway_project.errors import UpstreamError
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.routing.strategies import MEASURED, signal_key
from gateway_project.work.snapshot.records import Target
from providers.health.rests import TOO_MANY_REQUESTS
from providers.transport.calls import End


def begin_measuring(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """A target is asked: measure it if an alias, or the request, wants that.

    Not the models that a provider does not list, which a linked key may name: clients could invent any number.
    """
    request = exchange.request
    assert request is not None
    is_wanted = gateway.snapshot.aliases.needs_measurements or exchange.options.strategy in MEASURED
    if is_wanted and target.model in target.provider.models:
        exchange.attempts.sending = gateway.signals.begin(signal_key(target, is_streamed=request.stream))


def measure_failure(exchange: Exchange, error: UpstreamError) -> None:
    """The target did not serve: a failure, unless it limits us, refused the request or had no time left."""
    sending = exchange.attempts.sending
    if sending is None:
        return
    if error.allows_failover and error.code != TOO_MANY_REQUESTS and exchange.call.end is not End.TOTAL:
        sending.note_failure()
    sending.end()
