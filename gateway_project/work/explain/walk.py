"""A request's walk through the pipeline's own stages, up to where it would be sent."""

from dataclasses import dataclass

from gateway_project.work.exchange import Exchange
from gateway_project.work.explain.dry_gateway import IdenticalInFlight, RequestBuilt, dry_gateway
from gateway_project.work.explain.peeked_state import PeekedState
from gateway_project.work.failover.candidates import call_candidates
from gateway_project.work.gateway import Gateway
from gateway_project.work.pipeline import STAGES, Stage, position_of, run_stages
from providers.transport.transport import ProviderRequest

BEHIND_AUTHENTICATION = STAGES[1 : position_of(call_candidates) + 1]


@dataclass(slots=True)
class Walk:
    """The stage that a request has reached, and its state there."""

    exchange: Exchange
    gateway: Gateway  # a copy that stores and sends nothing (dry_gateway.py)
    state: PeekedState
    request: ProviderRequest | None = None  # that would be sent
    is_waiting: bool = False  # whether an identical request in flight would answer it

    @property
    def is_allowed(self) -> bool:
        return self.exchange.error is None


def walk_request(exchange: Exchange, gateway: Gateway, authenticate: Stage = STAGES[0]) -> Walk:
    """Run the stages on a gateway in which nothing happens; `authenticate` says whose request it is."""
    dry, state = dry_gateway(gateway)
    result = Walk(exchange, dry, state)
    try:
        run_stages(exchange, dry, (authenticate, *BEHIND_AUTHENTICATION))
    except RequestBuilt as end:
        result.request = end.request
    except IdenticalInFlight:
        result.is_waiting = True
    finally:
        gateway.watcher.remove(exchange.call)
        if exchange.options.body_bytes:
            assert exchange.identity.caller is not None
            gateway.body_memory.release(exchange.options.body_bytes, exchange.identity.caller.id)
    return result
