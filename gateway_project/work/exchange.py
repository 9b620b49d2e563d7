"""The object that the stages of the pipeline read and write; beside each field stands the stage that writes it."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway_project.errors import GatewayError
from gateway_project.work.doors import WORK
from gateway_project.work.doors.base import Endpoint
from gateway_project.work.limits.book import NO_LIMITS, LimitBook, Limits
from gateway_project.work.streaming.stream import ClientConnection, Stream
from providers.formats import Answer, WorkRequest
from providers.transport.calls import Call

if TYPE_CHECKING:
    from gateway_project.work.bill import Bill
    from gateway_project.work.cache.flights import Flight, FlightWait
    from gateway_project.work.cache.packing import CachedAnswer
    from gateway_project.work.limits.checks import CheckStatus, Hold
    from gateway_project.work.limits.demand import Demand
    from gateway_project.work.snapshot.records import Caller, KeySnapshot, Target
    from gateway_project.work.streaming.broadcast import Broadcast, Subscription
    from providers.transport.provider_response import ProviderResponse
    from rules.matching import RuleSnapshot

Outcome = tuple[str, str]  # of a candidate: a value of telemetry's Candidate, and a detail for people


@dataclass(slots=True)
class Exchange:
    """One work request on its way through the stages."""

    connection: ClientConnection  # the view
    request_id: str = ""  # the view
    endpoint: Endpoint = WORK  # the view
    started: float = field(default_factory=time.perf_counter)
    started_at: float = field(default_factory=time.time)

    caller: "Caller | None" = None  # authenticate
    key: "KeySnapshot | None" = None  # authenticate
    call: Call = field(kw_only=True)  # the view: its deadline; read_request may shorten it
    limit_book: "LimitBook | None" = None  # authenticate; final_settlement, once it has looked for newer limits
    limits: "Limits" = NO_LIMITS  # authenticate
    request: WorkRequest | None = None  # read_request
    held_bytes: int = 0  # read_request: of the memory for bodies, until the log is written
    cache_control: str = ""  # read_request: "", bypass, refresh or only
    cache_seconds: int | None = None  # read_request
    requested_provider: str = ""  # read_request
    tags: dict[str, str] = field(default_factory=dict)  # read_request
    offers: "tuple[Target, ...]" = ()  # apply_rules: every provider with the model
    allowed: "tuple[Target, ...]" = ()  # apply_rules: those of them that may serve the request
    rule: "RuleSnapshot | None" = None  # apply_rules
    candidates: "tuple[Target, ...]" = ()  # select_provider: best first
    tried: int = 0  # drop_candidate: the number of candidates that are done with
    failure: GatewayError | None = None  # each_candidate, look_up_cache: the error to raise if none of them answers
    request_digest: bytes = b""  # select_provider: of the canonical request
    demand: "Demand | None" = None  # admit: the tokens it may use
    limit_statuses: "list[CheckStatus] | None" = None  # admit; final_settlement: with actual usage
    token: str = ""  # admit: identifies its holds in the shared state
    holds: "list[Hold]" = field(default_factory=list)  # admit; final_settlement empties it
    full_candidates: "tuple[Target, ...]" = ()  # admit: those whose limits have no room
    # select_provider, look_up_cache, call_provider: by provider id
    candidate_outcomes: dict[int, Outcome] = field(default_factory=dict)
    admitted_target: "Target | None" = None  # admit: the candidate whose limits were taken from
    cache_key: str = ""  # look_up_cache
    cache_status: str = "BYPASS"  # look_up_cache
    flight_wait: "FlightWait | None" = None  # look_up_cache, while it waits for another's answer
    flight: "Flight | None" = None  # look_up_cache, if this request leads it
    subscription: "Subscription | None" = None  # look_up_cache, if it follows another request's stream
    broadcast: "Broadcast | None" = None  # delivery: of its own stream, once others follow it
    target: "Target | None" = None  # call_provider; look_up_cache on a hit; drop_candidate: None again
    asked_provider_ids: tuple[int, ...] = ()  # call_provider: one for each sending
    # call_provider: names of parameters that the provider did not get; read_response: and of parts of its answer that
    # the client does not get; look_up_cache on a hit
    dropped: str = ""
    added: str = ""  # call_provider: the parameter that the provider got although the client did not send it
    provider_response: "ProviderResponse | None" = None  # call_provider
    answer: Answer | None = None  # read_response; look_up_cache on a hit
    cached_answer: "CachedAnswer | None" = None  # look_up_cache on a hit
    stream: Stream | None = None  # read_response
    kept_answer: bytes | None = None  # cache_record: what the list of cached answers keeps, without credentials
    journal_number: int | None = None  # call_provider: the start record

    error: GatewayError | None = None  # run, delivery
    outcome: str = ""  # run, delivery
    duration_ms: float | None = None  # final_settlement: the log and the limits have the same end
    bill: "Bill | None" = None  # bill_of, once it has ended
    sent_chunks: list[bytes] = field(default_factory=list)  # delivery: of a stream, as far as they are kept
    sent_bytes: int = 0  # delivery: of all chunks
    last_sent: bytes = b""  # delivery: the last chunk
    sent_hash: Any = None  # delivery: of all chunks, if the log keeps only that
    first_byte_ms: float | None = None  # delivery
    timings: list[tuple[str, float, float]] = field(default_factory=list)  # run: name, begin and end by perf_counter

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self.started) * 1000

    @property
    def remaining(self) -> "tuple[Target, ...]":
        """The candidates that are not done with, best first."""
        return self.candidates[self.tried :] if self.tried else self.candidates

    @property
    def attempts(self) -> int:
        """How many requests were sent to providers."""
        return len(self.asked_provider_ids)

    @property
    def billed_provider_id(self) -> int | None:
        """The id of the provider whose work is billed; None before the end, and if no provider did any work."""
        ended = self.answer or self.error
        return self.target.provider.id if self.target and self.attempts and ended and not self.is_from_others else None

    @property
    def is_from_others(self) -> bool:
        """Whether another request got its answer: a cached one, or a stream that it follows."""
        return self.cached_answer is not None or self.subscription is not None

    @property
    def model(self) -> str:
        return self.request.model if self.request else ""

    @property
    def is_streamed(self) -> bool:
        """Whether the client gets a stream."""
        return (
            self.stream is not None
            or self.subscription is not None
            or (self.cached_answer is not None and self.cached_answer.chunk_sizes is not None)
        )
