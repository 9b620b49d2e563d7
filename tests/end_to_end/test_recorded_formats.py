"""Every format through the running gateway, on the provider's recorded answers: /work hands on what they say.

Clients of OpenAI's doors and of Anthropic's get the same in the shape that they know.
"""

import json

import pytest

from providers.formats import FORMATS
from providers.formats.neutral.deltas import CallDelta, CallStart, TextDelta
from providers.formats.neutral.messages import Text, ToolCall
from tests.support.formats.messages import check_message, gathered
from tests.support.formats.samples import streams, whole

pytestmark = pytest.mark.embedded

AUTH = {"gemini": "x-goog-api-key", "anthropic": "x-api-key", "azure-openai": "api-key"}
STREAM_TYPES = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}
SENT_AS = {"bearer": "authorization"}
DOORS = {"chat": "/v1/chat/completions", "embedding": "/v1/embeddings"}
# What passthrough posts and to which address is no format's business, and it knows no protocol to miss the end of.
SPOKEN = [name for name in FORMATS if name != "passthrough"]


def named(samples, *names):
    results = [sample for sample in samples if sample.name in names]
    return pytest.mark.parametrize("sample", results, ids=[f"{sample.format.name}-{sample.name}" for sample in results])


@pytest.fixture
def provider(world, sample):
    world.allow()
    model, auth_method = sample.about["work"]["model"], AUTH.get(sample.format.name, "bearer")
    return world.provider(model, world.model, format_name=sample.format.name, auth_method=auth_method)


def ask(world, provider, sample, **options):
    """The sample's request, to the one of all providers of the model that this test made."""
    return world.post(sample.about["work"], headers={"X-Svc-Provider": world.row(provider).name}, **options)


def tokens(sample):
    """Input that no cache served, and output."""
    usage = sample.expect["usage"] or {}
    return usage.get("input"), usage.get("output")


@named([sample for name in SPOKEN for sample in whole(name)], "plain", "tool_call", "embedding")
def test_a_whole_answer(world, provider, sample):
    provider.answers(body=sample.body)
    response = ask(world, provider, sample)
    assert (response.status_code, response.content) == (200, sample.body)
    observations, row = provider.seen[0], world.row(provider)
    assert observations.path == sample.format.url(
        "/v1", sample.format.request(sample.work, sample.about["work"]["model"]).path
    )
    assert "sk-secret-of-the-provider" in observations.headers[SENT_AS.get(row.auth_method, row.auth_method)]
    entry = world.entry(response)
    assert (entry.outcome, entry.operation) == ("completed", sample.work.operation)
    if sample.expect["usage"]:
        assert (entry.input_tokens, entry.output_tokens) == tokens(sample)
    assert entry.finish_reason == sample.expect["finish_reason"]


@named([sample for name in SPOKEN for sample in streams(name)], "plain", "parallel_tool_calls")
def test_a_stream(world, provider, sample):
    content_type = STREAM_TYPES.get(sample.format.name, "text/event-stream")
    chunks = [sample.body[at : at + 100] for at in range(0, len(sample.body), 100)]
    provider.answers(stream=chunks, headers={"Content-Type": content_type})
    response = ask(world, provider, sample, stream=True)
    assert (response.status_code, response.content) == (200, sample.body)
    assert response.headers["Content-Type"].startswith(content_type)
    entry = world.entry(response)
    assert (entry.outcome, entry.stream, entry.finish_reason) == ("completed", True, sample.expect["finish_reason"])
    assert (entry.input_tokens, entry.output_tokens) == tokens(sample)


@named([sample for name in SPOKEN for sample in streams(name)], "cut_off", "error_midway")
def test_a_stream_that_ends_badly_tells_so(world, provider, sample):
    content_type = STREAM_TYPES.get(sample.format.name, "text/event-stream")
    provider.answers(stream=[sample.body], headers={"Content-Type": content_type})
    response = ask(world, provider, sample, stream=True)
    assert b'"exception":"ProviderE' in response.content or b'"exception":"ProviderO' in response.content
    assert world.entry(response).outcome in ("failed", "truncated")


@named([sample for name in SPOKEN for sample in whole(name)], "bad_parameter", "limited")
def test_a_refusal(world, provider, sample):
    status, expected = sample.about["status"], sample.expect
    provider.answers(status=status, body=sample.body, headers=sample.about["headers"])
    response = ask(world, provider, sample)
    assert (response.status_code, response.json()["exception"]) == (expected["code"], expected["exception"])
    assert expected["says"] in response.json()["message"]


@named([sample for name in SPOKEN for sample in whole(name)], "plain", "parallel_tool_calls", "embedding")
def test_a_whole_answer_at_openais_door(world, provider, sample):
    provider.answers(body=sample.body)
    response = ask(world, provider, sample, path=DOORS[sample.work.operation])
    assert response.status_code == 200, response.text
    if sample.work.operation == "embedding":
        assert [len(item["embedding"]) for item in response.json()["data"]]
        return
    choice = response.json()["choices"][0]
    assert (choice["message"].get("content") or "") == sample.expect["text"]
    check_message(sample, choice["message"])
    assert world.entry(response).finish_reason == sample.expect["finish_reason"]


@named([sample for name in SPOKEN for sample in streams(name)], "plain", "parallel_tool_calls", "emoji")
def test_a_stream_at_openais_door(world, provider, sample):
    content_type = STREAM_TYPES.get(sample.format.name, "text/event-stream")
    chunks = [sample.body[at : at + 50] for at in range(0, len(sample.body), 50)]
    provider.answers(stream=chunks, headers={"Content-Type": content_type})
    response = ask(world, provider, sample, path=DOORS["chat"], stream=True)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert response.content.endswith(b"data: [DONE]\n\n")
    message = gathered(response.content)
    assert message["content"] == sample.expect["text"]
    check_message(sample, message)
    assert world.entry(response).outcome == "completed"


# --- A client of Anthropic's door, with a conversation of its own ---

ANTHROPIC = FORMATS["anthropic"]
HISTORY = [
    {"role": "user", "content": "The weather in Lisbon?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Lisbon"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "24"}]},
            {"type": "text", "text": "And in Porto?"},
        ],
    },
]


def ask_as_anthropic(world, provider, sample, **options):
    body = {"model": sample.about["work"]["model"], "max_tokens": 99, "system": "Be brief.", "messages": HISTORY}
    body["tools"] = [{"name": "weather", "input_schema": {"type": "object", "properties": {}}}]
    named = {"X-Svc-Provider": world.row(provider).name}
    body["stream"] = options.get("stream", False)
    return world.post(body, headers=named, path="/v1/messages", **options)


def check_parts(sample, parts):
    calls = [[part.name, json.loads(part.arguments)] for part in parts if isinstance(part, ToolCall)]
    assert "".join(part.text for part in parts if isinstance(part, Text)) == sample.expect["text"]
    assert calls == sample.expect.get("calls", calls)


@named([sample for name in SPOKEN for sample in whole(name)], "plain", "parallel_tool_calls")
def test_a_whole_answer_at_anthropics_door(world, provider, sample):
    provider.answers(body=sample.body)
    response = ask_as_anthropic(world, provider, sample)
    assert response.status_code == 200, response.text
    check_parts(sample, ANTHROPIC.read_reply(response.json()).parts)
    for text in (b"Be brief.", b"I look.", b"weather", b"24", b"And in Porto?"):
        assert text in provider.seen[0].body


@named([sample for name in SPOKEN for sample in streams(name)], "plain", "parallel_tool_calls")
def test_a_stream_at_anthropics_door(world, provider, sample):
    content_type = STREAM_TYPES.get(sample.format.name, "text/event-stream")
    provider.answers(stream=[sample.body], headers={"Content-Type": content_type})
    response = ask_as_anthropic(world, provider, sample, stream=True)
    reader = ANTHROPIC.native_reader(sample.work)
    reader.deltas = []
    reader.feed(response.content)
    assert (reader.done, reader.error) == (True, None)
    calls = [delta for delta in reader.deltas if isinstance(delta, CallStart)]
    values = ["".join(piece.arguments for piece in pieces_of(reader.deltas, call.index)) for call in calls]
    texts = [Text(delta.text) for delta in reader.deltas if isinstance(delta, TextDelta)]
    rows = [ToolCall(call.id, call.name, text or "{}") for call, text in zip(calls, values, strict=True)]
    check_parts(sample, [*texts, *rows])


def pieces_of(deltas, index):
    return [delta for delta in deltas if isinstance(delta, CallDelta) and delta.index == index]
