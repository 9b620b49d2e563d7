"""One work request on its way through the stages, and what is known of it so far.

Each part is written by one module or package of `work/`, as the comment beside it says; everybody may read it. What has
no such comment is only set by the constructor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter, time
from typing import TYPE_CHECKING, Protocol

from gateway_project.errors import GatewayError, UpstreamError, drop_frames
from gateway_project.work.doors import WORK
from gateway_project.work.doors.base import Endpoint
from gateway_project.work.failover.causes import OF_MODELS, cause_of
from gateway_project.work.limits.book import NO_LIMITS, LimitBook, Limits
from gateway_project.work.limits.checks import RESERVE
from gateway_project.work.streaming.stream import ClientConnection, Stream
from providers.formats import ClientResponse, WorkRequest
from providers.transport.calls import AttemptTimes, Call

if TYPE_CHECKING:
    from _hashlib import HASH

    from gateway_project.work.bill import Bill
    from gateway_project.work.cache.flights import Flight, FlightWait
    from gateway_project.work.cache.packing import CachedAnswer
    from gateway_project.work.guardrails.book import Applicable
    from gateway_project.work.guardrails.detectors.redaction import Placeholders
    from gateway_project.work.guardrails.searching import Search
    from gateway_project.work.guardrails.streams import StreamGuard
    from gateway_project.work.limits.checks import Admission, CheckStatus, Hold
    from gateway_project.work.limits.demand import Demand
    from gateway_project.work.routing.signals import Sending
    from gateway_project.work.snapshot.records import AliasSnapshot, Caller, KeySnapshot, Target, Tiers
    from gateway_project.work.state.shared import Storing
    from gateway_project.work.streaming.broadcast import Broadcast, Subscription
    from providers.pricing.prices import Cost
    from providers.transport.provider_response import ProviderResponse
    from rules.matching import RuleSnapshot
    from telemetry.journal.decisions import LimitValues

Targets = tuple["Target", ...]
TargetKey = tuple[tuple[int, int], str]  # snapshot.records.target_key()
Outcome = tuple[str, str]  # of a candidate: a value of telemetry's Candidate, and a detail for people


@dataclass(slots=True)
class Identity:
    """Whose request it is."""

    caller: "Caller | None" = None
    key: "KeySnapshot | None" = None  # None for a token
    trusted_issuer: str = ""  # the name of the issuer of its token; "" for the token of a login


@dataclass(slots=True)
class RequestOptions:
    """What the request's headers ask for."""

    body_bytes: int = 0  # memory reserved for the body; released when the log entry is written
    cache_control: str = ""  # "", bypass, refresh or only
    cache_seconds: int | None = None
    provider_name: str = ""
    strategy: str = ""  # that of the alias if empty
    session: str = ""  # the strategy `sticky` sends all requests of a session to the same target
    may_fall_back: bool = True  # whether a second target may be asked
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Decision:
    """What the rules decided: every target of the model, those that may serve it, and the rule that allows it."""

    alias: "AliasSnapshot | None" = None  # the alias that the model's name stands for
    tiers: "Tiers" = ()  # of the alias: the targets whose conditions hold
    offers: Targets = ()
    allowed: Targets = ()
    rule: "RuleSnapshot | None" = None


@dataclass(slots=True)
class Guarding:
    """The guardrails that apply, their results, and the answer as they have changed it."""

    applicable: "Applicable"
    request_search: "Search | None" = None
    answer_search: "Search | None" = None
    placeholders: "Placeholders | None" = None  # placeholders in the request, with their originals for the answer
    stream: "StreamGuard | None" = None
    chunks: list[bytes] | None = None  # of a cached stream, for the client
    answer: ClientResponse | None = None  # for the client
    logged: bytes | None = None  # the answer as the log keeps it; None: as it is

    @property
    def searches(self) -> "list[Search]":
        """The searches that have begun."""
        return [search for search in (self.request_search, self.answer_search) if search is not None]

    @property
    def is_waiting(self) -> bool:
        """Whether the log entry has to wait for the results of services."""
        return any(not late.are_there for search in self.searches for late in search.late)

    @property
    def changes_answers(self) -> bool:
        """Whether the client may get something else than what the provider has answered."""
        answers = self.applicable.answers
        return self.placeholders is not None or (answers is not None and answers.changes_texts)


@dataclass(slots=True)
class Selection:
    """The providers to try, best first, and why others of the allowed ones are not among them."""

    targets: Targets = ()
    digest: bytes = b""  # of the canonical request
    passed_over: dict[TargetKey, str] = field(default_factory=dict)


@dataclass(slots=True)
class RequestLimits:
    """The limits of the caller and of the providers, and the request's reservations."""

    book: LimitBook | None = None  # the snapshot's when the request was admitted; later a newer one
    own: Limits = NO_LIMITS  # of the caller
    admission: "Admission | None" = None  # the last one; look_up_cache() reads the cached answer in it
    demand: "Demand | None" = None  # the tokens it may use, as estimated
    largest: "Demand | None" = None  # the most that it may use, where a strict limit applies
    statuses: "list[CheckStatus] | None" = None  # in the end with the actual usage
    counted_at: float | None = None  # when the caller's limits counted the request, by the shared state's clock
    token: str = ""  # identifies its holds in the shared state
    holds: "Sequence[Hold]" = ()  # empty once they are settled
    full_candidates: Targets = ()  # those whose limits have no room, or refuse a model without a price
    refusal: GatewayError | None = None  # of the last of them that has no price
    admitted_target: "Target | None" = None  # the candidate whose limits were taken from
    duration_ms: float | None = None  # until the settlement: the log entry has the same end
    records: "dict[str, LimitValues] | None" = None  # each limit before the request, by name

    @property
    def is_strict(self) -> bool:
        """Whether it holds a part of a strict limit, which has room for one answer."""
        return any(hold.check.limit.is_strict for hold in self.holds)

    @property
    def reserved_input(self) -> int:
        """The input tokens that a strict limit has reserved; 0 without one."""
        return self.largest.input if self.largest is not None and self.is_strict else 0

    @property
    def reserved_output(self) -> int:
        """The output tokens that are reserved; 0 without a limit of tokens or cost."""
        is_reserved = any(hold.check.kind == RESERVE for hold in self.holds)
        demand = self.largest if self.largest is not None and self.is_strict else self.demand
        return demand.output if demand is not None and is_reserved else 0


@dataclass(slots=True)
class CacheLookup:
    """The search for a cached answer, and the flight: one of several identical requests asks the provider."""

    key: str = ""
    status: str = "BYPASS"
    wait: "FlightWait | None" = None  # while it waits for another's answer
    flight: "Flight | None" = None  # if this request leads it
    leader_error: UpstreamError | None = None  # of the request that it waited for; another candidate may serve
    subscription: "Subscription | None" = None  # if it follows another request's stream
    hit: "CachedAnswer | None" = None  # the answer that another request got
    answer: ClientResponse | None = None  # the same for the client
    target: "Target | None" = None  # the target whose answer or stream that is
    logged_parts: Sequence[bytes] | None = None  # of request and cached answer, as lists keep them: without credentials
    storing: "Storing | None" = None  # waits until the shared state has the answer


@dataclass(slots=True)
class Attempt:
    """One sending of the request to a provider; times are those of time.perf_counter()."""

    target: "Target"
    started_at: float
    ended_at: float = 0.0  # 0: it ended with the request
    error: GatewayError | None = None  # None: it answered, or ended with the request's own error
    cost: "Cost | None" = None  # of attempts that did not serve; the bill has the cost of the one that did
    times: AttemptTimes = field(default_factory=AttemptTimes)


class OpenRace(Protocol):
    """Two calls of one request, of which the first that begins to answer serves it (failover.hedging)."""

    @property
    def is_open(self) -> bool:
        """Whether neither has begun."""


@dataclass(slots=True)
class Attempts:
    """The candidates that were tried, and the answer of the one that served."""

    position: int = 0  # the number of candidates that are done with
    target: "Target | None" = None  # the one that is asked, or has answered
    sendings: list[Attempt] = field(default_factory=list)  # in the order of sending
    targets: Targets | None = None  # the candidates that remain once it is known how much context the request needs
    failure: GatewayError | None = None  # the error to raise if no other candidate serves
    outcomes: dict[TargetKey, Outcome] = field(default_factory=dict)
    sending: "Sending | None" = None  # the measurement of the present target, if it is measured
    race: OpenRace | None = None  # with a second target that works on it
    hedge_cost: "Cost | None" = None  # the cost of second targets that worked on it in vain
    has_retried: bool = False  # whether a candidate was asked a second time
    has_asked_paused: bool = False  # whether one was asked while it pauses
    dropped: str = ""  # names of parameters that the provider did not get, and of parts that the client did not get
    added: str = ""  # the parameter that the provider got although the client did not send it
    response: "ProviderResponse | None" = None  # accepted with status 200, not read yet
    answer: ClientResponse | None = None
    stream: Stream | None = None

    def end_sending(self) -> None:
        """The measurement of the present target, if there is one, has ended."""
        if self.sending is not None:
            self.sending.end()

    @property
    def count(self) -> int:
        """How many requests were sent to providers."""
        return len(self.sendings)

    @property
    def provider_ids(self) -> list[int]:
        """The ids of the providers that were asked, one for each sending."""
        return [attempt.target.provider.id for attempt in self.sendings]


@dataclass(slots=True)
class Ownership:
    """State that providers store for the user: ids that this request named first, and ids that the answer created."""

    claims: tuple[str, ...] = ()  # digests, to be recorded once the provider has accepted the request
    record_count: int = 0  # how many of the answer's ids are recorded


@dataclass(slots=True)
class StreamDelivery:
    """What the client of a stream got so far."""

    chunks: list[bytes] = field(default_factory=list)  # as far as they are kept
    size: int = 0  # of all chunks, in bytes
    last_chunk: bytes = b""
    digest: "HASH | None" = None  # of all chunks, if the log keeps only that
    first_byte_ms: float | None = None
    broadcast: "Broadcast | None" = None  # of its own stream, once others follow it
    answer: ClientResponse | None = None  # the whole stream, once it has ended


@dataclass(slots=True)
class Exchange:
    """One work request on its way through the stages."""

    connection: ClientConnection
    request_id: str = ""
    endpoint: Endpoint = WORK
    call: Call = field(kw_only=True)  # written by failover
    is_rival: bool = False  # a copy that a second target works on
    is_mirror: bool = False  # nobody waits for the answer
    started: float = field(default_factory=perf_counter)  # for durations
    started_at: float = field(default_factory=time)  # for the log

    identity: Identity = field(default_factory=Identity)  # written by stages.authentication
    request: WorkRequest | None = None  # written by reading
    options: RequestOptions = field(default_factory=RequestOptions)  # written by reading
    decision: Decision = field(default_factory=Decision)  # written by stages.rules
    guarding: Guarding | None = None  # written by guardrails
    selection: Selection = field(default_factory=Selection)  # written by stages.candidates
    limits: RequestLimits = field(default_factory=RequestLimits)  # written by limits
    cache: CacheLookup = field(default_factory=CacheLookup)  # written by cache
    attempts: Attempts = field(default_factory=Attempts)  # written by failover
    ownership: Ownership = field(default_factory=Ownership)  # written by stages.ownership
    delivery: StreamDelivery = field(default_factory=StreamDelivery)  # written by streaming
    bill: "Bill | None" = None  # written by billing
    journal_number: int | None = None  # written by log: of the start record
    is_start_counted: bool = False  # written by log: whether that record says that limits have counted the request

    error: GatewayError | None = None  # written by exchange: end()
    outcome: str = ""  # written by exchange: end()
    timings: list[tuple[str, float, float]] = field(default_factory=list)  # written by exchange

    def end(self, error: GatewayError | None = None, outcome: str = "") -> None:
        """Record how the request ended; without an outcome it follows from the error."""
        drop_frames(error)
        self.error, self.outcome = error, outcome

    def add_timings(self, other: "Exchange") -> None:
        """Add those of a copy of this request, whose target answers first."""
        self.timings += other.timings

    def record_timing(self, name: str, started_at: float) -> float:
        """Record that a part of the work took from then (by perf_counter) until now; returns now."""
        self.timings.append((name, started_at, now := perf_counter()))
        return now

    def elapsed_ms(self) -> float:
        return (perf_counter() - self.started) * 1000

    @property
    def candidates(self) -> Targets:
        """The providers to try, best first."""
        return self.selection.targets if self.attempts.targets is None else self.attempts.targets

    @property
    def remaining(self) -> Targets:
        """The candidates that are not done with, best first."""
        return self.candidates[self.attempts.position :]

    @property
    def has_next_credential(self) -> bool:
        """Whether the next candidate is the same model of the same provider, with another credential."""
        if len(self.remaining) < 2:
            return False
        first, second = self.remaining[:2]
        return first.provider.id == second.provider.id and first.model == second.model

    @property
    def target(self) -> "Target | None":
        """The provider that is asked, has answered, or whose answer another request got."""
        return self.cache.target or self.attempts.target

    @property
    def answer(self) -> ClientResponse | None:
        """The whole answer, wherever it came from."""
        return self.cache.answer or self.attempts.answer or self.delivery.answer

    @property
    def parameter_changes(self) -> "CachedAnswer | Broadcast | Attempts":
        """What says as `dropped` and `added` which parameters the provider did not get, or got beyond the client's."""
        if self.cache.hit is not None:
            return self.cache.hit
        subscription = self.cache.subscription
        return self.attempts if subscription is None else subscription.broadcast

    @property
    def has_begun(self) -> bool:
        """Whether there is something for the client: from then on no other candidate is asked."""
        return self.attempts.stream is not None or self.cache.subscription is not None or self.answer is not None

    @property
    def billed_account(self) -> tuple[int, int] | None:
        """The provider and credential whose work is billed; None before the end, and if no provider did any work."""
        target, has_ended = self.target, self.answer or self.error
        is_billed = target and self.attempts.count and has_ended and not self.is_from_others
        return target.provider.account if target and is_billed else None

    @property
    def is_from_others(self) -> bool:
        """Whether another request got its answer: a cached one, or a stream that it follows."""
        return self.cache.hit is not None or self.cache.subscription is not None

    @property
    def model(self) -> str:
        return self.request.model if self.request else ""

    @property
    def fallback_on(self) -> frozenset[str]:
        """The causes after which the next target is asked."""
        if not self.options.may_fall_back:
            return frozenset()
        return OF_MODELS if self.decision.alias is None else self.decision.alias.fallback_on

    def falls_back_on(self, error: GatewayError) -> bool:
        """Whether another target may be asked after this error; another credential may, whatever the alias says."""
        cause = cause_of(error)
        return cause in self.fallback_on or (self.has_next_credential and cause in OF_MODELS)

    @property
    def is_streamed(self) -> bool:
        """Whether the client gets a stream."""
        hit = self.cache.hit
        return (
            self.attempts.stream is not None
            or self.cache.subscription is not None
            or (hit is not None and hit.chunk_sizes is not None)
        )
