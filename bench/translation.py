"""What translating costs, in one thread and without a network: between each door and each provider's format."""

import json
import time
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.report import table
from providers.formats import FORMATS, Options
from providers.formats.bedrock.event_stream import FrameSplitter
from providers.formats.dialect import Dialect
from providers.formats.json_stream import LineSplitter
from providers.formats.sse import EventSplitter
from tests.support.formats.samples import Sample, request, streams, whole
from tests.support.recorded_samples import SHAPES

MOST_US, MOST_CHUNK_US = 150, 15
ROUNDS, CALLS = 15, 200
SPLITTERS = {"ollama": LineSplitter, "bedrock": FrameSplitter}
OPTIONS = Options(max_output_tokens=4096)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": SCHEMA}}


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU: a request and an answer that hold calls, and a chunk with a few words."""

    door: str
    name: str
    request_us: float
    answer_us: float
    chunk_us: float

    @property
    def ok(self) -> bool:
        return max(self.request_us, self.answer_us) <= MOST_US and self.chunk_us <= MOST_CHUNK_US


def measure() -> list[Cost]:
    """The costs of every pair of a door for conversations and a format."""
    doors = {name: dialect for name, dialect in SHAPES.items() if name in SENT}
    return [cost_of(dialect, name) for dialect in doors.values() for name in FORMATS if name != "passthrough"]


def cost_of(dialect: Dialect, name: str) -> Cost:
    """The costs of one pair."""
    recorded = sample_of(whole(name), "parallel_tool_calls", dialect)
    work = request(recorded.about["work"], door=True, dialect=dialect)
    asked = request(SENT[dialect.name](conversation()), door=True, dialect=dialect)
    return Cost(
        dialect.name,
        name,
        least(lambda: FORMATS[name].request(replace(asked), "model", OPTIONS)),  # a copy has not been read yet
        least(lambda: FORMATS[name].answer(work, recorded.body)),
        chunk_cost(dialect, sample_of(streams(name), "plain", dialect)),
    )


def sample_of(samples: list[Sample], case: str, dialect: Dialect) -> Sample:
    """The sample of a case; one that was recorded in the client's own shape before others."""
    own = [sample for sample in samples if sample.about.get("shape") == dialect.name and sample.name.endswith(case)]
    return next(iter(own), None) or next(sample for sample in samples if sample.name == case)


def conversation() -> dict[str, Any]:
    """A few rounds of question, call, result and answer, with three tools."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a helpful assistant. " * 20}]
    for number in range(4):
        function = {"name": "weather", "arguments": '{"city":"Lisbon","days":2}'}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "user", "content": "What will the weather be like in Lisbon? " * 5},
            {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": '{"celsius": 24, "sky": "clear"}'},
            {"role": "assistant", "content": "It will be 24 degrees. " * 10},
        ]
    messages.append({"role": "user", "content": "And in Porto?"})
    return {"model": "model", "messages": messages, "tools": [TOOL] * 3, "temperature": 0.5, "max_tokens": 500}


def as_messages(asked: dict[str, Any]) -> dict[str, Any]:
    """The conversation as Anthropic's clients write it."""
    return json.loads(FORMATS["anthropic"].request(request(asked, door=True), "model", OPTIONS).body)


def as_items(asked: dict[str, Any]) -> dict[str, Any]:
    """The conversation as clients of OpenAI's Responses write it."""
    items: list[dict[str, Any]] = []
    for message in asked["messages"]:
        if message["role"] == "tool":
            result = {"call_id": message["tool_call_id"], "output": message["content"]}
            items.append({"type": "function_call_output", **result})
            continue
        items.append({"role": message["role"], "content": message["content"]})
        items += [
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in message.get("tool_calls", ())
        ]
    tools = [{"type": "function", **tool["function"]} for tool in asked["tools"]]
    return {"model": "model", "input": items, "tools": tools, "temperature": 0.5, "max_output_tokens": 500}


SENT = {"openai-chat": lambda asked: asked, "openai-responses": as_items, "anthropic-messages": as_messages}


def chunk_cost(dialect: Dialect, recorded: Sample) -> float:
    """The cost of the event with the first words, read and written again and again."""
    events = SPLITTERS.get(recorded.format.name, EventSplitter)().feed(recorded.body)
    words = next(number for number, event in enumerate(events) if b"capital" in event or b'"Lis"' in event)
    reader = recorded.format.reader(request(recorded.about["work"], door=True, dialect=dialect))
    for event in events[: words + 1]:
        reader.feed(event)
    return least(lambda: reader.feed(events[words]))


def least(call: Callable[[], Any]) -> float:
    """The CPU time of one call in microseconds, in the round that was disturbed least."""
    rounds = timeit.repeat(call, number=CALLS, repeat=ROUNDS, timer=time.process_time)
    return min(rounds) / CALLS * 1e6


def text(costs: list[Cost]) -> str:
    """The costs as a table, and which of them are too high."""
    head = ["Translation", "request us", "answer us", "chunk us", ""]
    lines = [
        [
            f"{cost.door} > {cost.name}",
            f"{cost.request_us:.0f}",
            f"{cost.answer_us:.0f}",
            f"{cost.chunk_us:.1f}",
            verdict(cost),
        ]
        for cost in costs
    ]
    return table(head, lines)


def verdict(cost: Cost) -> str:
    return "ok" if cost.ok else f"MISSED: {MOST_US} us each way, {MOST_CHUNK_US} us a chunk"


def document(costs: list[Cost]) -> list[dict[str, Any]]:
    """The costs for a file of results."""
    return [asdict(cost) for cost in costs]
