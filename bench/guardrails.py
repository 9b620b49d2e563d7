"""What guardrails cost, in one thread and without a network: a request and its answer, searched as in the pipeline."""

import time
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bench.report import table
from gateway_project.work.guardrails.book import Applicable, Audience, GuardrailSnapshot
from gateway_project.work.guardrails.detectors import compile_detector
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.texts import of_whole_texts, rewrite_texts

ROUNDS = 15
LINE = (
    "The quick brown fox jumps over the lazy dog in 2026, at 10:30, near item 4711. Call me when you have read the "
    "report (page 12), please. def f(x): return x[1:2] + 3.14 # a comment\n"
)
ADDRESS = "Write to bob@example.com about it.\n"
PARAMETERS = {
    "pattern": {"patterns": ["project (?:alpha|omega)", r"\bconfidential\b", r"ticket-\d{6}"]},
    "secrets": {},
    "pii": {},
}


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU for a request and its answer, and the most that they may be."""

    name: str
    us: float
    most_us: float

    @property
    def ok(self) -> bool:
        return self.us <= self.most_us


def measure() -> list[Cost]:
    """The costs of all cases."""
    return [
        Cost("no guardrail configured", unused_us(), 2),  # 1 % of the CPU of a cached answer
        Cost("4 kB", searching_us(text_of(4000, LINE), 200), 150),
        Cost("4 kB, an address in each line", searching_us(text_of(4000, LINE + ADDRESS), 100), 150),
        Cost("100 kB", searching_us(text_of(100_000, LINE), 10), 3000),
        Cost("100 kB, an address in each line", searching_us(text_of(100_000, LINE + ADDRESS), 10), 3000),
    ]


def text_of(size: int, part: str) -> str:
    return (part * (size // len(part) + 1))[:size]


def searching_us(text: str, calls: int) -> float:
    """The cost of pattern, secrets and pii together, which only record."""
    guardrails = [
        GuardrailSnapshot(number, type, number, "monitor", type, compile_detector(type, given), Audience(everyone=True))
        for number, (type, given) in enumerate(PARAMETERS.items(), start=1)
    ]
    applicable = Applicable(guardrails)
    request = {"model": "small", "messages": [{"role": "user", "content": text}]}
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}

    def search() -> None:
        rewrite_texts(request, of_whole_texts(Search(applicable.requests, is_of_answer=False).visit))
        rewrite_texts(answer, of_whole_texts(Search(applicable.answers).visit))

    return least(search, calls)


def unused_us() -> float:
    """The cost of the pipeline's stages without any guardrail."""
    import os
    from types import SimpleNamespace

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    django.setup()
    from gateway_project.work.exchange import Exchange
    from gateway_project.work.stages.guardrails import guard_answer, guard_request
    from gateway_project.work.stages.repair import repair_answer
    from gateway_project.work.streaming.stream import ClientConnection
    from providers.transport.calls import Call

    exchange = Exchange(ClientConnection({}), call=Call(client=None, total_seconds=1))
    gateway = SimpleNamespace(snapshot=SimpleNamespace(guardrails=None))

    def stages() -> None:
        for stage in (guard_request, repair_answer, guard_answer):
            stage(exchange, gateway)

    return least(stages, 10_000)


def least(call: Callable[[], Any], calls: int) -> float:
    """The CPU time of one call in microseconds, in the round that was disturbed least."""
    call()
    return min(timeit.repeat(call, number=calls, repeat=ROUNDS, timer=time.process_time)) / calls * 1e6


def text(costs: list[Cost]) -> str:
    """The costs as a table, and which of them are too high."""
    head = ["Guardrails: pattern, secrets, pii on request and answer", "CPU us", ""]
    verdicts = ["ok" if cost.ok else f"MISSED: {cost.most_us:,.0f} us" for cost in costs]
    lines = [[cost.name, f"{cost.us:,.1f}", verdict] for cost, verdict in zip(costs, verdicts, strict=True)]
    return table(head, lines)


def document(costs: list[Cost]) -> list[dict[str, Any]]:
    """The costs for a file of results."""
    return [asdict(cost) for cost in costs]
