"""The class for Azure OpenAI in OpenAI's own SDK: its key in a header of its own, the model in the path."""

import json

import pytest

from tests.support.clients import sdks
from tests.support.clients.recorded import each_format, recorded, script
from tests.support.formats.samples import streams, whole

pytestmark = pytest.mark.embedded

ASKED = {"messages": [{"role": "user", "content": "What is the capital of Portugal?"}], "max_tokens": 4096}


@pytest.fixture
def client(world):
    """The SDK as its users make it: an endpoint without a path, a version of the API, a key."""
    with sdk(world) as client:
        yield client


def sdk(world, api_key=None, **options):
    return sdks.openai.AzureOpenAI(
        azure_endpoint=world.gateway.url,
        api_key=api_key or world.key,
        api_version="2024-10-21",
        max_retries=0,
        **options,
    )


def ask(client, world, **asked):
    world.settle()
    return client.chat.completions.create(**{"model": world.model} | ASKED | asked)


@each_format
def test_an_answer(client, world, speaking, format_name):
    sample, provider = recorded(format_name, "plain"), speaking(format_name)
    provider.answers(body=sample.body)
    answer = ask(client, world)
    assert answer.choices[0].message.content == sample.expect["text"]
    assert world.entry(answer._request_id).model == world.model


def test_a_stream(client, world, speaking):
    sample = recorded("anthropic", "plain", streams)
    script(speaking("anthropic"), sample)
    chunks = ask(client, world, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == sample.expect["text"]


def test_the_deployment_of_the_client_decides_whatever_model_a_request_names(world, speaking):
    """As Azure itself does; what the provider reads is one model, too."""
    provider = speaking("openai").answers(body=recorded("openai", "plain").body)
    with sdk(world, azure_deployment=world.model) as client:
        ask(client, world, model="gpt-4o")
    assert json.loads(provider.seen[0].body)["model"] not in ("gpt-4o", None)


def test_a_body_without_a_model(world, speaking):
    """As programs send it that speak Azure's REST API by themselves."""
    provider = speaking("openai").answers(body=recorded("openai", "plain").body)
    path = f"/openai/deployments/{world.model}/chat/completions?api-version=2024-10-21"
    answer = world.post(ASKED, path=path, headers={"Authorization": "", "api-key": world.key})
    assert answer.status_code == 200, answer.text
    assert json.loads(provider.seen[0].body)["model"]


def test_embeddings(client, world, speaking):
    sample = next(sample for sample in whole("openai") if sample.name == "embedding")
    speaking("openai").answers(body=sample.body)
    world.settle()
    assert client.embeddings.create(model=world.model, input="Lisbon").data[0].embedding


def test_responses(client, world, speaking):
    sample = recorded("openai", "plain")
    speaking("openai").answers(body=sample.body)
    world.settle()
    assert client.responses.create(model=world.model, input="Lisbon").output_text == sample.expect["text"]


def test_the_models(client, world, speaking):
    speaking("openai")
    world.settle()
    assert world.model in [model.id for model in client.models.list()]
    assert client.models.retrieve(world.model).id == world.model


def test_errors_are_those_of_the_sdk(client, world):
    world.settle()
    with pytest.raises(sdks.openai.AuthenticationError) as wrong, sdk(world, api_key="no key") as stranger:
        ask(stranger, world)
    assert wrong.value.code == "invalid_api_key"
    with pytest.raises(sdks.openai.NotFoundError), sdk(world) as lost:
        lost.images.generate(model=world.model, prompt="Lisbon")


def test_a_deployment_may_name_the_provider_too(client, world, speaking):
    provider = speaking("openai").answers(body=recorded("openai", "plain").body)
    assert ask(client, world, model=f"{world.row(provider).name}/{world.model}").choices


@pytest.mark.parametrize("name", ["modèle", "a model"])
def test_a_deployment_whose_name_needs_quotes_in_a_path(client, world, speaking, name):
    speaking("openai", name).answers(body=recorded("openai", "plain").body)
    answer = ask(client, world, model=name)
    assert world.entry(answer._request_id).model == name


def test_a_path_without_a_deployment_is_none(world):
    answer = world.post(ASKED, path="/openai/deployments//chat/completions")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_a_bearer_goes_before_the_other_header(world, speaking):
    """Which a proxy may have added for a purpose of its own."""
    speaking("openai")
    world.settle()
    assert world.get("/v1/models", headers={"api-key": "another's"}).status_code == 200
