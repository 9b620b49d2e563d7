"""A client gets the answer to its own question, however many ask at once."""

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.thoroughness import number_of
from tests.support.world import World, keys_of_users

pytestmark = pytest.mark.either_store

CLIENTS = 16  # at once
PROMPTS = number_of(1000)


@promise("V-L24: of a thousand prompts at once each gets its own answer", target="its own text, and no other")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streams"])
def test_no_answer_is_that_to_another_prompt(world: World, stream, figure):
    """The provider repeats each prompt; two clients at a time have one key, and all the same provider."""
    keys = keys_of_users(world, CLIENTS // 2)
    world.allow(everyone="user")
    world.provider().default.delay = 0.005
    world.settle()

    def ask(number: int) -> tuple[str, str]:
        nonce = f"nonce-{number:04d}-{secrets.token_hex(8)}"
        document = {"model": world.model, "messages": [{"role": "user", "content": nonce}], "stream": stream}
        headers = {"Authorization": f"Bearer {keys[number % len(keys)]}"}
        response = requests.post(f"{world.gateway.url}/work", json=document, headers=headers, timeout=patience(20))
        assert response.status_code == 200, response.text
        return nonce, response.text

    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(ask, range(PROMPTS)))
    assert [nonce for nonce, text in answers if nonce not in text or text.count("nonce-") != 1] == []
    figure(f"{len(answers)} of {PROMPTS} prompts, {CLIENTS} at once")
