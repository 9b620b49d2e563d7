"""The one object that travels through the pipeline; each field is written by the stage named beside it."""

import time
from dataclasses import dataclass, field
from random import getrandbits
from typing import TYPE_CHECKING, Any

from gateway_project.errors import GatewayError
from gateway_project.work.doors import WORK
from gateway_project.work.doors.base import Entrance
from gateway_project.work.limit_book import NO_LIMITS, LimitBook, Limits
from providers.calls import Call
from providers.formats import Answer, StreamReader, WorkRequest

if TYPE_CHECKING:
    from gateway_project.work.bill import Bill
    from gateway_project.work.candidate_outcomes import Outcome
    from gateway_project.work.demand import Demand
    from gateway_project.work.flights import Flight, Following
    from gateway_project.work.limits import CheckStatus, Hold
    from gateway_project.work.snapshot import Caller, KeySnapshot, Target
    from providers.formats.sse import ChunkTemplate
    from providers.provider_response import ProviderResponse
    from rules.matching import RuleSnapshot


@dataclass(slots=True)
class Incoming:
    """What the view hands over: headers in WSGI's spelling, the body not read yet, the way to the client."""

    headers: dict[str, Any]  # WSGI's environment: headers as HTTP_X_SVC_CACHE, and where to read the body
    client: Any = None  # the client's socket, to notice when it goes away
    address: str = ""


@dataclass(slots=True)
class Stored:
    """An answer as the cache holds it: `chunks` are the pieces of a stream, None for a whole answer."""

    body: bytes
    content_type: str
    chunks: list[int] | None
    provider_id: int
    provider: str
    usage: list[int | None] | None = None
    estimated: bool = False  # whether the usage, or a part of it, was not reported
    finish_reason: str = ""
    provider_finish_reason: str = ""
    dropped: str = ""


@dataclass(slots=True)
class Stream:
    """A provider's stream that has begun: what it said already, and the rest."""

    provider_response: "ProviderResponse"
    pieces: Any
    reader: StreamReader
    first: bytes
    content_type: str

    @property
    def template(self) -> "ChunkTemplate | None":
        """What the next read may be like, in one whole chunk of HTTP; None where it has to be looked at."""
        return self.reader.template if self.provider_response.at_chunk_boundary else None


@dataclass(slots=True)
class Exchange:
    """One work request on its way through the stages."""

    incoming: Incoming  # the view
    request_id: str = ""  # the view
    entrance: Entrance = WORK  # the view
    started: float = field(default_factory=time.perf_counter)
    started_at: float = field(default_factory=time.time)

    caller: "Caller | None" = None  # authenticate
    key: "KeySnapshot | None" = None  # authenticate
    call: Call | None = None  # the view: its deadline; read_request may shorten it
    book: "LimitBook | None" = None  # authenticate; settlement_of, once it has looked for newer limits
    limits: "Limits" = NO_LIMITS  # authenticate
    request: WorkRequest | None = None  # read_request
    held_bytes: int = 0  # read_request: of the gateway's room for bodies, until the log is written
    cache_control: str = ""  # read_request: "", bypass, refresh or only
    cache_seconds: int | None = None  # read_request
    wanted_provider: str = ""  # read_request
    tags: dict[str, str] = field(default_factory=dict)  # read_request
    known: "tuple[Target, ...]" = ()  # apply_rules: who has the model
    offered: "tuple[Target, ...]" = ()  # apply_rules: who of them may serve it
    rule: "RuleSnapshot | None" = None  # apply_rules
    candidates: "tuple[Target, ...]" = ()  # select_provider: best first
    tried: int = 0  # pass_on: so many of them are done with
    failure: GatewayError | None = None  # each_candidate, look_up_cache: what those met
    content: bytes = b""  # select_provider: the digest of the canonical request
    demand: "Demand | None" = None  # admit: what it may come to
    limit_statuses: "list[CheckStatus] | None" = None  # admit; settlement_of: with actual usage
    token: str = ""  # admit: under which it holds what it has taken
    holds: "list[Hold]" = field(default_factory=list)  # admit; settlement_of empties it
    passed_over: "tuple[Target, ...]" = ()  # admit: candidates whose limits have no room
    candidate_outcomes: "dict[int, Outcome]" = field(
        default_factory=dict
    )  # select_provider, call_provider: by provider id
    admitted: "Target | None" = None  # admit: the candidate whose limits were taken from
    cache_key: str = ""  # look_up_cache
    cache_status: str = "BYPASS"  # look_up_cache
    following: "Following | None" = None  # look_up_cache, while it waits for another's answer
    flight: "Flight | None" = None  # look_up_cache, for the one request that others wait for
    target: "Target | None" = None  # call_provider: who served it; look_up_cache on a hit; pass_on: nobody as yet
    asked: tuple[int, ...] = ()  # call_provider: the ids of the providers
    # call_provider: names of parameters that the provider did not get; read_response: and of what its answer lost on
    # the way; look_up_cache on a hit
    dropped: str = ""
    provider_response: "ProviderResponse | None" = None  # call_provider
    answer: Answer | None = None  # read_response; look_up_cache on a hit
    stored: Stored | None = None  # look_up_cache on a hit
    stream: Stream | None = None  # read_response
    journal_number: int | None = None  # call_provider: the start record

    error: GatewayError | None = None  # run, delivery
    outcome: str = ""  # delivery
    duration_ms: float | None = None  # settlement_of: what is settled has ended, for the log as for the limits
    bill: "Bill | None" = None  # bill_of, once it has ended
    sent: list[bytes] = field(default_factory=list)  # delivery: the chunks of a stream, as far as they are kept
    sent_bytes: int = 0  # delivery: of all of them
    sent_last: bytes = b""  # delivery: the last of them
    sent_hash: Any = None  # delivery: of all of them, where the log keeps no more
    first_byte_ms: float | None = None  # delivery
    timings: list[tuple[str, float, float]] = field(default_factory=list)  # run: name, begin and end by perf_counter

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self.started) * 1000

    @property
    def left(self) -> "tuple[Target, ...]":
        """The candidates that are not done with, best first."""
        return self.candidates[self.tried :] if self.tried else self.candidates

    @property
    def attempts(self) -> int:
        """How many providers were asked."""
        return len(self.asked)

    @property
    def served_by(self) -> int | None:
        """The id of the provider whose work the request is billed for, None while, or where, it is nobody's."""
        ended = self.answer or self.error
        return self.target.provider.id if self.target and self.attempts and ended and not self.stored else None

    @property
    def model(self) -> str:
        return self.request.model if self.request else ""

    @property
    def streams(self) -> bool:
        """Whether the client is being answered with a stream."""
        return self.stream is not None or (self.stored is not None and self.stored.chunks is not None)


def decoded(text: str) -> str:
    """A path or a header as its sender wrote it: WSGI carries bytes as Latin-1 (PEP 3333), clients mean UTF-8."""
    return text if text.isascii() else text.encode("latin-1", "replace").decode("utf-8", "replace")


def new_request_id() -> str:
    """A correlation id for a request that brought none: unique, not secret, and without a system call.

    It begins with the time, in milliseconds or so: new ids stand side by side in the index of a log of millions, where
    random ones are each written to a page of their own.
    """
    return f"{time.time_ns() >> 20:011x}{getrandbits(84):021x}"
