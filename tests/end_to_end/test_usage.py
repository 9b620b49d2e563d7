"""What a request used and cost: as the provider reported it, or estimated and marked, and never silently nothing."""

import hashlib
import json
from decimal import Decimal

import pytest

from providers.services import change_price
from telemetry.models import CacheEntry
from tests.support.provider import refusing_port
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

USED = {"prompt_tokens": 100, "completion_tokens": 30}
PROMPT = "x" * 8000


def billed(entry):
    return (entry.cost, entry.currency, entry.cost_status)


def tokens(entry):
    return (entry.input_tokens, entry.output_tokens, entry.usage_estimated)


class TestCost:
    def test_every_bucket_at_its_price(self, world, provider):
        world.price("2.5", 10, cache_read=Decimal("1.25"), cache_write=Decimal(5), reasoning=Decimal(20))
        details = {"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 15}}
        details["completion_tokens_details"] = {"reasoning_tokens": 12}
        for stream in (False, True):
            provider.answers(usage=USED | details)
            entry = world.entry(world.ask(f"{stream}", body={"stream": stream}))
            assert billed(entry) == (Decimal("0.0006325"), "USD", "known")
            assert (entry.cache_read_tokens, entry.cache_write_tokens, entry.reasoning_tokens) == (60, 15, 12)

    @pytest.mark.parametrize("stream", [False, True])
    def test_what_is_kept_for_an_hour_at_its_own_price_also_where_it_is_saved(self, world, stream):
        world.allow()
        provider = world.provider(format_name="anthropic")
        world.price(1, 5, cache_write=Decimal("1.25"), cache_write_hour=Decimal(2))
        written = {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}
        usage = {"input_tokens": 10, "cache_creation_input_tokens": 100, "cache_creation": written, "output_tokens": 4}
        message = {"type": "message", "role": "assistant", "content": [], "usage": usage}
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}
        events = [{"type": "message_start", "message": message}, end, {"type": "message_stop"}]
        provider.answers(**({"stream": events} if stream else {"body": message | {"stop_reason": "end_turn"}}))
        entry = world.entry(world.ask(body={"stream": stream}))
        assert billed(entry) == (Decimal("0.0002"), "USD", "known")  # 10 + 40 * 1.25 + 60 * 2 + 4 * 5 millionths
        assert (entry.cache_write_tokens, entry.cache_write_hour_tokens) == (100, 60)
        hit = world.entry(world.ask(body={"stream": stream}))
        assert (hit.cache_status, hit.saved_cost) == ("HIT", entry.cost)

    @pytest.mark.parametrize("stream", [False, True])
    def test_thoughts_that_are_counted_beside_the_answer_are_paid_for(self, world, provider, stream):
        world.price(1, 10)
        # As xAI reports it: 32 + 9 + 94 are the total.
        usage = {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}
        provider.answers(usage=usage | {"completion_tokens_details": {"reasoning_tokens": 94}})
        entry = world.entry(world.ask(body={"stream": stream}))
        assert (entry.input_tokens, entry.output_tokens, entry.reasoning_tokens) == (32, 103, 94)
        assert billed(entry) == (Decimal("0.001062"), "USD", "known")

    def test_an_entry_keeps_the_price_that_it_was_made_at(self, world, provider):
        price = world.price(10, 0)
        provider.default = Answer(usage=USED)
        before = world.entry(world.ask("before"))
        change_price(price, input=Decimal(20))
        world.settle()
        after = world.entry(world.ask("after"))
        before.refresh_from_db()
        assert (before.cost, after.cost) == (Decimal("0.001"), Decimal("0.002"))

    def test_a_providers_own_price_goes_before_that_of_the_model(self, world, provider):
        world.price(10, 0)
        world.price(50, 0, model="*", provider=world.row(provider), currency="EUR")
        provider.answers(usage=USED)
        assert billed(world.entry(world.ask())) == (Decimal("0.005"), "EUR", "known")

    @pytest.mark.parametrize("stream", [False, True])
    def test_what_the_provider_says_that_it_cost_goes_before_the_table(self, world, provider, stream):
        world.price(10, 10)
        provider.answers(usage=USED | {"cost": 0.00001234})
        entry = world.entry(world.ask(body={"stream": stream}))
        assert billed(entry) == (Decimal("0.00001234"), "USD", "known")

    def test_it_is_unknown_where_nobody_said_what_the_model_costs(self, world, provider):
        provider.answers(usage=USED)
        entry = world.entry(world.ask())
        assert billed(entry) == (None, "", "unknown")
        assert tokens(entry) == (100, 30, False)

    def test_a_stored_answer_costs_nothing_and_tells_the_tokens_that_were_saved(self, world, provider):
        world.price(10, 10)
        provider.answers(usage=USED)
        first = world.ask()
        entry = world.entry(world.ask())
        assert entry.cache_status == "HIT"
        assert billed(entry) == (0, "USD", "known")
        assert tokens(entry) == (100, 30, False)
        assert entry.saved_cost == world.entry(first).cost == Decimal("0.0013")
        assert world.entry(first).saved_cost is None
        row = CacheEntry.objects.get(request_hash=entry.cache_hash)
        assert (row.cost, row.currency) == (Decimal("0.0013"), "USD")

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_stored_answer_saves_what_was_estimated_where_its_provider_counted_nothing(self, world, provider, stream):
        world.price(1_000, 10_000)
        provider.answers(text="y" * 800, usage={})
        body = {"stream": stream}
        miss, hit = (world.entry(world.ask(PROMPT, body=body)) for _ in range(2))
        assert hit.cache_status == "HIT"
        assert tokens(hit) == tokens(miss) == (1001, 100, True)
        assert hit.saved_cost == miss.cost == Decimal("2.001")

    def test_a_stored_stream_knows_its_cost_and_one_without_a_price_none(self, world, provider):
        provider.answers(usage=USED)
        assert world.stream().content
        entry = world.entry(world.stream())
        assert entry.cache_status == "HIT"
        row = CacheEntry.objects.get(request_hash=entry.cache_hash)
        assert (row.chunks, row.cost, row.currency) == (True, None, "")
        assert (entry.saved_cost, entry.cost_status) == (None, "known")

    def test_nothing_is_bought_where_no_provider_worked(self, world, provider):
        world.price(10, 10)
        provider.answers(status=422)
        responses = [world.ask(), world.ask(body={"model": ""}), world.ask(key="svc_nobody")]
        assert [response.status_code for response in responses] == [422, 400, 401]
        entries = [world.entry(response) for response in responses]
        assert [billed(entry) for entry in entries] == [(None, "", "")] * 3
        assert [tokens(entry) for entry in entries] == [(None, None, False)] * 3

    @pytest.mark.parametrize("status", [401, 403, 302])
    def test_nothing_is_bought_of_a_provider_that_refuses_the_gateway(self, world, provider, status):
        provider.answers(status=status)
        response = world.ask()
        assert (response.status_code, billed(world.entry(response))) == (502, (None, "", ""))

    def test_nothing_is_bought_of_a_provider_that_is_not_reached(self, world):
        world.allow()
        world.provider(url=f"http://127.0.0.1:{refusing_port()}/v1")
        response = world.ask()
        assert (response.status_code, billed(world.entry(response))) == (502, (None, "", ""))

    def test_nobody_knows_what_a_provider_did_before_it_failed(self, world, provider):
        provider.answers(status=500)
        assert billed(world.entry(world.ask())) == (None, "", "unknown")

    def test_nobody_knows_what_a_call_cost_that_broke(self, world, provider):
        world.price(10, 10)
        provider.answers(body=b"no JSON")
        assert billed(world.entry(world.ask())) == (None, "", "unknown")

    def test_nothing_is_counted_twice_in_the_message_of_an_error(self, world, provider):
        world.price(10, 10)
        provider.answers(usage=USED, stream=["data: {}\n\n"])
        response = world.stream()
        assert response.content
        assert world.entry(response).cost > 0
        message = world.entry(response, kind="Message")
        assert billed(message) == (None, "", "")
        assert (message.input_tokens, message.model) == (None, world.model)

    def test_counts_and_costs_beyond_belief_do_not_keep_an_entry_from_the_log(self, world, provider):
        world.price(999_999, 999_999, request=Decimal(999_999))
        for usage in ({"prompt_tokens": 2**40 - 1, "completion_tokens": 2**40 - 1}, USED | {"cost": 1e300}):
            provider.answers(usage=usage)
            entry = world.entry(world.ask(json.dumps(usage)))
            assert (entry.outcome, entry.cost_status) == ("completed", "unknown")


class TestEstimates:
    @pytest.mark.parametrize("format_name", ["openai", "passthrough"])
    @pytest.mark.parametrize("stream", [False, True])
    def test_tokens_are_estimated_where_a_provider_reports_none(self, world, format_name, stream):
        world.allow()
        provider = world.provider(format_name=format_name)
        world.price(1_000, 10_000)
        provider.answers(text="y" * 800, usage={})
        entry = world.entry(world.ask(PROMPT, body={"stream": stream}))
        assert tokens(entry) == (1001, 100, True)
        assert billed(entry) == (Decimal("2.001"), "USD", "estimated")

    def test_of_an_embedding_it_is_the_input_alone(self, world, provider):
        world.price(1_000, 10_000)
        provider.answers(body={"data": [{"embedding": [0.5], "index": 0}]})
        entry = world.entry(world.post({"model": world.model, "input": [PROMPT, [1, 2, 3]]}))
        assert tokens(entry) == (1003, None, True)
        assert billed(entry) == (Decimal("1.003"), "USD", "estimated")

    @pytest.mark.parametrize("stream", [False, True])
    def test_what_is_only_called_an_embedding_is_counted_as_what_it_is(self, world, stream):
        """Else whoever calls it so would go past limits of tokens."""
        world.allow()
        world.provider(format_name="passthrough").answers(text="y" * 800, usage={})
        response = world.ask(PROMPT, body={"stream": stream}, headers={"X-Svc-Operation": "embedding"})
        assert tokens(world.entry(response)) == (1001, 100, True)

    def test_a_text_that_begins_like_a_file_is_a_text(self, world, provider):
        provider.answers(text="y" * 800, usage={})
        assert tokens(world.entry(world.ask("data:" + PROMPT))) == (1002, 100, True)

    def test_an_embedding_whose_input_was_counted_is_known(self, world, provider):
        world.price(1_000, 10_000)
        provider.answers(body={"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 7, "total_tokens": 7}})
        entry = world.entry(world.post({"model": world.model, "input": "x"}))
        assert tokens(entry) == (7, None, False)
        assert billed(entry) == (Decimal("0.007"), "USD", "known")

    def test_only_what_is_missing_is_estimated(self, world, provider):
        provider.answers(text="y" * 80, usage={"prompt_tokens": 7})
        assert tokens(world.entry(world.ask(PROMPT))) == (7, 10, True)

    def test_input_that_a_cache_had_a_part_in_is_not_estimated_again(self, world, provider):
        provider.answers(usage={"completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 1000}})
        entry = world.entry(world.ask(PROMPT))
        assert (entry.cache_read_tokens, *tokens(entry)) == (1000, 1, 5, True)

    def test_a_picture_is_no_text(self, world, provider):
        provider.answers(text="y", usage={})
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
        parts = [{"type": "text", "text": "x" * 792}, picture]
        entry = world.entry(world.ask(body={"messages": [{"role": "user", "content": parts}]}))
        assert 100 <= entry.input_tokens < 110

    def test_a_call_of_a_tool_counts_as_it_stands_in_the_answer(self, world, provider):
        call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lisbon"}' * 50}}
        choice = {"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
        provider.answers(body={"choices": [choice]})
        assert world.entry(world.ask()).output_tokens > 200


class TestUnanswered:
    @pytest.mark.parametrize("stream", [False, True])
    def test_who_leaves_before_the_first_byte_has_used_the_input(self, world, provider, stream):
        world.price(1_000, 10_000)
        provider.answers(silent=True)
        name = f"leaves-{world.number}"
        sock = world.send(
            {"messages": [{"role": "user", "content": PROMPT}], "stream": stream}, f"X-Svc-Request-ID: {name}"
        )
        provider.wait_for(1)
        sock.close()
        entry = world.entry(name)
        assert (entry.outcome, *tokens(entry)) == ("client_closed", 1001, None, True)
        assert billed(entry) == (None, "", "unknown")

    def test_so_has_who_gives_the_provider_too_little_time(self, world, provider):
        provider.answers(silent=True)
        response = world.ask(PROMPT, headers={"X-Svc-Timeout": "0.5"})
        assert response.status_code == 504
        assert tokens(world.entry(response)) == (1001, None, True)

    @pytest.mark.parametrize("stream", [False, True])
    def test_so_has_who_asks_a_provider_that_does_not_begin_in_time(self, world, provider, stream):
        provider.answers(silent=True)
        response = world.ask(PROMPT, body={"stream": stream})
        assert response.status_code == 504
        entry = world.entry(response)
        assert tokens(entry) == (1001, None, True)
        assert billed(entry) == (None, "", "unknown")

    OPENAI_COUNTS = {"input_tokens": 100, "output_tokens": 50}
    FAILED = {"status": "failed", "error": {"code": "server_error", "message": "broken"}, "usage": OPENAI_COUNTS}
    COHERE_END = {"error": "broken", "usage": {"tokens": OPENAI_COUNTS}}

    @pytest.mark.parametrize(
        ("format_name", "path", "answer"),
        [
            ("openai-responses", "/v1/responses", {"body": {"object": "response", "output": [], **FAILED}}),
            ("openai-responses", "/v1/responses", {"stream": [{"type": "response.failed", "response": FAILED}]}),
            (
                "openai-responses",
                "/v1/responses",
                {"stream": [{"type": "response.created"}, {"type": "response.failed", "response": FAILED}]},
            ),
            ("cohere", "/work", {"stream": [{"type": "message-start"}, {"type": "message-end", "delta": COHERE_END}]}),
            ("cohere", "/v1/messages", {"stream": [{"type": "message-end", "delta": COHERE_END}]}),
        ],
    )
    def test_what_a_provider_counts_when_it_fails_is_used_and_known(self, world, format_name, path, answer):
        world.allow()
        provider = world.provider(format_name=format_name)
        world.price(10, 10)
        provider.answers(**answer)
        message = {"input": "x"} if path.endswith("responses") else {"messages": [{"role": "user", "content": "x"}]}
        body = {"model": world.model, "max_tokens": 500, "stream": "stream" in answer} | message
        response = world.post(body, path=path)
        assert "broken" in response.text
        entry = world.entry(response)
        assert (entry.outcome, *tokens(entry)) == ("failed", 100, 50, False)
        assert billed(entry) == (Decimal("0.0015"), "USD", "known")


class TestCutStreams:
    events = [f'data: {{"choices": [{{"index": 0, "delta": {{"content": "{"y" * 80}"}}}}]}}\n\n'] * 10

    def test_a_stream_that_breaks_off_counts_what_was_produced(self, world, provider):
        world.price(1_000, 10_000)
        provider.answers(stream=self.events)
        response = world.stream(PROMPT)
        assert b"ProviderError" in response.content
        entry = world.entry(response)
        assert (entry.outcome, *tokens(entry)) == ("truncated", 1001, 100, True)
        assert billed(entry) == (Decimal("2.001"), "USD", "estimated")

    CALL = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "y" * 80}}]}

    @pytest.mark.parametrize("delta", [CALL, {"reasoning_content": "y" * 80}, {"refusal": "y" * 80}])
    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
    def test_calls_and_thoughts_count_as_words_do(self, world, provider, path, delta):
        event = f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n"
        provider.answers(stream=[event] * 10)
        message = (
            {"input": PROMPT} if path.endswith("responses") else {"messages": [{"role": "user", "content": PROMPT}]}
        )
        response = world.post({"model": world.model, "max_tokens": 500, "stream": True} | message, path=path)
        assert response.content
        assert tokens(world.entry(response))[1:] == (100, True)

    def test_so_does_one_whose_client_leaves(self, world, provider):
        world.price(1_000, 10_000)
        provider.answers(stream=self.events, silent_after=5)
        response = world.stream(PROMPT)
        next(response.iter_content(None))
        response.close()
        entry = world.entry(response)
        assert entry.outcome == "client_closed"
        assert entry.input_tokens == 1001
        assert 0 < entry.output_tokens <= 50
        assert (entry.usage_estimated, entry.cost_status) == (True, "estimated")

    def test_a_stream_longer_than_what_is_kept_counts_as_a_whole(self, own_gateway):
        world = own_gateway(GATEWAY_CACHE_MAX_ENTRY_BYTES="100", GATEWAY_LOG_PAYLOAD="redacted")
        world.allow()
        world.provider().answers(stream=[*self.events * 200, "data: [DONE]\n\n"])
        response = world.stream(PROMPT)
        entry = world.entry(response)
        assert (entry.outcome, entry.usage_estimated) == ("completed", True)
        assert entry.output_tokens == pytest.approx(20_000, rel=0.01)
        result, body = json.loads(entry.payload)["response"], response.content
        assert result == {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        assert world.stream(PROMPT).headers["X-Svc-Cache"] == "MISS"

    @pytest.mark.parametrize(("counted", "expected"), [(1, 100), (500, 500)])
    def test_what_was_counted_at_its_beginning_is_the_least_of_its_output(self, world, counted, expected):
        world.allow()
        provider = world.provider(format_name="passthrough")
        begin = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": counted}}}
        piece = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "y" * 800}}
        provider.answers(stream=[begin, piece], cut_after=1000)
        response = world.stream(PROMPT)
        assert response.content
        assert tokens(world.entry(response)) == (9, expected, True)


def test_the_log_tells_who_was_in_which_group(world, provider):
    group = world.new_group(world.user)
    world.settle()
    assert world.entry(world.ask()).group_ids == [group.id]
