"""A gateway without side effects: requests go through the same stages as in the real one, but are not sent."""

import math
from collections.abc import Sequence
from copy import copy
from typing import NoReturn, cast

from gateway_project.work.cache.flights import Flight, Flights
from gateway_project.work.explain.peeked_state import PeekedState
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.book import GuardrailSnapshot
from gateway_project.work.guardrails.remote.asking import Answer, LateAnswer, RemoteGuardrails, ServiceClients
from gateway_project.work.guardrails.remote.services import Question
from gateway_project.work.ownership.owners import Owners
from gateway_project.work.routing.retry_budget import RetryBudget
from gateway_project.work.state.shared import SharedState
from gateway_project.work.streaming.broadcast import Subscription
from providers.transport.calls import Call
from providers.transport.transport import ProviderRequest, Transport, TransportLimits
from telemetry.journal.files import Journal
from telemetry.metrics.counters import Metrics


class WalkEnded(BaseException):
    """The walk has come to where something would happen. No error: nothing on the way may handle it."""


class RequestBuilt(WalkEnded):
    """Here the request would be sent."""

    def __init__(self, request: ProviderRequest) -> None:
        super().__init__()
        self.request = request


class IdenticalInFlight(WalkEnded):
    """Here the request would wait for the answer of an identical one."""


class DryTransport:
    """Sends nothing."""

    def send(
        self, request: ProviderRequest, limits: TransportLimits, call: Call, *, may_reuse: bool = True
    ) -> NoReturn:
        raise RequestBuilt(request)


class DryFlights(Flights):
    """Waits for nobody."""

    def follow(
        self, key: str, call: Call, seconds: float = math.inf, flight: Flight | None = None
    ) -> bytes | Subscription | None:
        raise IdenticalInFlight


class DryRemoteGuardrails(RemoteGuardrails):
    """Asks no service."""

    def __init__(self) -> None:
        """It has no threads."""

    def ask(self, clients: ServiceClients, guardrails: Sequence[GuardrailSnapshot], question: Question) -> list[Answer]:
        return []

    def ask_late(
        self, clients: ServiceClients, guardrails: Sequence[GuardrailSnapshot], question: Question
    ) -> list[LateAnswer]:
        return []


class DryJournal:
    """Writes nothing: the request has no log entry."""

    def append_start(self, record: bytes) -> int:
        return 0

    def append_start_again(self, number: int, record: bytes) -> None:
        """Nothing to write."""


class DryMetrics:
    """Counts nothing."""

    def note_attempt(self, event: object) -> None:
        """Nothing to count."""


def dry_gateway(gateway: Gateway) -> tuple[Gateway, PeekedState]:
    """A gateway with the same snapshot and in the same state, and the state that it looks at.

    Credentials, bodies and owners come from the real gateway: they are only read.
    """
    dry, state = copy(gateway), PeekedState(gateway.state)
    dry.state = cast("SharedState", state)
    dry.flights = DryFlights(dry.state)
    dry.owners = Owners(dry.state, gateway.follower)
    dry.transport = cast("Transport", DryTransport())
    dry.remote_guardrails = DryRemoteGuardrails()
    dry.journal = cast("Journal", DryJournal())
    dry.metrics = cast("Metrics", DryMetrics())
    dry.breakers = gateway.breakers.copy()
    dry.full_providers = gateway.full_providers.copy()
    dry.signals = gateway.signals.copy()
    dry.retry_budget = RetryBudget(0)
    return dry, state
