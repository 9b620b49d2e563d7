"""Strict limits of tokens and cost: the largest possible use of a request has to fit, end to end."""

import json
from decimal import Decimal

import pytest

from providers.models import Model
from tests.support.limiting import bypass, left, limited, refused
from tests.support.promises import promise
from tests.support.provider_answers import Answer


class TestStrict:
    @promise("A strict limit is never exceeded", target="the largest use has to fit", suite="attack")
    def test_the_largest_use_has_to_fit(self, world, provider):
        key = limited(world, "tokens", "day", 500, is_strict=True)
        refused(bypass(world, key, max_tokens=480), "QuotaExceeded", "more than the daily token limit")
        assert bypass(world, key, max_tokens=100).status_code == 200

    def test_an_answer_without_a_bound_is_refused(self, world, provider):
        key = limited(world, "tokens", "day", 5000, is_strict=True)
        response = bypass(world, key)
        assert (response.status_code, response.json()["exception"]) == (400, "ValidationError")
        assert "max_tokens" in response.json()["message"]
        assert provider.seen == []

    @pytest.mark.parametrize("bound", [{"num_predict": 1}, {"options": {"num_predict": 1}}, {"max_output_tokens": 1}])
    def test_a_bound_of_another_api_is_none(self, world, provider, bound):
        key = limited(world, "tokens", "day", 5000, is_strict=True)
        assert bypass(world, key, **bound).status_code == 400
        assert provider.seen == []

    def test_a_service_of_an_unknown_shape_may_answer_what_looks_like_an_embedding(self, world):
        world.allow()
        provider = world.provider(format_name="passthrough")
        key = limited(world, "tokens", "day", 5000, is_strict=True)
        response = world.post({"model": world.model, "input": "Write a novel."}, key=key)
        assert (response.status_code, provider.seen) == (400, [])
        Model.objects.filter(provider=world.row(provider)).update(max_output_tokens=10_000)
        world.settle()
        refused(world.post({"model": world.model, "input": "Write a novel."}, key=key), "QuotaExceeded")

    def test_a_strict_limit_of_cost_keeps_the_largest_cost_free(self, world, provider):
        world.price(1, 1)
        key = limited(world, "cost", "day", "0.0005", is_strict=True)
        refused(bypass(world, key, max_tokens=500), "QuotaExceeded", "daily cost limit")
        assert bypass(world, key, max_tokens=50).status_code == 200

    def test_the_models_own_bound_will_do(self, world, provider):
        Model.objects.filter(provider=world.row(provider)).update(max_output_tokens=100)
        world.settle()
        key = limited(world, "tokens", "day", 5000, is_strict=True)
        assert bypass(world, key).status_code == 200

    @promise("A strict limit is never exceeded", target="the largest use has to fit", suite="attack")
    def test_a_list_of_prompts_has_as_many_answers(self, world, provider):
        key = limited(world, "tokens", "day", 5000, is_strict=True)
        body = {"model": world.model, "prompt": ["Hello!"] * 20, "max_tokens": 400}
        response = world.post(body, path="/v1/completions", key=key)
        assert (response.status_code, provider.seen) == (429, [])
        assert world.post(body | {"max_tokens": 100}, path="/v1/completions", key=key).status_code == 200

    @promise("A strict limit is never exceeded", target="the largest use has to fit", suite="attack")
    def test_all_tokens_may_be_of_the_dearest_kind(self, world, provider):
        world.price(1, 1, cache_write=Decimal(5), reasoning=Decimal(9))
        details = {"prompt_tokens_details": {"cache_write_tokens": 80}}
        details["completion_tokens_details"] = {"reasoning_tokens": 50}
        provider.default = Answer(usage={"prompt_tokens": 80, "completion_tokens": 50} | details)
        key = limited(world, "cost", "day", "0.0006", is_strict=True)
        refused(bypass(world, key, max_tokens=50), "QuotaExceeded", "daily cost limit")
        assert provider.seen == []

    @pytest.mark.parametrize("stream", [False, True])
    def test_what_a_filter_stopped_is_the_answer_that_was_paid(self, world, stream):
        world.allow()
        first, second = world.provider(), world.provider()
        alias = world.alias(world.target(first), world.target(second, tier=1), fallback_on=["content_filter"])
        usage = {"prompt_tokens": 80, "completion_tokens": 100}
        first.default = Answer(text="", finish_reason="content_filter", usage=usage)
        key = limited(world, "tokens", "day", 500, is_strict=True)
        response = bypass(world, key, model=alias.name, max_tokens=100, stream=stream)
        assert b"content_filter" in response.content
        assert second.seen == []
        entry = world.entry(response)
        assert (entry.input_tokens, entry.output_tokens, entry.attempts) == (80, 100, 1)

    def test_an_answer_without_its_usage_costs_what_was_reserved(self, world, provider):
        provider.default = Answer(usage={})
        key = limited(world, "tokens", "day", 1000, is_strict=True)
        response = bypass(world, key, max_tokens=100)
        size = len(provider.seen[0].body)
        assert left(response, "key-tokens-day") == 1000 - 100 - size


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.test/large.png"}}
INLINE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
FILE = {"type": "file", "file": {"file_id": "file-1"}}
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
FORMATS = {CHAT: "openai", RESPONSES: "openai-responses", MESSAGES: "anthropic"}
BOUNDS = {RESPONSES: "max_output_tokens"}
SAID = [{"role": "user", "content": "Hello!"}]


def content(*parts):
    return {"messages": [{"role": "user", "content": [*parts]}]}


# Of what a provider bills that is not in the body: what fits into the context of the model, and what has no bound.
REFERRING = [
    pytest.param(CHAT, content(PICTURE), id="address of a picture"),
    pytest.param(CHAT, content(INLINE), id="picture"),
    pytest.param(CHAT, content(FILE), id="file"),
    pytest.param(RESPONSES, {"input": "Go on.", "conversation": "conv_1"}, id="conversation"),
    pytest.param(RESPONSES, {"input": [{"type": "item_reference", "id": "msg_1"}]}, id="item"),
    pytest.param(
        MESSAGES,
        content({"type": "document", "source": {"type": "url", "url": "https://example.test/a.pdf"}}),
        id="address of a document",
    ),
    pytest.param(
        MESSAGES, {"messages": SAID, "tools": [{"type": "bash_20250124", "name": "bash"}]}, id="described tool"
    ),
]
UNBOUNDED = [
    pytest.param(RESPONSES, {"input": "Go on.", "prompt": {"id": "pmpt_1"}}, "prompt.id", id="prompt"),
    pytest.param(RESPONSES, {"input": "News?", "tools": [{"type": "web_search"}]}, "tools[0]", id="search"),
    pytest.param(
        RESPONSES,
        {"input": "News?", "conversation": "conv_1", "tools": [{"type": "mcp", "server_url": "https://example.test"}]},
        "tools[0]",
        id="tools of a server",
    ),
    pytest.param(CHAT, {"messages": SAID, "web_search_options": {}}, "web_search_options", id="searching chat"),
    pytest.param(
        MESSAGES,
        {"messages": SAID, "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "tools[0]",
        id="search of anthropic",
    ),
]


class TestInputThatIsNotInTheBody:
    def ask(self, world, path, body, key):
        for identifier in ("file-1", "conv_1", "pmpt_1"):  # each belongs to the first user who names it
            body = json.loads(json.dumps(body).replace(identifier, f"{identifier}-{world.number}"))
        return world.post({"model": world.model, BOUNDS.get(path, "max_tokens"): 10, **body}, path=path, key=key)

    def provider(self, world, path, context_length=None):
        world.allow()
        provider = world.provider(format_name=FORMATS[path])
        Model.objects.filter(provider=world.row(provider)).update(context_length=context_length)
        return provider

    @pytest.mark.parametrize(("path", "body"), REFERRING)
    @promise("A strict limit is never exceeded", target="the largest use has to fit", suite="attack")
    def test_it_is_refused_where_the_context_is_not_known(self, world, path, body):
        provider = self.provider(world, path)
        if "item_reference" in str(body):  # one that this user may refer to
            body = self.own_item(world, provider)
        count, key = len(provider.seen), limited(world, "tokens", "day", 100_000, is_strict=True)
        response = self.ask(world, path, body, key)
        assert response.status_code == 400, response.text
        assert "is strict: leave out" in response.text
        assert "context length" in response.text
        assert len(provider.seen) == count

    @pytest.mark.parametrize(("path", "body"), REFERRING)
    @promise("A strict limit is never exceeded", target="the largest use has to fit", suite="attack")
    def test_it_may_fill_the_context(self, world, path, body):
        provider = self.provider(world, path, context_length=8000)
        if "item_reference" in str(body):
            body = self.own_item(world, provider)
        count = len(provider.seen)
        small, large = (limited(world, "tokens", "day", amount, is_strict=True) for amount in (8000, 8010))
        response = self.ask(world, path, body, small)
        assert (response.status_code, len(provider.seen)) == (429, count), response.text
        provider.answers(status=418)
        self.ask(world, path, body, large)
        assert len(provider.seen) == count + 1

    @pytest.mark.parametrize(("path", "body", "field"), UNBOUNDED)
    @promise("A strict limit is never exceeded", target="the largest use has to fit", suite="attack")
    def test_what_the_context_does_not_bound_is_refused(self, world, path, body, field):
        provider = self.provider(world, path, context_length=8000)
        key = limited(world, "cost", "day", 1000, is_strict=True)
        world.price(1, 1)
        response = self.ask(world, path, body, key)
        assert (response.status_code, provider.seen) == (400, []), response.text
        assert f"leave out {field}" in response.text

    @pytest.mark.parametrize(("path", "body"), REFERRING[:3])
    def test_without_a_strict_limit_all_of_it_passes(self, world, path, body):
        provider = self.provider(world, path)
        assert self.ask(world, path, body, limited(world, "tokens", "day", 100_000)).status_code == 200
        assert len(provider.seen) == 1

    def own_item(self, world, provider):
        identifier = world.name("msg")
        item = {"id": identifier, "type": "message", "role": "assistant", "status": "completed"}
        item["content"] = [{"type": "output_text", "text": "Lisbon", "annotations": []}]
        answer = {"id": world.name("resp"), "object": "response", "status": "completed", "output": [item]}
        provider.answers(body=answer | {"usage": {"input_tokens": 3, "output_tokens": 1}})
        body = {"model": world.model, "input": "Capital of Portugal?"}
        assert world.post(body, path=RESPONSES).status_code == 200
        return {"input": [{"type": "item_reference", "id": identifier}]}


class TestSpellings:
    @pytest.mark.parametrize("name", ["Max_Tokens", "N", "BACKGROUND", "bac\u212aground"])
    @promise("A strict limit is never exceeded", target="the largest use has to fit", suite="attack")
    def test_a_parameter_that_is_counted_has_one_spelling(self, world, provider, name):
        """Servers that compare names without their case would take the last one."""
        key = limited(world, "tokens", "day", 5000)
        response = bypass(world, key, max_tokens=10, **{name: 100_000})
        assert (response.status_code, provider.seen) == (400, [])
        assert name.casefold() in response.json()["message"]

    def test_without_such_a_limit_it_is_the_providers_matter(self, world, provider):
        assert bypass(world, Max_Tokens=10).status_code == 200
