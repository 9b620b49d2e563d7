"""Stored responses keep their owners over a restart."""

from contextlib import ExitStack

import pytest

from tests.support.running import RunningGateway
from tests.support.world import World

pytestmark = pytest.mark.embedded


def test_a_restarted_gateway_knows_whose_a_response_is(store, orm, tmp_path):
    with ExitStack() as resources:
        gateway = resources.enter_context(RunningGateway(store, tmp_path))
        world = World(gateway, resources)
        world.allow()
        other = world.new_user()
        world.allow(user=other)
        stranger = world.new_key(owner=other).text
        provider, identifier = world.provider(format_name="openai-responses"), world.name("resp")
        for name in (identifier, "resp_next"):
            provider.answers(body={"id": name, "status": "completed", "error": None, "output": []})
        body = {"model": world.model, "input": "Hello!"}
        assert world.post(body, path="/v1/responses").status_code == 200
        gateway.stop()
        gateway.start()
        refers = body | {"previous_response_id": identifier}
        assert world.post(refers, key=stranger, path="/v1/responses").status_code == 404
        assert world.post(refers, path="/v1/responses").status_code == 200
        assert len(provider.seen) == 2
