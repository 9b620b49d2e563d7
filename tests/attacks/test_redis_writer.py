"""Somebody who can write to Redis, but has none of the gateway's secrets, cannot make it serve an answer of theirs."""

import hashlib
import os

import orjson
import pytest
import redis

from gateway_project.work.cache.packing import CachedAnswer, pack_answer
from gateway_project.work.state.redis.seals import SEAL_BYTES, Seals
from tests.support.promises import promise

pytestmark = pytest.mark.servers

FORGED = pack_answer(
    CachedAnswer(
        orjson.dumps({"choices": [{"message": {"role": "assistant", "content": "forged"}}]}),
        "application/json", None, 1, "p", [1, 0, 0, 1, 0], finish_reason="stop",
    )
)  # fmt: skip


@pytest.fixture
def answers(world):
    """A client of Redis, a genuine answer's name there, and another answer's name: two questions have been asked."""
    world.allow()
    provider = world.provider()
    for text in ("one", "two"):
        provider.answers(text=f"genuine {text}")
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    names = []
    for prompt in ("first", "second"):
        entry = world.entry(world.ask(prompt))
        names.append(f"{world.gateway.store.prefix}:answer:{entry.cache_hash}")
    assert all(client.exists(name) for name in names)
    assert world.ask("first").headers["X-Svc-Cache"] == "HIT"
    yield client, provider, *names
    client.close()


def forgeries(genuine: bytes, other: bytes) -> dict[str, bytes]:
    """What such a writer can come up with: values that it makes, and values that it has seen."""
    seal, value = genuine[:SEAL_BYTES], genuine[SEAL_BYTES:]
    return {
        "without a seal, as they were once": FORGED,
        "without a seal, genuine": value,
        "the seal of a genuine answer": seal + FORGED,
        "a seal of zeros": bytes(SEAL_BYTES) + FORGED,
        "a hash without a key": hashlib.blake2b(FORGED, digest_size=SEAL_BYTES).digest() + FORGED,
        "a guessed secret": Seals("django-insecure-missing").seal("gateway:answer:x", FORGED),
        "the answer to another question": other,
        "cut": genuine[:-1],
        "cut to its seal": seal,
        "empty": b"",
        "with a word replaced": genuine.replace(b"genuine one", b"forged!!one"),
    }


@promise("A writer to Redis forges no cached answer", target="0 forged answers served")
def test_a_forged_answer_is_a_miss_and_the_next_good_one_replaces_it(world, answers):
    client, provider, first, second = answers
    for kind, forged in forgeries(client.get(first), client.get(second)).items():
        provider.answers(text=f"fresh after {kind}")
        client.set(first, forged, ex=600)
        response = world.ask("first")
        assert response.json()["choices"][0]["message"]["content"] == f"fresh after {kind}", kind
        assert response.headers["X-Svc-Cache"] == "MISS", kind
        again = world.ask("first")
        assert (again.headers["X-Svc-Cache"], again.json()) == ("HIT", response.json()), kind
    assert "Traceback" not in world.gateway.log()


@promise("A writer to Redis forges no cached answer", target="0 forged answers served")
def test_a_forged_stream_is_a_miss(world, answers):
    client, _, first, _ = answers
    entry = world.entry(world.stream("streamed"))
    name = f"{world.gateway.store.prefix}:answer:{entry.cache_hash}"
    body = b'data: {"choices": [{"delta": {"content": "forged"}}]}\n\ndata: [DONE]\n\n'
    stream = pack_answer(CachedAnswer(body, "text/event-stream", [len(body)], 1, "p", None, finish_reason="stop"))
    for forged in (stream, client.get(first), client.get(name)[:SEAL_BYTES] + stream):
        client.set(name, forged, ex=600)
        assert b"forged" not in world.stream("streamed").content
