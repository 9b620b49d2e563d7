"""The door of Anthropic's clients: same pipeline, their paths, their shapes."""

import json

import pytest

from licensing.services import set_limit
from tests.support.provider import ScriptedProvider

pytestmark = pytest.mark.embedded

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
HEADERS = {"anthropic-version": "2026-10-21", "anthropic-beta": "context-1m-2025-08-07", "X-Stainless-Lang": "python"}
SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "Lisbon"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 8, "novel": [1]},
}


@pytest.fixture
def anthropic(world) -> ScriptedProvider:
    """A provider of the world's model that speaks Anthropic's shape."""
    world.allow()
    return world.provider(format_name="anthropic", auth_method="x-api-key")


def error(response, status, kind):
    """The message of the error in a response, which has this status and type and Anthropic's shape."""
    assert response.status_code == status, response.text
    body = response.json()
    assert response.headers["request-id"] == response.headers["X-Svc-Request-ID"] == body["request_id"]
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    return body["error"]["message"]


def ask(world, path=MESSAGES, headers=None, **body):
    return world.ask(path=path, headers=headers, body={"max_tokens": 100, **body})


class TestMessages:
    def test_an_anthropic_provider_gets_and_gives_the_bytes_as_they_are(self, world, anthropic):
        anthropic.answers(body=(raw := json.dumps(SAID, indent=1).encode()))
        body = {"model": world.model, "max_tokens": 9, "messages": [{"role": "user", "content": "?"}], "novel": 1}
        request = json.dumps(body, indent=1).encode()
        response = world.post(request, path=MESSAGES, headers=HEADERS)
        assert response.content == raw
        observations = anthropic.seen[0]
        assert (observations.path, observations.body) == ("/v1/messages", request)
        assert observations.headers["x-api-key"] == "sk-secret-of-the-provider"
        assert observations.headers["anthropic-version"] == "2026-10-21"
        assert observations.headers["anthropic-beta"] == "context-1m-2025-08-07"
        assert not observations.headers.keys() & {"x-stainless-lang", "authorization"}
        entry = world.entry(response)
        assert (entry.operation, entry.outcome) == ("chat", "completed")
        assert (entry.input_tokens, entry.output_tokens, entry.finish_reason) == (10, 8, "stop")

    def test_the_key_may_be_where_older_clients_put_it(self, world, anthropic):
        anthropic.answers(body=SAID)
        headers = {"x-api-key": world.key, "Authorization": None}
        assert ask(world, headers=headers).json() == SAID
        assert anthropic.seen[0].headers["anthropic-version"] == "2023-06-01"

    def test_only_the_models_name_is_changed(self, world, anthropic):
        anthropic.answers(body=SAID)
        ask(world, model=f"{world.row(anthropic).name}/{world.model}")
        assert anthropic.seen[0].json["model"] == world.model

    def test_answers_to_other_versions_are_stored_apart(self, world, anthropic):
        anthropic.default.body = SAID
        results = [ask(world, headers=headers).headers["X-Svc-Cache"] for headers in (None, None, HEADERS, HEADERS)]
        assert results == ["MISS", "HIT", "MISS", "HIT"]

    def test_a_header_that_cannot_be_passed_on(self, world, anthropic):
        assert "anthropic-beta" in error(ask(world, headers={"anthropic-beta": "é"}), 400, "invalid_request_error")

    def test_a_stream_passes_and_is_replayed(self, world, anthropic):
        stream = [
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            for event in (
                {"type": "message_start", "message": SAID | {"content": [], "stop_reason": None}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Lisbon"}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 8}},
                {"type": "message_stop"},
            )
        ]
        anthropic.answers(stream=stream)
        for expected in ("MISS", "HIT"):
            response = world.stream(path=MESSAGES, body={"max_tokens": 9})
            assert response.content == "".join(stream).encode()
            assert response.headers["X-Svc-Cache"] == expected
        entry = world.entry(response)
        assert (entry.input_tokens, entry.output_tokens, entry.finish_reason) == (10, 8, "stop")

    def test_a_stream_that_breaks_off_ends_with_an_error_event(self, world, anthropic):
        head = {"type": "message_start", "message": SAID | {"content": []}}
        anthropic.answers(stream=[f"event: message_start\ndata: {json.dumps(head)}\n\n", "event: content_bl"])
        *_, last, _ = world.stream(path=MESSAGES, body={"max_tokens": 9}).content.split(b"\n\n")
        name, data = last.split(b"\n")
        assert (name, json.loads(data[6:])["error"]["type"]) == (b"event: error", "api_error")


# As a coding agent asks: with whatever its own provider knows.
AGENT = {
    "system": [
        {"type": "text", "text": "You write code.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "In Python.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "List the files."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "ls.", "signature": "EqQB"},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py", "is_error": False},
                {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ],
    "tools": [
        {
            "name": "Bash",
            "description": "Runs a command",
            "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
        }
    ],
    "metadata": {"user_id": "user_1_account__session_2"},
    "max_tokens": 32000,
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
}


class TestCodingAgents:
    def test_all_that_they_say_is_understood_by_a_provider_of_another_shape(self, world):
        world.allow()
        provider = world.provider()
        provider.answers(text="There is one file.")
        response = ask(world, headers=HEADERS, **AGENT)
        assert response.json()["content"] == [{"type": "text", "text": "There is one file."}]
        assert response.headers["X-Svc-Dropped"] == "context_management"
        request = provider.seen[0].json
        assert [message["role"] for message in request["messages"]] == ["system", "user", "assistant", "tool", "user"]
        assert request["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"command":"ls"}'
        assert request["tools"][0]["function"]["name"] == "Bash"
        assert not request.keys() & {"context_management", "thinking", "output_config", "metadata"}

    def test_their_own_provider_gets_every_byte(self, world, anthropic):
        anthropic.answers(body=SAID)
        ask(world, headers=HEADERS, **AGENT)
        assert {name: anthropic.seen[0].json[name] for name in AGENT} == AGENT


class TestErrors:
    @pytest.mark.parametrize("headers", [{"x-api-key": ""}, {"x-api-key": "nonsense"}, {"x-api-key": "svc_x"}])
    def test_no_key(self, world, headers):
        response = ask(world, headers=headers | {"Authorization": None})
        error(response, 401, "authentication_error")
        assert world.entry(response).status == 401

    def test_no_rule(self, world):
        world.provider()
        assert "No rule allows" in error(ask(world), 403, "permission_error")

    def test_no_provider(self, world):
        world.allow()
        error(ask(world), 400, "invalid_request_error")

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": 5}', b'{"messages": []}'])
    def test_a_body_that_is_wrong(self, world, anthropic, body):
        error(world.post(body, path=MESSAGES), 400, "invalid_request_error")

    def test_a_body_that_is_too_large(self, own_gateway):
        world = own_gateway(GATEWAY_MAX_BODY_BYTES="1024")
        error(world.ask("x" * 1024, path=MESSAGES), 413, "request_too_large")

    def test_another_method_and_another_path(self, world):
        error(world.get(MESSAGES), 405, "invalid_request_error")
        error(world.get("/v1/files", headers={"anthropic-version": "2026-10-21"}), 404, "not_found_error")

    @pytest.mark.parametrize(
        ("status", "kind", "expected", "expected_kind"),
        [
            (400, "invalid_request_error", 400, "invalid_request_error"),
            (404, "not_found_error", 404, "not_found_error"),
            (401, "authentication_error", 502, "api_error"),
            (402, "billing_error", 402, "billing_error"),
            (429, "rate_limit_error", 429, "rate_limit_error"),
            (500, "api_error", 502, "api_error"),
            (529, "overloaded_error", 529, "overloaded_error"),
        ],
    )
    def test_what_the_provider_refuses(self, world, anthropic, status, kind, expected, expected_kind):
        anthropic.answers(status=status, body={"type": "error", "error": {"type": kind, "message": "No."}})
        error(ask(world), expected, expected_kind)

    def test_a_spent_account_is_no_load_and_another_provider_serves(self, world, anthropic):
        second = world.provider(format_name="anthropic", auth_method="x-api-key", priority=200)
        details = {"error_code": "enforced_spend_limit_reached"}
        spent = {"type": "error", "error": {"type": "rate_limit_error", "message": "No.", "details": details}}
        anthropic.answers(status=429, body=spent)
        second.answers(body=SAID)
        assert ask(world).json() == SAID


class TestCountingTokens:
    def test_an_anthropic_provider_counts(self, world, anthropic):
        anthropic.answers(body=(raw := b'{ "input_tokens": 14 }'))
        response = world.ask(path=COUNT, headers=HEADERS)
        assert response.content == raw
        assert (anthropic.seen[0].path, anthropic.seen[0].json["model"]) == ("/v1/messages/count_tokens", world.model)
        assert "X-Svc-Estimate" not in response.headers
        entry = world.entry(response)
        assert (entry.operation, entry.outcome, entry.entry_source) == ("count_tokens", "completed", "Worker")
        assert (entry.input_tokens, entry.cost_status) == (None, "")

    def test_for_others_it_is_estimated_and_said_so(self, world):
        world.allow()
        provider = world.provider()
        response = world.ask("Hello! " * 100, path=COUNT)
        assert response.json() == {"input_tokens": pytest.approx(216, abs=5)}
        assert response.headers["X-Svc-Estimate"] == "tokens"
        assert provider.seen == []
        entry = world.entry(response)
        assert (entry.operation, entry.outcome, entry.entry_source) == ("count_tokens", "completed", "Not Set")

    def test_it_is_estimated_too_where_the_one_who_could_count_has_no_room(self, world, anthropic):
        world.provider(priority=200)
        set_limit(measure="requests", window="day", amount=1, provider=world.row(anthropic))
        anthropic.answers(body={"input_tokens": 14})
        world.settle()
        first, second = (world.ask(path=COUNT, headers=HEADERS) for _ in range(2))
        assert (first.status_code, second.status_code) == (200, 200)
        assert (len(anthropic.seen), second.headers["X-Svc-Estimate"]) == (1, "tokens")

    def test_a_number_that_is_none_is_the_providers_failure(self, world, anthropic):
        anthropic.answers(body={"input_tokens": "many"})
        error(world.ask(path=COUNT), 502, "api_error")

    def test_it_takes_a_key_a_rule_and_a_conversation(self, world):
        error(world.ask(path=COUNT, key="nonsense"), 401, "authentication_error")
        error(world.ask(path=COUNT), 403, "permission_error")
        world.allow()
        world.provider()
        error(world.ask(path=COUNT, body={"messages": 5}), 400, "invalid_request_error")


class TestModels:
    @pytest.fixture
    def names(self, world):
        world.allow(regex=f"{world.model}-[a-e]")
        world.provider(*(names := sorted(f"{world.model}-{letter}" for letter in "abcde")))
        return names

    def listed(self, world, query=""):
        return world.get(f"/v1/models{query}", headers={"anthropic-version": "2026-10-21"}).json()

    def test_they_are_listed_in_anthropics_shape(self, world, names):
        result = self.listed(world)
        assert [model["id"] for model in result["data"]] == names
        assert (result["first_id"], result["last_id"], result["has_more"]) == (names[0], names[-1], False)
        assert result["data"][0]["type"] == "model"
        assert world.get(f"/v1/models/{names[0]}", headers={"x-api-key": "x"}).json() == result["data"][0]

    def test_page_by_page(self, world, names):
        first = self.listed(world, "?limit=2")
        assert ([model["id"] for model in first["data"]], first["has_more"]) == (names[:2], True)
        second = self.listed(world, f"?limit=3&after_id={first['last_id']}")
        assert ([model["id"] for model in second["data"]], second["has_more"]) == (names[2:], False)
        before = self.listed(world, f"?limit=2&before_id={names[4]}")
        assert ([model["id"] for model in before["data"]], before["has_more"]) == (names[2:4], True)

    def test_a_limit_that_is_none(self, world, names):
        for limit in ("0", "x", "1001", "99999999999"):
            response = world.get(f"/v1/models?limit={limit}", headers={"anthropic-version": "2026-10-21"})
            error(response, 400, "invalid_request_error")
