"""A model has our name, which clients, rules, prices and the log know, and one that its provider is asked for."""

import json

import pytest

from providers.formats import FORMATS
from providers.models import Model
from providers.services import change_model

pytestmark = pytest.mark.embedded

UPSTREAM = "vendor-model-2026"
CREDENTIALS = {"bedrock": ("aws-sigv4", "AKIDEXAMPLE:wJalrXUtnFEMI:token:eu-west-1")}


def renamed(world, provider, upstream=UPSTREAM, **facts):
    change_model(Model.objects.get(provider=world.row(provider)), upstream_name=upstream, **facts)
    world.settle()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/work"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_provider_is_asked_for_its_own_name_in_every_format(world, name, path):
    world.allow()
    method, credential = CREDENTIALS.get(name, ("bearer", "sk-secret-of-the-provider"))
    provider = world.provider(format_name=name, auth_method=method, credential=credential)
    renamed(world, provider)
    provider.answers(status=400)
    body = {"model": world.model, "max_tokens": 5, "messages": [{"role": "user", "content": "Hello!"}]}
    world.post(body, path=path)
    (request,) = provider.seen
    assert UPSTREAM in request.path + request.body.decode()
    assert world.model not in request.path + request.body.decode()


def test_embeddings_and_streams_too(world, provider):
    renamed(world, provider)
    assert world.post({"model": world.model, "input": "a"}, path="/v1/embeddings").status_code == 200
    assert world.stream().content
    assert [request.json["model"] for request in provider.seen] == [UPSTREAM] * 2


def test_rules_judge_our_name(world):
    world.allow(regex="fast-.*")
    name = world.name("fast")
    provider = world.provider(name)
    renamed(world, provider)
    assert world.ask(body={"model": name}).status_code == 200
    assert world.ask(body={"model": UPSTREAM}).status_code in (400, 403)
    linked = world.new_key(provider=world.row(provider)).text
    assert world.ask("another", key=linked, body={"model": name}).status_code == 200
    assert world.ask(key=linked, body={"model": UPSTREAM}).status_code == 403
    assert [request.json["model"] for request in provider.seen] == [UPSTREAM] * 2


def test_a_price_is_of_our_name_and_the_public_one_of_the_providers(world, provider):
    upstream = world.name("upstream")
    renamed(world, provider, upstream)
    world.price(3, 3, model=upstream, source="bundled")
    assert world.entry(world.ask("one", headers={"X-Svc-Cache": "bypass"})).cost * 10**6 == 3 * 2
    world.price(5, 5)
    assert world.entry(world.ask("one", headers={"X-Svc-Cache": "bypass"})).cost * 10**6 == 5 * 2


def test_a_public_price_of_our_name_is_that_of_another_model(world, provider):
    renamed(world, provider, world.name("upstream"))
    world.price(7, 7, source="bundled")
    assert world.entry(world.ask()).cost_status == "unknown"


def test_the_log_the_headers_and_errors_say_our_name(world, provider):
    renamed(world, provider)
    message = f"The model `{UPSTREAM}` does not exist, and neither does {UPSTREAM}-mini."
    provider.answers(status=404, body={"error": {"message": message, "code": "model_not_found"}})
    response = world.ask()
    assert response.status_code == 404
    assert f"The model `{world.model}` does not exist, and neither does {UPSTREAM}-mini." in response.text
    entry = world.entry(response)
    assert entry.model == world.model
    assert f"`{UPSTREAM}`" not in str(vars(entry))
    answered = world.ask("again")
    assert UPSTREAM not in str(answered.headers)
    entry = world.entry(answered)
    assert (entry.model, entry.message) == (world.model, f"{world.model} answered by {world.row(provider).name}.")


def test_an_answer_of_the_former_model_is_not_served_from_the_cache(world, provider):
    world.ask()
    assert world.ask().headers["X-Svc-Cache"] == "HIT"
    renamed(world, provider)
    assert world.ask().headers["X-Svc-Cache"] == "MISS"
    assert [request.json["model"] for request in provider.seen] == [world.model, UPSTREAM]


def test_lists_of_models_say_what_is_known_and_not_the_providers_name(world, provider):
    renamed(world, provider, "gpt-4o", context_length=5_000, input_modalities=["text"])
    world.price("2.5", 10)
    path = f"/v1/models/{world.model}"
    about = {
        "context_length": 5_000,
        "max_output_tokens": 16_384,
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "pricing": {"currency": "USD", "input": "2.5", "output": "10"},
    }
    expected = {"id": world.model, "object": "model", "created": 0, "owned_by": world.row(provider).name} | about
    assert world.get(path).json() == expected
    assert expected in world.get("/v1/models").json()["data"]
    assert "gpt-4o" not in json.dumps(expected)
    anthropic = world.get(path, headers={"anthropic-version": "2023-06-01"}).json()
    assert (anthropic["max_input_tokens"], anthropic["max_tokens"]) == (5_000, 16_384)
    assert anthropic["type"] == "model"


def test_nothing_is_said_of_a_model_that_nobody_knows(world, provider):
    assert world.get(f"/v1/models/{world.model}").json().keys() == {"id", "object", "created", "owned_by"}
