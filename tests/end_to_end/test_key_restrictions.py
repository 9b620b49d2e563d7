"""What narrows a key holds for each request, in each client API, and within a second of each change."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.utils import timezone

from keys.models import ApiKey
from keys.services import rotate_key, update_key
from rules.aliases.drafts import MirrorDraft
from telemetry.models import CacheEntry
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

CHAT = [{"role": "user", "content": "Hello!"}]


def denied(response, *words):
    """The response is a refusal of the key itself."""
    assert response.status_code == 403, response.text
    assert response.json()["exception"] == "PermissionDenied"
    for word in words:
        assert word in response.json()["message"]


def names(response):
    return {row["id"] for row in response.json()["data"]}


class TestModels:
    def test_only_models_that_the_key_names_are_served(self, world):
        world.allow()
        provider = world.provider("gpt-4o", "gpt-4o-mini", "o3")
        key = world.new_key(models=["gpt-4o", "not-offered-.*"]).text
        assert world.ask(key=key, body={"model": "gpt-4o"}).status_code == 200
        for model in ("gpt-4o-mini", "o3", "unheard-of"):
            response = world.ask(key=key, body={"model": model})
            denied(response, f"may not use the model {model}")
            assert world.entry(response).outcome == "denied"
        assert len(provider.seen) == 1
        assert names(world.get("/v1/models", key=key)) == {"gpt-4o"}
        assert world.get("/v1/models/gpt-4o-mini", key=key).status_code == 404

    def test_the_rules_are_never_widened(self, world):
        world.allow(regex="small")
        world.provider("small", "large")
        key = world.new_key(models=[".*"]).text
        response = world.ask(key=key, body={"model": "large"})
        assert (response.status_code, response.json()["exception"]) == (403, "RuleDenied")
        assert names(world.get("/v1/models", key=key)) == {"small"}

    def test_a_name_with_its_provider_is_judged_by_the_model(self, world):
        world.allow()
        provider = world.provider("small", "large")
        prefix = world.row(provider).name
        key = world.new_key(models=["small"]).text
        assert world.ask(key=key, body={"model": f"{prefix}/small"}).status_code == 200
        denied(world.ask(key=key, body={"model": f"{prefix}/large"}))

    def test_a_linked_key_is_judged_too(self, world):
        world.allow()
        row = world.row(world.provider("small", "large"))
        key = world.new_key(models=["small"], provider=row).text
        assert world.ask(key=key, body={"model": "small"}).status_code == 200
        denied(world.ask(key=key, body={"model": "large"}))

    def test_an_alias_needs_its_own_name_and_a_target_that_the_key_names(self, world):
        world.allow()
        small, large = world.provider("small"), world.provider("large")
        alias = world.alias(world.target(small, "small"), world.target(large, "large"), fallback_on=["error"])
        model = {"model": alias.name}
        for patterns in ([alias.name], ["small"], ["large", "small"]):
            denied(world.ask(key=world.new_key(models=patterns).text, body=model))
        key = world.new_key(models=[alias.name, "large"]).text
        for number in range(6):
            assert world.ask(f"{number}", key=key, body=model).headers["X-Svc-Model"] == "large"
        assert small.seen == []
        assert names(world.get("/v1/models", key=key)) == {alias.name, "large"}

    def test_an_alias_that_is_changed_later_widens_no_key(self, world):
        world.allow()
        provider = world.provider("small", "large")
        alias = world.alias(world.target(provider, "small"))
        key = world.new_key(models=[alias.name, "small"]).text
        assert world.ask(key=key, body={"model": alias.name}).status_code == 200
        alias.targets.update(model=world.row(provider).models.get(name="large"))
        world.settle()
        denied(world.ask("later", key=key, body={"model": alias.name}))

    def test_the_mirror_is_no_way_round(self, world):
        world.allow()
        main, mirror = world.provider("small"), world.provider("large")
        alias = world.alias(world.target(main, "small"), mirror=MirrorDraft(world.row(mirror).pk, "large", 1.0))
        key = world.new_key(models=[alias.name, "small"]).text
        assert world.ask(key=key, body={"model": alias.name}).status_code == 200
        free = world.new_key().text
        assert world.ask("free", key=free, body={"model": alias.name}).status_code == 200
        assert [request.json["messages"][0]["content"] for request in mirror.wait_for(1)] == ["free"]

    def test_a_cached_answer_is_no_way_round(self, world, provider):
        assert world.ask("cached").headers["X-Svc-Cache"] == "MISS"
        key = world.new_key(models=["another"])
        for headers in ({}, {"X-Svc-Cache": "only"}):
            denied(world.ask("cached", key=key.text, headers=headers))
        update_key(key.key, models=[world.model])
        world.settle()
        assert world.ask("cached", key=key.text).headers["X-Svc-Cache"] == "HIT"

    def test_nor_is_a_request_in_flight(self, world, provider):
        provider.default = Answer(text="one two three", delay=0.5, pace=0.1)
        narrow, far = world.new_key(models=["another"]).text, world.new_key(networks=["192.0.2.0/24"]).text
        assert world.key
        world.settle()
        with ThreadPoolExecutor(6) as pool:
            keys = [world.key, narrow, far]
            plain = pool.map(lambda key: world.ask("same", key=key).status_code, keys)
            streams = pool.map(lambda key: world.stream("same", key=key).status_code, keys)
            assert list(plain) == list(streams) == [200, 403, 403]

    def test_a_leaders_fallback_is_not_served_to_a_key_that_may_not_use_it(self, world):
        world.allow()
        small, large = world.provider("small"), world.provider("large")
        tiers = [world.target(small, "small"), world.target(large, "large", tier=1)]
        alias = world.alias(*tiers, fallback_on=["error"])
        small.default, large.default = Answer(status=500, delay=0.5), Answer(text="large")
        narrow = world.new_key(models=[alias.name, "small"]).text
        assert world.key
        world.settle()
        with ThreadPoolExecutor(2) as pool:
            codes = pool.map(
                lambda key: world.ask("same", key=key, body={"model": alias.name}).status_code, [world.key, narrow]
            )
            assert list(codes) == [200, 502]


class TestNetworks:
    def test_a_key_is_refused_from_elsewhere(self, world, provider):
        inside = world.new_key(networks=["192.0.2.0/24", "127.0.0.0/8"]).text
        assert world.ask(key=inside).status_code == 200
        outside = world.new_key(networks=["192.0.2.0/24", "::/0"]).text
        response = world.ask(key=outside, headers={"X-Forwarded-For": "192.0.2.7"})  # of a proxy that nobody trusts
        denied(response, "may not be used from the address 127.0.0.1")
        entry = world.entry(response)
        assert (entry.status, entry.address, entry.key_id is not None) == (403, "127.0.0.1", True)
        denied_list = world.get("/v1/models", key=outside)
        assert denied_list.status_code == 403
        assert len(provider.seen) == 1

    def test_the_address_is_the_clients_behind_trusted_proxies(self, own_gateway):
        world = own_gateway(GATEWAY_TRUSTED_PROXIES="127.0.0.0/8, ::1, 10.0.0.0/8")
        world.allow()
        world.provider()
        key = world.new_key(networks=["192.0.2.0/24", "2001:db8::/32"]).text
        statuses = {
            "192.0.2.7": 200,
            "203.0.113.9, 192.0.2.7, 10.1.1.1": 200,  # what a client itself puts first counts for nothing
            "192.0.2.7, 203.0.113.9": 403,
            "::ffff:192.0.2.7": 200,
            "[2001:db8::7]:443": 200,
            "2001:db9::7": 403,
            "nonsense": 403,
            "": 403,
        }
        answers = {text: world.ask(key=key, headers={"X-Forwarded-For": text}).status_code for text in statuses}
        assert answers == statuses


class TestBeginning:
    def test_a_key_is_refused_before_it_as_an_expired_one_is(self, world, provider):
        early = world.ask(key=world.new_key(not_before=timezone.now() + timedelta(hours=1)).text)
        expired = world.new_key()
        ApiKey.objects.filter(pk=expired.key.pk).update(expiry=world.expired())
        late = world.ask(key=expired.text)
        assert early.status_code == late.status_code == 401
        assert early.content == late.content
        assert world.ask(key=world.new_key(not_before=world.expired()).text).status_code == 200
        assert len(provider.seen) == 1

    def test_it_begins_by_itself(self, world, provider):
        key = world.new_key(not_before=timezone.now() + timedelta(seconds=1.5)).text
        assert world.ask(key=key).status_code == 401
        assert world.soon(lambda: world.ask(key=key), 200, seconds=3).status_code == 200


class TestTags:
    def test_they_are_on_each_entry_and_win_over_the_requests(self, world, provider):
        key = world.new_key(tags={"team": "search", "plan": "a"}).text
        entry = world.entry(world.ask(key=key, headers={"X-Svc-Tags": "team=other,run=7"}))
        assert entry.tags == {"team": "search", "plan": "a", "run": "7"}
        assert world.entry(world.ask("another", key=key)).tags == {"team": "search", "plan": "a"}

    def test_targets_of_an_alias_are_chosen_by_them(self, world):
        world.allow()
        first, second = world.provider(), world.provider()
        targets = [world.target(first, match={"tags": {"team": "search"}}), world.target(second, tier=1)]
        alias = world.alias(*targets)
        key = world.new_key(tags={"team": "search"}).text
        world.ask("1", key=key, body={"model": alias.name}, headers={"X-Svc-Tags": "team=other"})
        world.ask("2", body={"model": alias.name}, headers={"X-Svc-Tags": "team=other"})
        assert (len(first.seen), len(second.seen)) == (1, 1)


class TestTokens:
    @pytest.mark.parametrize(
        ("path", "body", "name"),
        [
            ("/work", {"messages": CHAT}, "max_tokens"),
            ("/work", {"prompt": "Hello!"}, "max_tokens"),
            ("/v1/chat/completions", {"messages": CHAT}, "max_tokens"),
            ("/v1/completions", {"prompt": "Hello!"}, "max_tokens"),
            ("/v1/responses", {"input": "Hello!"}, "max_output_tokens"),
            ("/v1/messages", {"messages": CHAT}, "max_tokens"),
        ],
    )
    def test_each_client_api_is_bounded(self, world, provider, path, body, name):
        key = world.new_key(max_tokens_per_request=50).text
        body = {"model": world.model, **body}
        response = world.post(body | {name: 51}, key=key, path=path)
        assert response.status_code == 400, response.text
        assert "from 1 to 50: this key allows 50 tokens in a request" in response.text
        assert provider.seen == []
        assert world.post(body | {name: 20}, key=key, path=path).status_code == 200
        assert world.post(body, key=key, path=path).status_code == 200
        assert [request.json["max_tokens"] for request in provider.seen] == [20, 50]

    @pytest.mark.parametrize(
        ("format_name", "model", "place"),
        [
            ("openai", "small", ["max_tokens"]),
            ("openai", "gpt-5-mini", ["max_completion_tokens"]),
            ("anthropic", "claude", ["max_tokens"]),
            ("gemini", "gemini", ["generationConfig", "maxOutputTokens"]),
            ("ollama", "llama", ["options", "num_predict"]),
            ("mistral", "mistral", ["max_tokens"]),
            ("cohere", "command", ["max_tokens"]),
        ],
    )
    def test_each_provider_gets_the_bound_under_its_own_name(self, world, format_name, model, place):
        world.allow()
        provider = world.provider(model, format_name=format_name)
        key = world.new_key(max_tokens_per_request=50).text
        world.ask(key=key, body={"model": model})
        value = provider.wait_for(1)[0].json
        for name in place:
            value = value[name]
        assert value == 50

    def test_streams_and_answers_without_a_bound_are_not_shared_with_other_keys(self, world, provider):
        key = world.new_key(max_tokens_per_request=50).text
        world.ask("same")
        assert world.ask("same", key=key).headers["X-Svc-Cache"] == "MISS"
        assert world.stream("same", key=key).status_code == 200
        assert [request.json.get("max_tokens") for request in provider.seen] == [None, 50, 50]

    def test_embeddings_have_no_answer_to_bound(self, world, provider):
        key = world.new_key(max_tokens_per_request=50).text
        assert world.post({"model": world.model, "input": "Hello!"}, key=key, path="/v1/embeddings").status_code == 200
        assert "max_tokens" not in provider.seen[0].json

    @pytest.mark.parametrize(
        ("body", "headers", "path"),
        [
            ({"messages": CHAT}, {"X-Svc-Operation": "embedding"}, "/work"),
            ({"input": "Hello!"}, {}, "/work"),  # OpenAI's Responses, too
            ({"input": "Hello!", "messages": CHAT}, {}, "/v1/embeddings"),
        ],
    )
    def test_a_service_of_an_unknown_shape_is_bounded_whatever_the_operation_seems_to_be(
        self, world, body, headers, path
    ):
        world.allow()
        provider = world.provider("big", format_name="passthrough")
        key = world.new_key(max_tokens_per_request=50).text
        for name in ("max_tokens", "max_output_tokens"):
            response = world.post({"model": "big", **body, name: 100_000}, key=key, headers=headers, path=path)
            assert response.status_code == 400, response.text
            assert f"{name} must be a whole number from 1 to 50" in response.text
        world.post({"model": "big", **body}, key=key, headers=headers, path=path)
        assert [request.json.get("max_tokens") for request in provider.seen] == [50]

    def test_a_known_service_gets_no_bound_with_an_embedding_on_work(self, world, provider):
        key = world.new_key(max_tokens_per_request=50).text
        assert world.post({"model": world.model, "input": "Hello!"}, key=key).status_code == 200
        assert "max_tokens" not in provider.seen[0].json


class TestContent:
    def test_a_key_keeps_less_than_the_gateway(self, world, provider):
        provider.default = Answer(text="Lisbon")
        for kind, words in (("default", True), ("redacted", False), ("none", False)):
            key = world.new_key(content_logging=kind).text
            for stream in (False, True):
                response = world.ask(f"the secret {kind} {stream}", key=key, body={"stream": stream})
                assert response.text
                payload = world.entry(response).payload
                assert (f"the secret {kind}" in payload) is words
                assert ("Lisbon" in payload) is words
                if kind == "redacted":
                    parts = json.loads(payload)
                    assert parts["request"].keys() == parts["response"].keys() == {"bytes", "sha256"}
                    assert parts["response"]["bytes"] == len(response.content)
                if kind == "none":
                    assert payload == ""

    @pytest.mark.parametrize(
        ("status", "own_message"),
        [
            (400, "The provider refused the request with status 400."),
            (429, "The provider is overloaded (status 429)."),
            (500, "The provider failed with status 500."),
        ],
    )
    def test_nor_does_a_key_keep_the_message_of_a_provider_that_quotes_the_prompt(
        self, world, provider, status, own_message
    ):
        provider.default = Answer(status=status, body={"error": {"message": "What is 'the secret'?"}})
        for kind, words in (("none", False), ("redacted", False), ("default", True)):
            response = world.ask("the secret", key=world.new_key(content_logging=kind).text)
            assert "the secret" in response.json()["message"]
            entry, message = world.entry(response), world.entry(response, "Message")
            for row in (entry, message):
                assert ("the secret" in f"{row.message} {row.candidates} {row.attempts}") is words
                assert (f"{own_message} Its message is not kept." in row.message) is not words

    def test_the_list_of_cached_answers_keeps_no_more(self, world, provider):
        provider.default = Answer(text="Lisbon")
        hidden = world.ask("hidden", key=world.new_key(content_logging="none").text)
        shown = world.ask("shown")
        hashes = {world.entry(hidden).cache_hash: "", world.entry(shown).cache_hash: "Lisbon"}
        world.until(lambda: CacheEntry.objects.filter(request_hash__in=hashes).count() == 2)
        for row in CacheEntry.objects.filter(request_hash__in=hashes):
            assert ("Lisbon" in row.response) is bool(hashes[row.request_hash])

    def test_no_key_keeps_more_than_the_gateway(self, own_gateway):
        world = own_gateway(GATEWAY_LOG_PAYLOAD="none")
        world.allow()
        world.provider()
        for kind in ("default", "redacted"):
            assert world.entry(world.ask(kind, key=world.new_key(content_logging=kind).text)).payload == ""


class TestChanges:
    @pytest.mark.parametrize(
        "options",
        [{"models": ["another"]}, {"networks": ["192.0.2.0/24"]}, {"not_before": timezone.now() + timedelta(days=1)}],
    )
    def test_a_change_holds_within_a_second(self, world, provider, options):
        issued = world.new_key()
        assert world.ask(key=issued.text).status_code == 200
        update_key(issued.key, **options)
        code = 401 if "not_before" in options else 403
        world.soon(lambda: world.ask(key=issued.text), code)

    def test_both_secrets_of_a_rotated_key_are_narrowed(self, world, provider):
        first = world.new_key(models=["another"])
        second = rotate_key(first.key)
        for issued in (first, second):
            denied(world.ask(key=issued.text))

    def test_a_key_whose_stored_restrictions_cannot_be_read_is_refused(self, world, provider):
        issued = world.new_key()
        ApiKey.objects.filter(pk=issued.key.pk).update(model_patterns=["("])
        assert world.ask(key=issued.text).status_code == 401
        assert provider.seen == []
