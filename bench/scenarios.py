"""What is measured: the cases, the groups in which they take turns, and what they ask of provisioning."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NotRequired, Protocol, TypedDict

from bench.standin import ANSWER_BYTES, BEHAVIOURS, Stream

Kind = Literal["fast", "slow", "paced", "long", "brief", "alias"]
Caller = Literal["plain", "restricted", "group", "issuer"]
# `ten` and `large` are gateways started for the comparison alone: what a process served before shows in its cost.
Where = Literal["standin", "baseline", "gateway", "ten", "large"]


class Provisioned(TypedDict):
    """A gateway that is ready to be started."""

    environ: dict[str, str]  # for `manage.py serve`: database, cache, secrets, whatever else it needs
    credentials: dict[Caller, str]  # keys and a token without limits, for `Authorization: Bearer`
    models: dict[Kind, str]  # the model whose provider's url is `{standin}/{kind}/v1`; `alias` stands for `fast`
    path: NotRequired[str]  # where requests are posted; /work unless given
    database: NotRequired[str]  # its PostgreSQL and Redis, where their CPU time is to be measured
    redis: NotRequired[str]
    stop: NotRequired[Callable[[], None]]  # called at the end: stops what was started for this scenario


class Prepare(Protocol):
    """`bench.provision.prepare`: makes the rows of a scenario in a database of its own.

    `small` has ten keys and ten rules, `large` 100,000 keys and 10,000 rules, where the rule that allows the
    key comes last. Caching is on; no limit applies. `directory` is empty and lives as long as the gateway.
    """

    def __call__(self, scenario: Literal["small", "large"], *, standin: str, directory: Path) -> Provisioned: ...


@dataclass(frozen=True, eq=False)
class Case:
    """One row: which server is loaded, and how."""

    group: str
    name: str
    label: str
    server: Where
    where: str  # the path, or for a gateway the kind of model
    options: dict[str, Any] = field(default_factory=dict)
    caller: Caller = "plain"


@dataclass(frozen=True)
class Pace:
    """How long the runs of a group last."""

    seconds: float
    warmup: float
    rounds: int


def content_chunks(kind: str) -> int:
    """The content chunks of a stand-in's stream."""
    behaviour = BEHAVIOURS[kind.encode()]
    assert isinstance(behaviour, Stream)
    return behaviour.count + 1


# The baseline's own words, repeated: importing it would configure Django in this process.
HELLO_VIEW = {"connections": 32, "length": 5, "marker": "hello"}
HIT = {"connections": 32, "length": ANSWER_BYTES, "header": "x-svc-cache: hit"}
BARE = {"connections": 32, "length": ANSWER_BYTES, "unique": True}
MISS = BARE | {"header": "x-svc-cache: miss"}
SLOW_BARE = BARE | {"connections": 1000}
SLOW = MISS | {"connections": 1000}
LONE = {"connections": 1}
STREAMS = {"connections": 64, "chunks": content_chunks("paced"), "unique": True}
LONG_STREAMS = STREAMS | {"chunks": content_chunks("long")}
ONE_STREAM = {"connections": 1, "chunks": content_chunks("brief"), "unique": True}

CASES = (
    Case("unary", "hello", "empty view", "baseline", "/hello", HELLO_VIEW),
    Case("unary", "pass", "bare pass-through", "baseline", "/pass", BARE),
    Case("unary", "miss", "gateway, cache miss", "gateway", "fast", MISS),
    Case("unary", "hit", "gateway, cache hit", "gateway", "fast", HIT),
    Case("unary", "alias-miss", "gateway, alias, cache miss", "gateway", "alias", MISS),
    Case("unary", "alias-hit", "gateway, alias, cache hit", "gateway", "alias", HIT),
    Case("callers", "plain", "miss, plain key", "gateway", "fast", MISS),
    Case("callers", "restricted", "miss, restricted key", "gateway", "fast", MISS, "restricted"),
    Case("callers", "group", "miss, member of a tree of groups", "gateway", "fast", MISS, "group"),
    Case("callers", "issuer", "miss, token of a trusted issuer", "gateway", "fast", MISS, "issuer"),
    # What waits for nobody: threads that run beside requests show here first.
    Case("lone", "hello-1", "empty view, 1 connection", "baseline", "/hello", HELLO_VIEW | LONE),
    Case("lone", "pass-1", "bare, 1 connection", "baseline", "/pass", BARE | LONE),
    Case("lone", "miss-1", "gateway, miss, 1 connection", "gateway", "fast", MISS | LONE),
    Case("lone", "hit-1", "gateway, hit, 1 connection", "gateway", "fast", HIT | LONE),
    Case("stream", "bare-stream", "bare, 64 streams", "baseline", "/pass-stream", STREAMS),
    Case("stream", "stream", "gateway, 64 streams", "gateway", "paced", STREAMS),
    # As long as an answer of some pages: what a stream's beginning and end cost hardly shows.
    Case("long", "bare-long", "bare, 64 long streams", "baseline", "/pass-long", LONG_STREAMS),
    Case("long", "long", "gateway, 64 long streams", "gateway", "long", LONG_STREAMS),
    Case("first", "first-direct", "stand-in, 1 stream", "standin", "/brief/v1/chat/completions", ONE_STREAM),
    Case("first", "first-bare", "bare, 1 stream", "baseline", "/pass-brief", ONE_STREAM),
    Case("first", "first", "gateway, 1 stream", "gateway", "brief", ONE_STREAM),
    Case("scale", "miss-10", "miss, 10 keys and rules", "ten", "fast", MISS),
    Case("scale", "miss-100k", "miss, 100,000 and 10,000", "large", "fast", MISS),
    Case("scale", "hit-10", "hit, 10 keys and rules", "ten", "fast", HIT),
    Case("scale", "hit-100k", "hit, 100,000 and 10,000", "large", "fast", HIT),
    # Last, because the thousand threads that it leaves behind make every later request dearer.
    Case("slow", "bare-slow", "bare, 1,000 slow requests", "baseline", "/pass-slow", SLOW_BARE),
    Case("slow", "slow", "gateway, 1,000 slow requests", "gateway", "slow", SLOW),
)
GROUPS = tuple(dict.fromkeys(case.group for case in CASES))

FULL = {
    "unary": Pace(4, 1, 2),
    "callers": Pace(4, 1, 4),
    "lone": Pace(4, 1, 3),
    "stream": Pace(5, 1.5, 4),
    "long": Pace(10.5, 1.5, 1),
    "first": Pace(3, 1, 2),
    "slow": Pace(10, 2.5, 1),
    "scale": Pace(4, 1, 2),
}
QUICK = {group: Pace(1.5, 0.7, 1) for group in GROUPS} | {"slow": Pace(4, 2, 1), "long": Pace(6, 1, 1)}


def chosen(names: list[str] | None) -> list[Case]:
    """The cases of the given names or groups; all of them without any."""
    return [case for case in CASES if not names or case.name in names or case.group in names]
