"""Guardrails see the whole of each request, however long it is and at whichever API it arrives."""

import json

import pytest

from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

WORD = "contraband"
MODEL_APIS = ("/work", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
LONGEST = 4_000_000
MAX_BODY_BYTES = 1_000_000


def guardrail_of(world):
    world.allow()
    guardrail = create_guardrail(
        name=world.name("guardrail"),
        type="words",
        direction="request",
        parameters={"words": [WORD]},
        applies_to={"users": [world.user.pk]},
    )
    world.settle()
    yield guardrail
    delete_guardrail(guardrail)


@pytest.fixture
def word_guardrail(world):
    yield from guardrail_of(world)


@pytest.fixture
def small_gateway(own_gateway):
    """The world of a gateway with a small limit for bodies, and its guardrail."""
    world = own_gateway(GATEWAY_MAX_BODY_BYTES=str(MAX_BODY_BYTES))
    for guardrail in guardrail_of(world):
        yield world, guardrail


def request_body(path: str, prompt: str, model: str) -> dict[str, object]:
    member = {"/v1/completions": "prompt", "/v1/responses": "input"}.get(path)
    text = {member: prompt} if member else {"messages": [{"role": "user", "content": prompt}]}
    return {"model": model, "max_tokens": 5, **text}


@promise("V-K2: a guardrail searches all of a request", target="400, no call of a provider")
@pytest.mark.parametrize("path", MODEL_APIS)
@pytest.mark.parametrize("position", [0, 8 << 10, 64 << 10, LONGEST], ids=["begin", "8 KiB", "64 KiB", "4 MB"])
def test_a_word_is_seen_wherever_it_stands(world, word_guardrail, path, position):
    assert_blocked(world, word_guardrail, path, f"{'ab ' * (position // 3)}{WORD}")


@promise("V-K2: a guardrail searches all of a request", target="400, no call of a provider")
@pytest.mark.parametrize("path", MODEL_APIS)
@pytest.mark.parametrize("before", ["-" * 4096, f"data:image/png;base64,{'A' * 4096}-"], ids=["dashes", "data URL"])
def test_a_word_is_seen_in_what_looks_like_base64(world, word_guardrail, path, before):
    assert_blocked(world, word_guardrail, path, f"{before}where-to-buy-{WORD}")


@promise("V-K2: a guardrail searches all of a request", target="400, no call of a provider")
def test_a_word_is_seen_at_the_end_of_the_longest_body(small_gateway):
    """One byte more is refused unread, so nothing of a body that is served lies beyond what is searched."""
    world, word_guardrail = small_gateway
    provider = world.provider()
    for path in MODEL_APIS:
        for size, status in ((MAX_BODY_BYTES, 400), (MAX_BODY_BYTES + 1, 413)):
            response = world.post(body_of_size(path, world.model, size), path=path)
            assert response.status_code == status, response.text[:300]
            assert (word_guardrail.name in response.text) == (status == 400)
    assert provider.seen == []


def body_of_size(path: str, model: str, size: int) -> bytes:
    """A body of so many bytes, whose text ends with the word: the last bytes but those that close it."""
    empty = len(json.dumps(request_body(path, WORD, model)))
    members = request_body(path, " " * (size - empty) + WORD, model)
    body = json.dumps(members).encode()
    assert len(body) == size
    return body


def assert_blocked(world, word_guardrail, path, prompt):
    provider = world.provider()
    response = world.post(request_body(path, prompt, world.model), path=path)
    assert response.status_code == 400, response.text[:300]
    assert word_guardrail.name in response.text
    assert provider.seen == []


@promise("V-K2: a guardrail searches all of a request", target="400, no call of a provider")
@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": WORD}, {"role": "user", "content": "x"}],
        [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": WORD}]}],
        [{"role": "user", "content": "con\u200btra\u00adband"}],
        [{"role": "user", "content": "ｃｏｎｔｒａｂａｎｄ"}],
    ],
    ids=["system", "second part", "invisible characters", "full width"],
)
def test_a_word_is_seen_in_each_part_and_spelling(world, word_guardrail, messages):
    provider = world.provider()
    body = {"model": world.model, "messages": messages}
    for path in ("/work", "/v1/chat/completions"):
        assert world.post(body, path=path).status_code == 400
    assert provider.seen == []
