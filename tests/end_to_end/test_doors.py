"""The doors of OpenAI's clients: same pipeline, their paths, their shapes."""

import base64
import json
import struct

import pytest

from tests.support.clients.recorded import recorded
from tests.support.formats.messages import calls_of, gathered
from tests.support.provider import ScriptedProvider

pytestmark = pytest.mark.embedded

CHAT = "/v1/chat/completions"


def error(response, status, code):
    """The error in a response, which has this status and code and OpenAI's shape."""
    assert response.status_code == status, response.text
    assert response.headers["X-Svc-Request-ID"] == response.headers["x-request-id"]
    assert set(response.json()) == {"error"}
    body = response.json()["error"]
    assert set(body) == {"message", "type", "param", "code"}
    assert (body["code"], type(body["message"])) == (code, str)
    return body


class TestChat:
    def test_an_openai_provider_gets_and_gives_the_bytes_as_they_are(self, world, provider):
        body = {"id": "x", "choices": [{"message": {"content": "Lisbon"}, "finish_reason": "stop"}], "novel": [1]}
        provider.answers(body=(raw := json.dumps(body, indent=1).encode()))
        message = json.dumps({"model": world.model, "messages": [{"role": "user", "content": "?"}]}, indent=1).encode()
        response = world.post(message, path=CHAT)
        assert response.content == raw
        assert (provider.seen[0].path, provider.seen[0].body) == (CHAT, message)
        assert response.headers["x-request-id"] == response.headers["X-Svc-Request-ID"]
        assert response.headers["X-Svc-Provider"] == world.row(provider).name
        assert response.headers["X-Svc-Cache"] == "MISS"
        entry = world.entry(response)
        assert (entry.operation, entry.outcome, entry.entry_source) == ("chat", "completed", "Worker")

    def test_a_slash_at_the_end_changes_nothing(self, world, provider):
        assert world.ask(path=f"{CHAT}/").status_code == 200

    def test_a_second_answer_comes_from_the_cache_which_work_does_not_share(self, world, provider):
        for path, expected in [(CHAT, "MISS"), (CHAT, "HIT"), ("/work", "MISS"), ("/work", "HIT")]:
            assert world.ask(path=path).headers["X-Svc-Cache"] == expected
        assert len(provider.seen) == 2

    def test_a_stream_passes_and_is_replayed(self, world, provider):
        first, second = world.stream("one two", path=CHAT), world.stream("one two", path=CHAT)
        assert first.content == second.content
        assert first.content.endswith(b"data: [DONE]\n\n")
        assert second.headers["X-Svc-Cache"] == "HIT"

    def test_streamed_calls_without_index_get_theirs(self, world, provider):
        pieces = [
            {"id": "a", "function": {"name": "f", "arguments": ""}},
            {"function": {"arguments": "{}"}},
            {"id": "b", "function": {"name": "g", "arguments": "{}"}},
        ]
        deltas = [{"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": None} for piece in pieces]
        events = [*deltas, {"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
        provider.default.stream = [*({"id": "c", "choices": [one]} for one in events), "data: [DONE]\n\n"]
        for expected in ("MISS", "HIT"):
            response = world.stream(path=CHAT)
            assert response.headers["X-Svc-Cache"] == expected
            lines = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith(b"data: {")]
            calls = [call for line in lines for call in line["choices"][0]["delta"].get("tool_calls", [])]
            assert [call["index"] for call in calls] == [0, 0, 1]

    def test_it_fails_over(self, world, provider):
        second = world.provider(priority=200)
        provider.answers(status=503)
        second.answers(text="Lisbon")
        assert world.ask(path=CHAT).json()["choices"][0]["message"]["content"] == "Lisbon"

    @pytest.mark.parametrize("format_name", ["openai", "anthropic"])
    def test_a_provider_that_does_not_stream_is_streamed_all_the_same(self, world, format_name):
        world.allow()
        provider = world.provider(format_name=format_name)
        provider.answers(body=recorded(format_name, "parallel_tool_calls").body)
        response = world.stream(path=CHAT, body={"max_tokens": 9})
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert response.content.endswith(b"data: [DONE]\n\n")
        assert [name for name, _ in calls_of(gathered(response.content))] == ["weather", "weather"]
        assert world.entry(response).finish_reason == "tool"

    def test_what_one_provider_has_no_place_for_another_may_have(self, world):
        world.allow()
        first, second = world.provider(format_name="anthropic", priority=10), world.provider(priority=20)
        second.answers(text="A contract.")
        file = {"type": "file", "file": {"file_id": "file-1"}}
        message = {"max_tokens": 9, "messages": [{"role": "user", "content": [file]}]}
        response = world.post({"model": world.model, **message}, path=CHAT)
        assert response.json()["choices"][0]["message"]["content"] == "A contract."
        assert (len(first.seen), world.entry(response).attempts) == (0, 1)

    def test_what_no_provider_has_a_place_for_is_refused_as_the_first_one_would(self, world):
        world.allow()
        providers = [world.provider(format_name=name) for name in ("anthropic", "cohere")]
        file = {"type": "file", "file": {"file_id": f"file-{world.number}"}}
        message = {"max_tokens": 9, "messages": [{"role": "user", "content": [file]}]}
        response = world.post({"model": world.model, **message}, path=CHAT)
        error(response, 400, "validation_error")
        assert [len(provider.seen) for provider in providers] == [0, 0]
        entry = world.entry(response)
        assert (entry.attempts, entry.entry_source, entry.status) == (0, "Not Set", 400)


class TestOtherOperations:
    def test_a_completion(self, world, provider):
        provider.answers(text="a time")
        response = world.post({"model": world.model, "prompt": "Once"}, path="/v1/completions")
        assert response.json()["choices"][0]["text"] == "a time"
        assert provider.seen[0].path == "/v1/completions"

    def test_the_path_says_what_is_asked_whatever_else_the_body_holds(self, world, provider):
        body = {"model": world.model, "messages": [], "input": "a"}
        assert world.post(body, path="/v1/embeddings").json()["object"] == "list"
        assert provider.seen[0].path == "/v1/embeddings"

    def test_embeddings_come_whole_to_those_too_who_ask_for_a_stream(self, world):
        world.allow()
        provider = world.provider(format_name="cohere")
        body = {"model": world.model, "input": "a", "stream": True}
        provider.answers(body={"embeddings": {"float": [[0.5]]}})
        assert world.post(body, path="/v1/embeddings").json()["data"][0]["embedding"] == [0.5]
        provider.answers(stream=[{"embeddings": {}}])
        error(world.post(body | {"input": "b"}, path="/v1/embeddings"), 502, "provider_error")

    def test_embeddings_come_as_base64_where_they_were_asked_for_so(self, world, provider):
        body = {"model": world.model, "input": "a", "encoding_format": "base64"}
        vector = world.post(body, path="/v1/embeddings").json()["data"][0]["embedding"]
        assert struct.unpack("<3f", base64.b64decode(vector)) == (0.5, -0.25, 1)


class TestErrors:
    @pytest.mark.parametrize("key", ["", "nonsense", "svc_x"])
    def test_no_key(self, world, key):
        response = world.ask(path=CHAT, key=key)
        assert error(response, 401, "invalid_api_key")["type"] == "invalid_request_error"
        assert world.entry(response).status == 401

    def test_no_rule(self, world):
        world.provider()
        assert "No rule allows" in error(world.ask(path=CHAT), 403, "rule_denied")["message"]

    def test_no_provider(self, world):
        world.allow()
        error(world.ask(path=CHAT), 400, "model_not_found")

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": 5, "messages": []}', b'{"messages": []}'])
    def test_a_body_that_is_wrong(self, world, provider, body):
        error(world.post(body, path=CHAT), 400, "validation_error")

    def test_another_media_type(self, world, provider):
        response = world.post(b"{}", path=CHAT, headers={"Content-Type": "text/plain"})
        error(response, 415, "unsupported_media_type")

    def test_a_body_that_is_too_large(self, own_gateway):
        world = own_gateway(GATEWAY_MAX_BODY_BYTES="1024")
        error(world.ask("x" * 1024, path=CHAT), 413, "payload_too_large")

    def test_another_method(self, world):
        response = world.get(CHAT)
        assert response.headers["Allow"] == "POST"
        error(response, 405, "method_not_allowed")

    @pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/files", "/v1/chat", "/v1/chat/completions/x", "/v1//models"])
    def test_a_path_that_does_not_exist(self, world, path):
        error(world.get(path), 404, "not_found")
        error(world.post({}, path=path), 404, "not_found")

    @pytest.mark.parametrize("path", ["/v1/v1/messages", "/v1/v1/models", "/chat/completions", "/models/demo"])
    def test_a_base_url_with_v1_twice_or_without_it_is_answered_with_the_right_path(self, world, path):
        right = f"/v1{path.replace('/v1', '')}"
        message = f"There is nothing at {path}. Did you mean {right}?"
        for response in (world.get(path), world.post({}, path=path)):
            assert response.status_code == 404
            assert message in response.text

    def test_the_providers_refusal_keeps_its_status_its_words_and_its_code(self, world, provider):
        message = {"message": "Too long.", "type": "x", "param": "messages", "code": "context_length_exceeded"}
        provider.answers(status=422, body={"error": message})
        result = error(world.ask(path=CHAT), 422, "context_length_exceeded")
        assert (result["message"], result["param"], result["type"]) == (
            "Too long.",
            "messages",
            "invalid_request_error",
        )

    @pytest.mark.parametrize(
        ("answer", "status", "code"),
        [
            ({"status": 500}, 502, "provider_error"),
            ({"status": 401}, 502, "provider_error"),
            ({"status": 503}, 503, "rate_limit_exceeded"),
            ({"status": 429}, 429, "rate_limit_exceeded"),
            ({"body": b"<html>"}, 502, "provider_error"),
            ({"silent": True}, 504, "provider_timeout"),
        ],
    )
    def test_a_provider_that_fails(self, world, provider, answer, status, code):
        provider.answers(**answer)
        result = error(world.ask(path=CHAT), status, code)
        assert result["type"] == ("rate_limit_error" if status == 429 else "server_error")

    def test_a_stream_that_breaks_off_ends_in_an_error_that_sdks_raise(self, world, provider):
        provider.answers(text="one two", no_terminal=True)
        response = world.stream(path=CHAT)
        last = json.loads(response.content.split(b"\n\n")[-2].removeprefix(b"data: "))
        assert last["error"]["code"] == "provider_error"
        assert "terminal mark" in last["error"]["message"]
        assert world.entry(response).outcome == "truncated"


class TestModels:
    def names(self, world, **options):
        response = world.get("/v1/models", **options)
        assert response.status_code == 200, response.text
        assert response.json()["object"] == "list"
        return [model["id"] for model in response.json()["data"]]

    def test_those_that_the_rules_allow_and_no_others(self, world):
        first, second = world.provider("a-1", "a-2", "b-1"), world.provider("a-1", "c-1")
        world.provider("a-9", enabled=False)
        world.allow(regex="a-.*")
        world.allow(provider=world.row(second), regex="c-.*|b-.*")
        mine = {"a-1", "a-2", "c-1"}
        assert mine <= set(self.names(world))
        assert not {"a-9", "b-1"} & set(self.names(world))
        for name in mine:
            response = world.get(f"/v1/models/{name}")
            assert response.json()["id"] == name
            assert world.ask(path=CHAT, body={"model": name}).status_code == 200
        for name in ("a-9", "b-1", "nonsense"):
            assert "that you may use" in error(world.get(f"/v1/models/{name}"), 404, "model_not_found")["message"]
        owner = world.row(first).name
        assert world.get(f"/v1/models/{owner}/a-2").json()["id"] == f"{owner}/a-2"

    def test_one_is_asked_for_in_utf_8(self, world):
        world.allow()
        name = f"modèle 東 {world.number}"
        world.provider(name)
        response = world.get(f"/v1/models/{name}")
        assert (response.status_code, response.json()["id"]) == (200, name)

    def test_a_key_linked_to_a_provider_sees_that_ones(self, world):
        world.allow()
        linked = world.provider("linked-1")
        world.provider("other-1")
        key = world.new_key(provider=world.row(linked)).text
        assert self.names(world, key=key) == ["linked-1"]

    def test_nobody_without_a_rule_sees_any(self, world):
        world.provider()
        assert world.model not in self.names(world)

    def test_a_refused_look_is_logged_and_is_no_work(self, world):
        for key, code, name in (
            ("nonsense", 401, "invalid_api_key"),
            (world.new_key(permissions=[]).text, 403, "permission_denied"),
        ):
            response = world.get("/v1/models", key=key)
            error(response, code, name)
            entry = world.entry(response, "Message")
            assert (entry.status, entry.outcome, entry.severity) == (code, "denied", "warning")
            assert entry.message == response.json()["error"]["message"]
            assert world.entries(correlation_id=response.headers["X-Svc-Request-ID"]) == 0

    def test_another_method(self, world):
        response = world.post({}, path="/v1/models")
        assert response.headers["Allow"] == "GET, HEAD"
        error(response, 405, "method_not_allowed")


def test_a_passthrough_provider_answers_as_it_likes(world):
    world.allow()
    provider: ScriptedProvider = world.provider(format_name="passthrough")
    provider.answers(body={"anything": 1})
    assert world.ask(path=CHAT).json() == {"anything": 1}


class TestResponses:
    PATH = "/v1/responses"

    def ask(self, world, **body):
        return world.post({"model": world.model, "input": "Capital of Portugal?", **body}, path=self.PATH)

    def test_it_is_a_chat_for_providers_that_only_know_those(self, world, provider):
        provider.answers(text="Lisbon")
        answer = self.ask(world, instructions="Be brief.").json()
        assert (answer["object"], answer["status"]) == ("response", "completed")
        assert answer["output"][0]["content"][0]["text"] == "Lisbon"
        assert (provider.seen[0].path, provider.seen[0].json["messages"][0]["role"]) == (CHAT, "system")

    def test_a_stream_ends_in_the_whole_response(self, world, provider):
        provider.answers(text="Lisbon is it", usage={"prompt_tokens": 3, "completion_tokens": 4})
        response = self.ask(world, stream=True)
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        last = json.loads(response.content.split(b"\n\n")[-2].partition(b"data: ")[2])
        assert last["type"] == "response.completed"
        assert last["response"]["usage"]["total_tokens"] == 7
        entry = world.entry(response)
        assert (entry.input_tokens, entry.output_tokens, entry.finish_reason) == (3, 4, "stop")
        assert self.ask(world, stream=True).content == response.content

    def test_a_conversation_that_is_kept_is_refused_where_nobody_keeps_it(self, world, provider):
        result = error(self.ask(world, previous_response_id="resp_1"), 400, "validation_error")
        assert result["param"] == "previous_response_id"
        assert provider.seen == []

    def test_a_provider_that_has_responses_gets_and_gives_them_as_they_are(self, world):
        world.allow()
        provider = world.provider(format_name="openai-responses")
        first = world.name("resp")
        provider.answers(body={"id": first, "status": "completed", "error": None, "output": []})
        provider.answers(body={"id": "resp_2", "status": "completed", "error": None, "output": [], "novel": 1})
        assert self.ask(world).json()["id"] == first
        answer = self.ask(world, previous_response_id=first, store=True).json()
        assert (answer["id"], answer["novel"]) == ("resp_2", 1)
        assert provider.seen[1].path == self.PATH
        assert provider.seen[1].json["previous_response_id"] == first

    def test_a_conversation_that_is_kept_is_not_shared_by_those_who_ask_the_same(self, world):
        world.allow()
        provider = world.provider(format_name="openai-responses")
        provider.default.body = {"id": "resp_2", "status": "completed", "error": None, "output": []}
        conversation = world.name("conv")
        answers = [self.ask(world, conversation=conversation) for _ in range(2)]
        assert [answer.headers["X-Svc-Cache"] for answer in answers] == ["BYPASS", "BYPASS"]
        assert len(provider.seen) == 2

    @pytest.mark.parametrize(
        "refer",
        [lambda one: {"previous_response_id": one}, lambda one: {"input": [{"type": "item_reference", "id": one}]}],
    )
    def test_who_keeps_a_conversation_has_to_be_told_where_it_could_be_several(self, world, refer):
        world.allow()
        body = refer(identifier := world.name("id"))
        keepers = [world.provider(format_name="openai-responses") for _ in range(2)]
        result = error(self.ask(world, **body), 400, "validation_error")
        assert "several providers offer this model" in result["message"]
        values = {"id": identifier, "status": "completed", "output": [{"type": "message", "id": identifier}]}
        keepers[1].answers(body=values).answers(body={"id": "resp_2", "status": "completed", "output": []})
        name = world.row(keepers[1]).name
        assert self.ask(world, model=f"{name}/{world.model}").status_code == 200
        assert self.ask(world, **body, model=f"{name}/{world.model}").status_code == 200

    def test_a_stream_that_breaks_off_says_that_it_failed(self, world, provider):
        provider.answers(text="one two", no_terminal=True)
        response = self.ask(world, stream=True)
        *_, failed, last = [json.loads(event.partition(b"data: ")[2]) for event in response.content.split(b"\n\n")[:-1]]
        assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
        assert "terminal mark" in last["error"]["message"]


class TestWhatAProviderDidNotGet:
    @pytest.fixture
    def provider(self, world):
        world.allow()
        provider = world.provider(format_name="anthropic")
        provider.answers(body={"content": [{"type": "text", "text": "Lisbon"}], "stop_reason": "end_turn"})
        return provider

    def ask(self, world, **body):
        return world.ask(path=CHAT, body={"max_tokens": 9, **body})

    def test_it_is_told_and_told_again_with_the_stored_answer(self, world, provider):
        values = {"prompt_cache_key": "k", "client_metadata": {"a": 1}}
        for expected in ("MISS", "HIT"):
            response = self.ask(world, **values)
            assert response.headers["X-Svc-Cache"] == expected
            assert response.headers["X-Svc-Dropped"] == "client_metadata, prompt_cache_key"
        assert set(values).isdisjoint(provider.seen[0].json)

    def test_names_without_end_are_cut(self, world, provider):
        row = world.row(provider)
        row.unknown_parameters = "drop"
        row.save()
        headers = self.ask(world, **{f"ü{number}": 1 for number in range(10_000)}).headers["X-Svc-Dropped"]
        assert headers.startswith("%C3%BC0, ")
        assert headers.endswith(", ...")
        assert len(headers) < 3000
