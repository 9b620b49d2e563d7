"""The wire formats through the whole pipeline: what goes to the provider, what comes back, what is read in it."""

import json

import pytest

pytestmark = pytest.mark.embedded


def datas(response):
    return [line.removeprefix(b"data: ") for line in response.content.splitlines() if line.startswith(b"data:")]


class TestOpenAI:
    def test_a_chat(self, world, provider):
        provider.answers(text="Lisbon")
        response = world.ask("Capital of Portugal?", body={"temperature": 0.5, "tools": [{"type": "x"}]})
        assert response.json()["choices"][0]["message"] == {"role": "assistant", "content": "Lisbon"}
        request = provider.seen[0]
        assert (request.method, request.path) == ("POST", "/v1/chat/completions")
        assert request.json == {
            "model": world.model,
            "messages": [{"role": "user", "content": "Capital of Portugal?"}],
            "temperature": 0.5,
            "tools": [{"type": "x"}],
        }
        entry = world.entry(response)
        assert (entry.operation, entry.input_tokens, entry.output_tokens, entry.finish_reason) == ("chat", 3, 1, "stop")

    def test_a_tool_call_without_text(self, world, provider):
        message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
        provider.answers(body={"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
        response = world.ask()
        assert response.json()["choices"][0]["message"] == message
        assert world.entry(response).finish_reason == "tool"

    def test_a_completion(self, world, provider):
        provider.answers(text="a time")
        response = world.post({"model": world.model, "prompt": "Once upon", "max_tokens": 5})
        assert response.json()["choices"][0]["text"] == "a time"
        assert provider.seen[0].path == "/v1/completions"
        assert provider.seen[0].json == {"model": world.model, "prompt": "Once upon", "max_tokens": 5}
        entry = world.entry(response)
        assert (entry.operation, entry.input_tokens, entry.output_tokens) == ("completion", 2, 2)

    @pytest.mark.parametrize("encoding", ["float", "base64"])
    def test_embeddings(self, world, provider, encoding):
        response = world.post({"model": world.model, "input": ["a b", "c"], "encoding_format": encoding})
        assert [item["index"] for item in response.json()["data"]] == [0, 1]
        assert provider.seen[0].path == "/v1/embeddings"
        entry = world.entry(response)
        assert (entry.operation, entry.input_tokens, entry.finish_reason) == ("embedding", 3, "")

    @pytest.mark.parametrize(
        "body", [{"data": []}, {"data": [{"embedding": None}]}, {"data": ["x"]}, {"object": "list"}]
    )
    def test_embeddings_that_are_none(self, world, provider, body):
        provider.answers(body=body)
        response = world.post({"model": world.model, "input": "a"})
        assert (response.status_code, response.json()["exception"]) == (502, "ProviderError")

    def test_a_chat_as_a_stream(self, world, provider):
        provider.answers(text="one two")
        response = world.stream()
        values = [json.loads(data) for data in datas(response)[:-1]]
        assert "".join(value["choices"][0]["delta"].get("content", "") for value in values) == "one two"
        assert datas(response)[-1] == b"[DONE]"
        assert provider.seen[0].json["stream"] is True

    def test_a_completion_as_a_stream(self, world, provider):
        provider.answers(text="one two")
        response = world.post({"model": world.model, "prompt": "a b c", "stream": True}, stream=True)
        values = [json.loads(data) for data in datas(response)[:-1]]
        assert "".join(value["choices"][0]["text"] for value in values) == "one two"
        entry = world.entry(response)
        assert (entry.operation, entry.stream, entry.input_tokens, entry.output_tokens) == ("completion", True, 3, 2)

    def test_a_base_address_may_end_in_a_slash(self, world):
        world.allow()
        provider = world.provider()
        provider.answers(text="ok")
        row = world.row(provider)
        row.url += "/"
        row.save()
        assert world.ask().status_code == 200
        assert provider.seen[0].path == "/v1/chat/completions"


class TestPassthrough:
    @pytest.fixture
    def provider(self, world):
        world.allow()
        return world.provider(format_name="passthrough")

    @pytest.mark.parametrize(
        "fields", [{"messages": []}, {"prompt": "x"}, {"input": ["x"]}, {"anything": {"at": "all"}}]
    )
    def test_the_body_goes_to_exactly_the_url_as_it_came(self, world, provider, fields):
        provider.answers(body={"result": [1, 2.0], "nested": {"ü": None}})
        raw = json.dumps({"model": world.model, **fields}, indent=2).encode()
        response = world.post(raw)
        assert response.json() == {"result": [1, 2.0], "nested": {"ü": None}}
        assert (provider.seen[0].path, provider.seen[0].body) == ("/v1", raw)
        assert world.entry(response).outcome == "completed"

    def test_a_query_in_the_url_stays(self, world, provider):
        row = world.row(provider)
        row.url += "/deep/path?version=3"
        row.save()
        provider.answers(body={"ok": True})
        assert world.ask().status_code == 200
        assert provider.seen[0].path == "/v1/deep/path?version=3"

    def test_a_list_is_an_answer_too(self, world, provider):
        provider.answers(body=[1, 2])
        assert world.ask().json() == [1, 2]

    @pytest.mark.parametrize("body", [b"plain text", b"", b"5", {"error": "no"}])
    def test_what_is_no_json_or_an_error_is_a_failure(self, world, provider, body):
        provider.answers(body=body)
        response = world.ask()
        assert (response.status_code, response.json()["exception"]) == (502, "ProviderError")

    @pytest.mark.parametrize(
        ("body", "tokens", "reason"),
        [
            ({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, (3, 4), ""),
            ({"usage": {"input_tokens": 5, "output_tokens": 6}, "stop_reason": "max_tokens"}, (5, 6), "max_tokens"),
        ],
    )
    def test_usage_is_read_where_it_stands_at_a_familiar_place(self, world, provider, body, tokens, reason):
        provider.answers(body=body)
        entry = world.entry(world.ask())
        assert (entry.input_tokens, entry.output_tokens) == tokens
        assert entry.provider_finish_reason == reason

    def test_only_the_prefix_of_the_model_is_taken_off(self, world, provider):
        provider.answers(body={"ok": True})
        world.ask(body={"model": f"{world.row(provider).name}/{world.model}"})
        assert provider.seen[0].json["model"] == world.model

    def test_usage_of_a_stream_is_not_asked_for(self, world, provider):
        response = world.stream("a b")
        assert datas(response)[-1] == b"[DONE]"
        assert "stream_options" not in provider.seen[0].json


class TestAzure:
    @pytest.fixture
    def provider(self, world):
        world.allow()
        provider = world.provider("my-gpt", format_name="azure-openai", auth_method="api-key")
        row = world.row(provider)
        row.url = provider.url.replace("/v1", "/openai/deployments?api-version=2024-10-21")
        row.save()
        return provider

    def ask(self, world, provider, **body):
        """A request to this test's provider, whichever others offer the model."""
        named = {"X-Svc-Provider": world.row(provider).name}
        return world.post({"model": "my-gpt", **body}, headers=named, stream=body.get("stream", False))

    def test_the_model_is_the_deployment_in_the_path(self, world, provider):
        provider.answers(text="Lisbon")
        response = self.ask(world, provider, messages=[{"role": "user", "content": "Capital of Portugal?"}])
        assert response.json()["choices"][0]["message"]["content"] == "Lisbon"
        assert provider.seen[0].path == "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"
        assert provider.seen[0].headers["api-key"] == "sk-secret-of-the-provider"

    def test_embeddings(self, world, provider):
        assert self.ask(world, provider, input=["a b"]).status_code == 200
        assert provider.seen[0].path == "/openai/deployments/my-gpt/embeddings?api-version=2024-10-21"

    def test_a_stream(self, world, provider):
        provider.answers(text="one two")
        response = self.ask(world, provider, messages=[{"role": "user", "content": "x"}], stream=True)
        assert datas(response)[-1] == b"[DONE]"
        assert provider.seen[0].json["stream_options"] == {"include_usage": True}


class TestGemini:
    @pytest.fixture
    def provider(self, world):
        world.allow()
        return world.provider(format_name="gemini", auth_method="x-goog-api-key")

    def test_it_counts_the_tokens_of_an_anthropic_client(self, world, provider):
        provider.answers(body={"totalTokens": 12})
        body = {"model": world.model, "system": "Be brief.", "messages": [{"role": "user", "content": "Hello!"}]}
        response = world.post(body | {"metadata": {"user_id": "7"}}, path="/v1/messages/count_tokens")
        assert response.json() == {"input_tokens": 12}
        assert provider.seen[0].path == f"/v1/models/{world.model}:countTokens"
        assert provider.seen[0].json == {
            "generateContentRequest": {
                "model": f"models/{world.model}",
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [{"role": "user", "parts": [{"text": "Hello!"}]}],
            }
        }

    def test_a_count_that_is_none_is_a_failure(self, world, provider):
        provider.answers(body={"total": 12})
        body = {"model": world.model, "messages": [{"role": "user", "content": "Hello!"}]}
        assert world.post(body, path="/v1/messages/count_tokens").status_code == 502

    def test_what_it_does_not_know_is_dropped_unless_its_record_says_otherwise(self, world, provider):
        provider.answers(body={"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]})
        response = world.ask(body={"store": True, "logit_bias": {"1": 2}})
        assert response.headers["X-Svc-Dropped"] == "logit_bias, store"
        assert provider.seen[0].json == {"contents": [{"role": "user", "parts": [{"text": "Hello!"}]}]}


@pytest.mark.parametrize(("payload", "added"), [({}, "max_tokens=8192"), ({"max_tokens": 7}, None)])
def test_anthropic_gets_a_maximum_length_where_nobody_knows_one(world, payload, added):
    world.allow()
    provider = world.provider(format_name="anthropic")
    provider.answers(
        body=b'{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi"}],'
        b' "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}'
    )
    response, again = world.ask(body=payload), world.ask(body=payload)
    assert response.status_code == 200
    assert response.headers.get("X-Svc-Added") == added
    assert (again.headers["X-Svc-Cache"], again.headers.get("X-Svc-Added")) == ("HIT", added)
    assert provider.seen[-1].json["max_tokens"] == payload.get("max_tokens", 8192)


FOREIGN_FORMATS = ["anthropic", "bedrock", "cohere", "gemini", "mistral", "ollama"]


@pytest.mark.parametrize("format_name", FOREIGN_FORMATS)
@pytest.mark.parametrize("kind", ["audio", "function_call"])
def test_what_an_assistant_has_done_is_refused_and_not_left_out(world, format_name, kind):
    world.allow()
    provider = world.provider(format_name=format_name)
    question = {"role": "user", "content": "Hello!"}
    answer = {"role": "assistant", "content": None, kind: {"id": world.name("audio")}}
    response = world.post({"model": world.model, "messages": [question, answer, question]})
    assert (response.status_code, response.json()["exception"]) == (400, "ValidationError")
    assert kind in response.json()["message"]
    assert provider.seen == []


TOOL = {"name": "weather", "input_schema": {"type": "object"}, "strict": True, "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("path", "body", "dropped"),
    [
        (
            "/v1/messages",
            {"max_tokens": 9, "tools": [TOOL | {"defer_loading": True, "allowed_callers": ["code_execution"]}]},
            "tool.allowed_callers, tool.defer_loading",
        ),
        ("/v1/messages", {"max_tokens": 9, "tools": [TOOL]}, None),
        (
            "/v1/responses",
            {"reasoning": {"effort": "low", "summary": "auto", "context": "all_turns"}, "text": {"speed": "fast"}},
            "reasoning.context, text.speed",
        ),
        ("/v1/responses", {"reasoning": {"effort": None, "context": None}, "text": {"verbosity": "low"}}, None),
    ],
)
def test_members_of_parameters_that_are_dropped_are_named(world, path, body, dropped):
    world.allow()
    world.provider().default.text = "Hi"
    conversation = {"input": "Hello!"} if "responses" in path else {"messages": [{"role": "user", "content": "Hello!"}]}
    response = world.post({"model": world.model, **conversation, **body}, path=path)
    assert (response.status_code, response.headers.get("X-Svc-Dropped")) == (200, dropped)
