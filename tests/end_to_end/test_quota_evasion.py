"""Ways to use more than a quota allows, and what they cost instead."""

import pytest

from providers.formats import FORMATS
from providers.transport.calls import USAGE_SECONDS
from tests.support.formats.samples import streams
from tests.support.limiting import bypass, left, limited
from tests.support.pace import bound
from tests.support.promises import promise
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

TEXT = 'data: {"choices": [{"index": 0, "delta": {"content": "Lisbon "}}]}\n\n'
FINISH = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
USAGE = 'data: {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5000}}\n\n'
END = "data: [DONE]\n\n"


def leave_after(world, key, words, **body):
    """Ask for a stream, read it up to these bytes, and leave; returns the entry."""
    response = world.stream(key=key, body=body, headers={"X-Svc-Cache": "bypass"})
    read = b""
    for piece in response.iter_content(None):
        read += piece
        if words in read:
            break
    response.close()
    return world.entry(response)


@pytest.mark.parametrize("pause", [0.1, 0.6])  # before and after the watcher looks for the client
@promise("Leaving a stream early saves no tokens", target="the usage, or the reservation", suite="attack")
def test_leaving_just_before_the_usage_costs_the_usage(world, provider, pause):
    key = limited(world, "tokens", "minute", 10_000)
    provider.answers(stream=[TEXT, FINISH, USAGE, END], pace=pause)
    entry = leave_after(world, key, b'"stop"', max_tokens=6000)
    assert (entry.output_tokens, entry.usage_estimated) == (5000, False)
    assert left(bypass(world, key, max_tokens=1), "key-tokens") < 10_000 - 5000


def pieces_of(sample):
    """A recorded stream in two pieces: up to its text, and from the event that has its final usage."""
    if sample.format.name == "bedrock":
        size, at = 0, 0
        while size < len(sample.body):  # a frame begins with its length
            at, size = size, size + int.from_bytes(sample.body[size : size + 4])
        return sample.body[:at], sample.body[at:]
    usage = [sample.body.rindex(name) for name in USAGE_NAMES if name in sample.body]
    ends = (end for end in (b"\n\n", b"\n") if end in sample.body[: usage[0]])
    at = sample.body.rindex(end := next(ends), 0, usage[0]) + len(end)
    return sample.body[:at], sample.body[at:]


USAGE_NAMES = (b'"usageMetadata"', b'"eval_count"', b'"usage": {', b'"usage":{')
CONTENT_TYPES = {"bedrock": "application/vnd.amazon.eventstream", "ollama": "application/x-ndjson"}
SAMPLES = [next(sample for sample in streams(name) if sample.name == "plain") for name in FORMATS]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.format.name)
@pytest.mark.parametrize("pause", [0.1, 1.5])  # before and after the watcher looks for the client
@promise("Leaving a stream early saves no tokens", target="the usage, or the reservation", suite="attack")
def test_leaving_just_before_the_usage_in_any_format(world, sample, pause):
    """Where the reason and the usage come in one event, leaving before it costs what was reserved."""
    world.allow()
    name, (text, usage) = sample.format.name, pieces_of(sample)
    assert b"Lisbon" in text
    provider = world.provider(format_name=name)
    kind = CONTENT_TYPES.get(name, "text/event-stream")
    provider.answers(stream=[text, usage], pace=pause, headers={"Content-Type": kind})
    entry = leave_after(world, limited(world, "tokens", "minute", 10_000), b"Lisbon", max_tokens=600)
    reported = sample.expect["usage"]["output"], False
    costs = [reported] if pause < 1 else [reported, (600, True)]
    assert (entry.output_tokens, entry.usage_estimated) in costs


@pytest.mark.parametrize("most", [{}, {"max_tokens": 6000}])
@promise("An answer without its usage is not free", target="the larger of estimate and reservation", suite="attack")
def test_a_whole_answer_without_its_usage_costs_the_reservation(world, provider, most):
    """Reasoning, of which a whole answer may have much, is seen by nobody."""
    provider.default = Answer(text="Lisbon", usage={})
    key = limited(world, "tokens", "minute", 10_000)
    entry = world.entry(bypass(world, key, **most))
    assert (entry.output_tokens, entry.usage_estimated) == (most.get("max_tokens", 1024), True)
    assert world.entry(bypass(world)).output_tokens < 10  # without a limit


def test_a_whole_answer_that_is_longer_than_its_reservation_counts_in_full(world, provider):
    provider.default = Answer(text="Lisbon " * 500, usage={})
    entry = world.entry(bypass(world, limited(world, "tokens", "minute", 10_000), max_tokens=10))
    assert entry.output_tokens > 400


@promise("Leaving a stream early saves no tokens", target="the usage, or the reservation", suite="attack")
@promise(
    "What is read for its usage after its clients have left is bounded",
    target="2 s, and at most 0.2 s until they are missed",
    suite="attack",
)
def test_leaving_where_no_usage_comes_costs_the_reservation_within_two_seconds(world, provider):
    key = limited(world, "tokens", "minute", 10_000)
    provider.answers(stream=[TEXT, FINISH], silent_after=2)
    entry = leave_after(world, key, b'"stop"', max_tokens=6000)
    assert (entry.outcome, entry.output_tokens, entry.usage_estimated) == ("client_closed", 6000, True)
    (request,) = provider.seen
    assert request.wait_closed() < USAGE_SECONDS + bound(0.2)  # a little more than since the client left


@promise("Leaving a stream early saves no tokens", target="the usage, or the reservation", suite="attack")
def test_leaving_before_the_end_costs_the_reservation(world, provider):
    key = limited(world, "tokens", "minute", 10_000)
    provider.answers(stream=[TEXT] * 50, pace=0.1)
    entry = leave_after(world, key, b"Lisbon", max_tokens=6000)
    assert (entry.outcome, entry.output_tokens) == ("client_closed", 6000)


@pytest.mark.parametrize("format_name", ["openai", "passthrough"])
@promise("Leaving a stream early saves no tokens", target="the usage, or the reservation", suite="attack")
def test_a_stream_that_ends_without_its_usage_costs_the_reservation(world, format_name):
    world.allow()
    provider = world.provider(format_name=format_name)
    key = limited(world, "tokens", "minute", 10_000)
    provider.answers(stream=[TEXT, FINISH, END])
    response = bypass(world, key, stream=True, max_tokens=6000)
    assert "Lisbon" in response.text
    entry = world.entry(response)
    assert (entry.outcome, entry.output_tokens, entry.usage_estimated) == ("completed", 6000, True)


def test_a_flood_after_the_finish_reason_costs_the_reservation(world, provider):
    key = limited(world, "tokens", "minute", 10_000)
    noise = 'data: {"choices": [], "x": "' + "y" * 10_000 + '"}\n\n'
    provider.answers(stream=[TEXT, FINISH, *[noise] * 500], pace=0.01)
    entry = leave_after(world, key, b'"stop"', max_tokens=600)
    assert (entry.outcome, entry.output_tokens) == ("client_closed", 600)


def test_without_a_quota_only_what_was_written_counts(world, provider):
    provider.answers(stream=[TEXT] * 50, pace=0.1)
    entry = leave_after(world, None, b"Lisbon", max_tokens=6000)
    assert entry.outcome == "client_closed"
    assert 0 < entry.output_tokens < 100


QUEUED = {"id": "resp_1", "object": "response", "status": "queued", "output": [], "usage": None}


@pytest.mark.parametrize("measure", ["tokens", "cost"])
@promise("Background work is not free", target="refused under a quota, else the reservation", suite="attack")
def test_background_work_is_refused_under_a_quota(world, measure):
    world.allow()
    provider = world.provider(format_name="openai-responses")
    world.price(1, 1)
    key = limited(world, measure, "day", 1000)
    body = {"model": world.model, "input": "Hello!", "background": True, "max_output_tokens": 1000}
    response = world.post(body, path="/v1/responses", key=key)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "background")
    assert provider.seen == []


@promise("Background work is not free", target="refused under a quota, else the reservation", suite="attack")
def test_background_work_of_an_unknown_service_is_refused_under_a_quota(world):
    world.allow()
    provider = world.provider(format_name="passthrough")
    key = limited(world, "tokens", "day", 1000)
    response = world.post({"model": world.model, "input": "Hello!", "background": True}, key=key)
    assert response.status_code == 400
    assert "background" in response.json()["message"]
    assert provider.seen == []


@promise("Background work is not free", target="refused under a quota, else the reservation", suite="attack")
def test_background_work_without_a_quota_counts_its_reservation(world):
    world.allow()
    provider = world.provider(format_name="openai-responses")
    provider.default = Answer(body=QUEUED)
    body = {"model": world.model, "input": "Hello!", "background": True, "max_output_tokens": 1000}
    entry = world.entry(world.post(body, path="/v1/responses"))
    assert (entry.output_tokens, entry.usage_estimated) == (1000, True)


@pytest.mark.parametrize("status", ["queued", "in_progress"])
@promise("Background work is not free", target="refused under a quota, else the reservation", suite="attack")
def test_the_usage_of_an_answer_that_is_not_finished_is_not_believed(world, status):
    """Under a quota the caller pays what was reserved; without one, what background work may come to."""
    world.allow()
    provider = world.provider(format_name="openai-responses")
    usage = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    provider.default = Answer(body=QUEUED | {"status": status, "usage": usage})
    body = {"model": world.model, "input": "Hello!", "max_output_tokens": 1000}
    entries = [
        world.entry(world.post(body, path="/v1/responses", key=limited(world, "tokens", "day", 5000))),
        world.entry(world.post(body | {"background": True}, path="/v1/responses")),
    ]
    assert [(entry.output_tokens, entry.usage_estimated) for entry in entries] == [(1000, True)] * 2


LONG = {"choices": [{"message": {"content": "word " * 4000}, "finish_reason": "length"}], "usage": None}


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_is_too_long_to_be_passed_on_costs_the_reservation(world, streamed):
    world.allow()
    first, second = world.provider(priority=1, max_response_bytes=8192), world.provider(priority=2)
    key = limited(world, "tokens", "minute", 20_000)
    first.default = Answer(stream=[TEXT.replace("Lisbon ", "word " * 4000), END]) if streamed else Answer(body=LONG)
    for number in range(5):
        entry = world.entry(bypass(world, key, str(number), max_tokens=3000, stream=streamed))
        assert (entry.outcome, entry.attempts, entry.usage_estimated) == ("failed", 1, True)
        assert (entry.output_tokens, entry.provider_name) == (3000, world.row(first).name)
    assert not second.seen  # it would be bought once more
    first.default = Answer()
    response = bypass(world, key, "another", max_tokens=1)
    assert response.headers["X-Svc-Provider"] == world.row(first).name  # nothing speaks against it
    assert left(response, "key-tokens") < 20_000 - 5 * 3000


def test_embeddings_that_are_too_long_to_be_passed_on_cost_their_input(world):
    world.allow()
    provider = world.provider(max_response_bytes=8192)
    key = limited(world, "tokens", "minute", 10_000)
    provider.answers(body={"data": [{"embedding": [0.5] * 4096}], "usage": {"prompt_tokens": 300}})
    body = {"model": world.model, "input": "word " * 300}
    entry = world.entry(world.post(body, path="/v1/embeddings", key=key))
    assert entry.exception == "ProviderError"
    assert 250 < entry.input_tokens < 400  # an estimate
    assert left(bypass(world, key, max_tokens=1), "key-tokens") < 10_000 - 250


def test_an_unexpected_stream_of_an_unknown_service_costs_the_reservation(world):
    world.allow()
    first, second = world.provider(priority=1, format_name="passthrough"), world.provider(priority=2)
    key = limited(world, "tokens", "minute", 20_000)
    first.default = Answer(body=(TEXT + FINISH + END).encode(), headers={"Content-Type": "text/event-stream"})
    for number in range(5):
        response = bypass(world, key, str(number), max_tokens=3000)
        assert "`stream`" in response.json()["message"]
        assert world.entry(response).output_tokens == 3000
    assert not second.seen
    first.default = Answer()
    assert left(bypass(world, key, "another", max_tokens=1), "key-tokens") < 20_000 - 5 * 3000
