"""Long bodies in flight have so much memory together, and what comes beyond it is told to come again."""

import json

import pytest

from tests.support.management import refused
from tests.support.thoroughness import first_of
from tests.support.world import keys_of_users

pytestmark = pytest.mark.embedded

MEGABYTE = 1024 * 1024


@pytest.fixture
def world(own_gateway):
    """Room for two bodies and a half, of two users: one alone has room for one."""
    patient = {"GATEWAY_FIRST_BYTE_TIMEOUT": "60", "GATEWAY_TOTAL_TIMEOUT": "60"}
    room = {"GATEWAY_MAX_BODY_BYTES": str(MEGABYTE), "GATEWAY_MAX_BODIES_BYTES": str(5 * MEGABYTE // 2)}
    row = own_gateway(**patient, **room)
    row.allow(everyone="user")
    assert row.key
    return row


def long(number):
    """A prompt that makes a body of almost a megabyte."""
    return f"{number} " + "x" * (MEGABYTE - 2000)


def hold(world, number):
    """A long request of a user of its own, whose provider says nothing, until its client leaves."""
    (key,) = keys_of_users(world, 1)
    return world.send({"messages": [{"role": "user", "content": long(number)}]}, key=key)


def test_beyond_the_room_long_requests_are_refused_and_short_ones_served(world):
    provider = world.provider()
    provider.answers(silent=True, silent_limit=60).answers(silent=True, silent_limit=60)
    waiting = [hold(world, number) for number in range(2)]
    provider.wait_for(2, timeout=30)
    response = world.ask(long(3))
    refused(response, 503, "ServiceUnavailable", "overloaded")
    assert int(response.headers["Retry-After"]) >= 1
    assert world.entry(response).status == 503
    assert world.ask("short").status_code == 200
    waiting[0].close()
    world.soon(lambda: world.ask(long(4)), 200, seconds=10)


def test_one_user_has_room_for_one_of_them(world):
    provider = world.provider()
    provider.answers(silent=True, silent_limit=60)
    sock = world.send({"messages": [{"role": "user", "content": long(1)}]})
    provider.wait_for(1, timeout=30)
    refused(world.ask(long(2)), 503, "ServiceUnavailable", "your large requests")
    sock.close()
    world.soon(lambda: world.ask(long(3)), 200, seconds=10)


@pytest.mark.parametrize("ending", first_of("stream", "refused", "cached", "nowhere", "malformed", values=2))
def test_the_room_is_free_again_however_a_request_ends(world, ending):
    provider = world.provider()
    for number in range(6):
        if ending == "stream":
            assert world.stream(long(number)).content
        elif ending == "cached":
            assert world.ask(long(0)).status_code == 200
        elif ending == "refused":
            provider.answers(status=422)
            assert world.ask(long(number)).status_code == 422
        elif ending == "nowhere":
            assert world.ask(long(number), body={"model": "unknown"}).status_code == 400
        else:
            assert world.post(b"[" + b"1," * (MEGABYTE // 2 - 100)).status_code == 400
    assert world.ask(long(7)).status_code == 200


def test_chunked_bodies_count_as_they_come(world):
    provider = world.provider()

    def chunked(number):
        body = {"model": world.model, "messages": [{"role": "user", "content": long(number)}]}
        text = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {world.key}"}
        pieces = (text[start : start + 50_000] for start in range(0, len(text), 50_000))
        return world.session.post(f"{world.gateway.url}/work", data=pieces, headers=headers, timeout=30)

    provider.answers(silent=True, silent_limit=60).answers(silent=True, silent_limit=60)
    waiting = [hold(world, number) for number in range(2)]
    provider.wait_for(2, timeout=30)
    refused(chunked(3), 503, "ServiceUnavailable", "overloaded")
    for sock in waiting:
        sock.close()
    world.soon(lambda: chunked(4), 200, seconds=10)
    for number in range(4):
        assert chunked(number + 10).status_code == 200
