"""Calls of OpenAI's own SDK for the world's model."""

from tests.support.clients import sdks

QUESTION = "What is the capital of Portugal?"
ASKED = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 4096}


def sdk(world, **options):
    return sdks.openai.OpenAI(base_url=f"{world.gateway.url}/v1", api_key=world.key, **options)


def ask(client, world, **asked):
    world.settle()
    return client.chat.completions.create(model=world.model, **ASKED | asked)
