"""How the processes show each other what is in force in them; who can merely write to Redis proves nothing."""

import pytest

from gateway_project.work.revocation.acknowledging import read_report
from tests.gateway_project.work.conftest import needs_redis, redis_state

pytestmark = pytest.mark.servers


@pytest.fixture
def pair():
    """Two processes that know of each other."""
    first = redis_state()
    second = redis_state(prefix=first._prefix)
    for state in (first, second):
        state.probe()
    return first, second


@needs_redis
def test_each_sees_what_the_others_show(pair):
    first, second = pair
    assert list(first.acknowledgements.read_others().values()) == [None]
    assert second.acknowledgements.publish(b"one")
    assert second.acknowledgements.publish(b"two")
    assert first.acknowledgements.read_others() == {second._process: b"two"}
    assert list(second.acknowledgements.read_others()) == [first._process]


@needs_redis
def test_who_has_left_does_not_count(pair):
    first, second = pair
    second.acknowledgements.publish(b"one")
    second.shipping_requests.leave()
    assert first.acknowledgements.read_others() == {}


@needs_redis
@pytest.mark.parametrize(
    "forge", [lambda seal: b'["w",99,{}]', lambda seal: seal[:16] + b'["w",99,{}]', lambda seal: b""]
)
def test_a_forged_position_acknowledges_nothing(pair, forge):
    first, second = pair
    second.acknowledgements.publish(b'["w",1,{}]')
    name = f"{first._prefix}:position:{second._process}"
    first._client.command("SET", name, forge(first._client.command("GET", name)))
    (shown,) = first.acknowledgements.read_others().values()
    assert read_report("process", shown).mark is None


@needs_redis
def test_the_position_of_one_process_is_not_that_of_another(pair):
    first, second = pair
    first.acknowledgements.publish(b'["w",99,{}]')
    names = [f"{first._prefix}:position:{state._process}" for state in pair]
    first._client.command("SET", names[1], first._client.command("GET", names[0]))
    assert first.acknowledgements.read_others() == {second._process: None}


@needs_redis
def test_while_redis_is_down_nobody_knows(redis_at):
    board = redis_at("redis://127.0.0.1:1/0").acknowledgements
    assert not board.publish(b"one")
    assert board.read_others() is None
