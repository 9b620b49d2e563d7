"""Stages 5 and 8: a stored answer ends the walk to the provider; a whole new one is stored."""

import time
from datetime import timedelta

import pytest

from licensing.models import Limit
from licensing.services import set_limit
from providers.services import update_provider
from rules.models import Rule
from telemetry.models import CacheEntry
from tests.support.provider_answers import Answer


def status(response):
    """What the response says about the cache."""
    assert response.status_code == 200, response.text
    return response.headers["X-Svc-Cache"]


def text_of(response):
    return response.json()["choices"][0]["message"]["content"]


def chunks(response):
    assert response.status_code == 200, response.text
    return list(response.iter_content(None))


class TestHitsAndMisses:
    def test_the_second_of_two_equal_requests_is_a_hit_with_the_same_body(self, world, provider):
        provider.default = Answer(text="Lisbon")
        first, second = world.ask(), world.ask()
        assert (status(first), status(second)) == ("MISS", "HIT")
        assert first.content == second.content
        assert first.headers["Content-Type"] == second.headers["Content-Type"] == "application/json"
        assert second.headers["X-Svc-Provider"] == world.row(provider).name
        assert len(provider.seen) == 1

    def test_the_log_tells_a_hit_from_a_miss(self, world, provider):
        miss, hit = (world.entry(response) for response in (world.ask(), world.ask()))
        assert (miss.entry_source, miss.cache_status, miss.attempts) == ("Worker", "MISS", 1)
        assert (hit.entry_source, hit.cache_status, hit.attempts) == ("Cache", "HIT", 0)
        assert hit.cache_hash == miss.cache_hash
        assert len(hit.cache_hash) == 64
        assert (hit.provider_name, hit.output_tokens) == (miss.provider_name, miss.output_tokens)
        assert hit.outcome == "completed"

    def test_the_row_of_an_entry_tells_where_it_came_from_and_counts_its_hits(self, world, provider):
        response = world.ask()
        world.ask()
        world.ask()
        rows = CacheEntry.objects.filter(request_hash=world.entry(response).cache_hash)
        world.until(lambda: rows.get().hits == 2)
        row = rows.get()
        assert (row.user_id, row.username) == (world.user.id, world.user.username)
        assert (row.provider_id, row.provider_name) == (world.row(provider).id, world.row(provider).name)
        assert (row.model, row.chunks, row.size_bytes) == (world.model, False, len(response.content))
        assert row.response == response.text
        assert row.expires_at - row.created_at == timedelta(hours=1)
        assert row.last_hit_at >= row.created_at

    def test_an_answer_that_is_larger_than_an_entry_may_be_is_not_kept(self, world, provider):
        provider.default = Answer(text="x" * 9_000_000)
        assert (status(world.ask()), status(world.ask())) == ("MISS", "MISS")


class TestWhatIsEqual:
    BODY = b'{"model": "%b", "messages": [], "temperature": %b, "a": {"x": 1, "y": [2, 3]}}'

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (b'"n": 1, "m": 2', b'"m": 2, "n": 1'),
            (b'"a": {"x": 1, "y": 2}', b'"a": {"y": 2, "x": 1}'),
            (b'"n": 1', b'"n":1.0'),
            (b'"n": 1', b'"n": 1e0'),
            (b'"n": 0.5', b'"n": 5e-1'),
            (b'"n": 0.5', b'"n" :0.50 '),
            (b'"n": 0', b'"n": -0'),
            (b'"n": 100', b'"n": 1E2'),
            (b'"t": "\\u0065"', b'"t": "e"'),
            ('"t": "é"'.encode(), '"t": "e\u0301"'.encode()),
            ('"t": "é"'.encode(), b'"t": "\\u0065\\u0301"'),
            ('"é": 1'.encode(), '"e\u0301": 1'.encode()),
            ('"a": [{"é": "é"}]'.encode(), '"a": [{"e\u0301": "e\u0301"}]'.encode()),
        ],
    )
    def test_two_spellings_of_one_request_share_an_entry(self, world, provider, one, other):
        statuses = self.ask_both(world, one, other)
        assert statuses == ["MISS", "HIT"]

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (b'"n": 1', b'"n": "1"'),
            (b'"n": 1', b'"n": true'),
            (b'"n": 0', b'"n": false'),
            (b'"n": 1', b'"n": 1.0000001'),
            (b'"n": 9007199254740992', b'"n": 9007199254740993'),
            (b'"n": 18446744073709551616', b'"n": 18446744073709551617'),
            (b'"n": null', b'"m": null'),
            (b'"n": null', b'"n": 0'),
            (b'"n": [1, 2]', b'"n": [2, 1]'),
            (b'"n": []', b'"n": {}'),
            (b'"t": "a"', b'"t": "A"'),
            (b'"t": "a"', b'"t": "a "'),
            ('"t": "ﬁ"'.encode(), b'"t": "fi"'),
            ('"é": 1, "e\u0301": 2'.encode(), '"é": 2'.encode()),
            ('"é": 1, "e\u0301": 2'.encode(), '"é": 2, "e\u0301": 1'.encode()),
            (b'"a": {"b": 1}', b'"a": "{\\"b\\": 1}"'),
            (b'"t": "a\\nb"', b'"t": "a\\\\nb"'),
        ],
    )
    def test_two_different_requests_never_share_an_entry(self, world, provider, one, other):
        assert self.ask_both(world, one, other) == ["MISS", "MISS"]

    def ask_both(self, world, *parts):
        head = f'{{"model": "{world.model}", "messages": [], '.encode()
        return [status(world.post(head + part + b"}")) for part in parts]

    def test_model_provider_operation_and_stream_make_a_difference(self, world):
        world.allow()
        names = [world.row(world.provider("m-1", "m-2", format_name="passthrough")).name for _ in range(2)]
        fields = {"prompt": "x", "input": "x"}
        requests = [
            ({"model": f"{name}/{model}", **fields}, "completion") for name in names for model in ("m-1", "m-2")
        ]
        requests.append((requests[0][0], "embedding"))
        requests.append((requests[0][0] | {"stream": True}, "completion"))
        for expected in ("MISS", "HIT"):
            responses = [world.post(body, headers={"X-Svc-Operation": operation}) for body, operation in requests]
            assert [status(response) for response in responses] == [expected] * 6

    def test_the_ways_to_name_one_provider_share_an_entry(self, world, provider):
        name = world.row(provider).name
        requests = [{"model": world.model}, {"model": f"{name}/{world.model}"}]
        assert [status(world.ask(body=body)) for body in requests] == ["MISS", "HIT"]
        assert status(world.ask(headers={"X-Svc-Provider": name})) == "HIT"

    def test_a_provider_that_moved_is_another_one(self, world, provider):
        world.ask()
        update_provider(world.row(provider), url=provider.url + "/", credential="sk-new")
        world.until(lambda: status(world.ask(headers={"X-Svc-Cache-TTL": "60"})) == "MISS", 2)


class TestControl:
    def test_bypass_neither_reads_nor_writes(self, world, provider):
        bypass = {"X-Svc-Cache": "bypass"}
        assert status(world.ask(headers=bypass)) == "BYPASS"
        assert status(world.ask()) == "MISS"
        response = world.ask(headers=bypass)
        assert status(response) == "BYPASS"
        assert len(provider.seen) == 3
        entry = world.entry(response)
        assert (entry.cache_status, entry.cache_hash) == ("BYPASS", "")

    def test_a_request_that_is_refused_before_has_no_status_in_the_log_unless_it_bypasses(self, world, provider):
        bypass = {"X-Svc-Cache": "bypass"}
        limit = set_limit(user=world.user, measure="requests", window="day", amount=1)
        world.until(lambda: world.ask().status_code == 429)
        refusals = [(world.ask("no room"), 429, ""), (world.ask("no room", headers=bypass), 429, "BYPASS")]
        limit.delete()
        world.until(lambda: world.ask().status_code == 200)
        Rule.objects.all().delete()
        world.until(lambda: world.ask().status_code == 403)
        refusals += [(world.ask(), 403, ""), (world.ask(headers=bypass), 403, "BYPASS")]
        for response, code, cache_status in refusals:
            assert (response.status_code, world.entry(response).cache_status) == (code, cache_status)

    def test_refresh_writes_and_does_not_read(self, world, provider):
        provider.answers(text="old").answers(text="new")
        world.ask()
        assert text_of(world.ask(headers={"X-Svc-Cache": "refresh"})) == "new"
        hit = world.ask()
        assert (status(hit), text_of(hit)) == ("HIT", "new")

    def test_only_serves_what_is_stored_or_nothing(self, world, provider):
        only = {"X-Svc-Cache": "only"}
        response = world.ask(headers=only)
        assert (response.status_code, response.json()["exception"]) == (504, "CacheMiss")
        assert provider.seen == []
        entry = world.entry(response)
        assert (entry.entry_source, entry.severity) == ("Not Set", "warning")
        world.ask()
        assert status(world.ask(headers=only)) == "HIT"

    @pytest.mark.parametrize("more", [{"X-Svc-Cache-TTL": "0"}, {}])
    def test_only_asks_nobody_where_nothing_is_stored(self, world, provider, more):
        if not more:
            update_provider(world.row(provider), cache_ttl_seconds=0)
            world.until(lambda: world.ask().headers["X-Svc-Cache"] == "BYPASS")
        before = len(provider.seen)
        response = world.ask(headers={"X-Svc-Cache": "only"} | more)
        assert (response.status_code, response.json()["exception"]) == (504, "CacheMiss")
        assert len(provider.seen) == before

    def test_only_does_not_keep_others_from_asking(self, world, provider):
        world.ask(headers={"X-Svc-Cache": "only"})
        assert status(world.ask(timeout=2)) == "MISS"

    def test_an_entry_lives_as_long_as_its_request_says(self, world, provider):
        short = {"X-Svc-Cache-TTL": "3"}
        response = world.ask(headers=short)
        assert status(world.ask(headers=short)) == "HIT"
        world.until(lambda: status(world.ask()) == "MISS", seconds=5)
        row = CacheEntry.objects.filter(request_hash=world.entry(response).cache_hash)
        world.until(lambda: row.exists() and row.get().expires_at - row.get().created_at == timedelta(hours=1))

    def test_a_provider_can_shorten_it_and_the_request_cannot_lengthen_it(self, world):
        world.allow()
        world.provider(cache_ttl_seconds=1)
        assert status(world.ask(headers={"X-Svc-Cache-TTL": "600"})) == "MISS"
        time.sleep(1.1)
        assert status(world.ask()) == "MISS"

    def test_nothing_is_kept_for_no_time(self, world, provider):
        none = {"X-Svc-Cache-TTL": "0"}
        assert [status(world.ask(headers=none)) for _ in range(2)] == ["BYPASS", "BYPASS"]
        assert status(world.ask()) == "MISS"

    def test_a_provider_without_a_cache_is_always_asked(self, world):
        world.allow()
        provider = world.provider(cache_ttl_seconds=0)
        assert [status(world.ask()) for _ in range(2)] == ["BYPASS", "BYPASS"]
        assert len(provider.seen) == 2


class TestScope:
    @pytest.fixture
    def callers(self, world):
        """Keys of: a user in a group, the same user again, another of that group, and one of no group."""
        friend, stranger = world.new_user(), world.new_user()
        world.allow(everyone="user", regex=world.model)
        world.new_group(world.user, friend)
        owners = (world.user, world.user, friend, stranger)
        return [world.new_key(owner=owner).text for owner in owners]

    @pytest.mark.parametrize(
        ("scope", "statuses"),
        [
            ("", ["MISS", "HIT", "HIT", "HIT"]),
            ("global", ["MISS", "HIT", "HIT", "HIT"]),
            ("group", ["MISS", "HIT", "HIT", "MISS"]),
            ("user", ["MISS", "HIT", "MISS", "MISS"]),
            ("key", ["MISS", "MISS", "MISS", "MISS"]),
        ],
    )
    def test_an_entry_is_shared_within_its_scope(self, world, callers, scope, statuses):
        world.provider(cache_scope=scope)
        assert [status(world.ask(key=key)) for key in callers] == statuses
        assert [status(world.ask(key=key)) for key in callers] == ["HIT"] * 4


class TestWhatIsNeverStored:
    @pytest.mark.parametrize(
        "answer",
        [
            {"status": 400},
            {"status": 404},
            {"status": 429},
            {"status": 500},
            {"body": b"{"},
            {"body": {"choices": []}},
            {"body": {"error": {"message": "no"}}},
            {"text": "half of it", "cut_after": 60},
        ],
    )
    def test_an_answer_that_is_none(self, world, provider, answer):
        provider.answers(**answer)
        response = world.ask()
        assert response.status_code >= 400
        assert status(world.ask()) == "MISS"
        assert not CacheEntry.objects.filter(request_hash=world.entry(response).cache_hash, hits__gt=0).exists()

    @pytest.mark.parametrize(
        "answer",
        [
            {"no_terminal": True},
            {"text": "one two three", "cut_after": 300},
            {"text": "one two three", "cut_after": 300, "reset": True},
            {
                "stream": [
                    'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n',
                    "data: {]\n\n",
                ]
            },
        ],
    )
    def test_a_stream_that_did_not_reach_its_end(self, world, provider, answer):
        provider.answers(**answer)
        world.stream().content  # noqa: B018  read to its end
        assert status(world.stream()) == "MISS"

    CALLED_BADLY = {"candidates": [{"content": {"parts": []}, "finishReason": "MALFORMED_FUNCTION_CALL"}]}
    HALF = {"role": "assistant", "content": [{"type": "text", "text": "par"}]}

    @pytest.mark.parametrize(
        ("format_name", "path", "body"),
        [
            ("openai", "/work", {"choices": [{"message": {"content": "par"}, "finish_reason": "error"}]}),
            ("cohere", "/v1/chat/completions", {"finish_reason": "ERROR", "message": HALF}),
            ("gemini", "/v1/chat/completions", CALLED_BADLY),
            ("ollama", "/work", {"message": {"content": ""}, "done": True, "done_reason": "load"}),
            ("openai-responses", "/v1/responses", {"id": "r", "status": "queued", "output": []}),
            ("openai-responses", "/v1/responses", {"id": "r", "status": "in_progress", "output": []}),
            ("openai-responses", "/v1/responses", {"id": "r", "status": "cancelled", "output": []}),
        ],
    )
    def test_an_answer_that_the_model_broke_off_or_has_not_begun(self, world, format_name, path, body):
        world.allow()
        world.provider(format_name=format_name).default = Answer(body=body)
        request = {"model": world.model, "input": "Hello!"} if path == "/v1/responses" else {}
        assert [status(world.ask(path=path, body=request)) for _ in range(2)] == ["MISS", "MISS"]

    def test_a_stream_that_the_model_broke_off(self, world, provider):
        provider.default = Answer(text="par", finish_reason="error")
        for _ in range(2):
            response = world.stream()
            assert (status(response), response.content[-14:]) == ("MISS", b"data: [DONE]\n\n")

    def test_the_answer_of_a_fail_over_is_not_that_of_the_first_choice(self, world):
        world.allow()
        first, second = world.provider(priority=1), world.provider(priority=2)
        first.answers(status=500).answers(text="first")
        second.answers(text="second")
        assert text_of(world.ask()) == "second"
        assert text_of(world.ask()) == "first"
        hit = world.ask(headers={"X-Svc-Provider": world.row(second).name})
        assert (status(hit), text_of(hit)) == ("HIT", "second")


class TestStreams:
    def test_a_stream_is_replayed_chunk_by_chunk(self, world, provider):
        provider.answers(text="one two three four", pace=0.15)  # a busy machine reads two quicker ones as one
        first, second = world.stream(), world.stream()
        request, replayed = chunks(first), chunks(second)
        assert (status(first), status(second)) == ("MISS", "HIT")
        assert request == replayed
        assert len(request) == 6  # four words, the reason for the end, and [DONE]
        assert second.headers["Content-Type"] == first.headers["Content-Type"] == "text/event-stream"
        entry = world.entry(second)
        assert (entry.entry_source, entry.stream, entry.finish_reason, entry.output_tokens) == (
            "Cache",
            True,
            "stop",
            4,
        )
        world.until(lambda: CacheEntry.objects.get(request_hash=entry.cache_hash).hits == 1)
        assert CacheEntry.objects.get(request_hash=entry.cache_hash).chunks

    def test_a_stream_with_characters_of_many_bytes_is_replayed_as_it_was(self, world, provider):
        provider.answers(text="Grüße 😀 ありがとう")
        assert chunks(world.stream()) == chunks(world.stream())


class TestWhatIsCheckedBeforeAHit:
    def test_rules(self, world, provider):
        world.ask()
        Rule.objects.filter(user=world.user).update(enabled=False)
        world.soon(world.ask, 403)
        denied = world.ask(key=world.new_key(owner=world.new_user()).text)
        assert denied.status_code == 403
        assert len(provider.seen) == 1

    def test_limits(self, world, provider):
        issued = world.new_key()
        Limit.objects.create(key=issued.key, measure="requests", window="minute", amount=3)
        statuses = [world.ask(key=issued.text).status_code for _ in range(5)]
        assert statuses in ([200, 200, 200, 429, 429], [200] * 5)  # the minute may have just changed
        assert len(provider.seen) == 1

    def test_a_disabled_provider(self, world, provider):
        world.ask()
        update_provider(world.row(provider), enabled=False)
        world.soon(world.ask, 400)
