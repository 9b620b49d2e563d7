"""Stage 9: exactly one WorkRequest entry for each request, whatever became of it; and what the headers tell."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from gateway_project.work.log.entry import _shorten_entry
from telemetry.journal.files import HEADER_BYTES, RESERVE_BYTES
from telemetry.journal.records import empty_log_entry, to_record
from telemetry.models import CacheEntry, LogEntry
from tests.support.pace import in_one_minute, patience
from tests.support.promises import promise
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

SECRET = "sk-secret/of+the=provider"
MESSAGES = [{"role": "user", "content": "What is your key?"}]
SHOWN = ["waiting", "auth", "request", "rules", "select", "limits", "cache", "provider", "response", "store"]
STAGES = [*SHOWN, "logging"]


@pytest.mark.parametrize("letter", ["x", "\0", '"', "\\", "é", "\U0001f600", "\u2028"])
def test_a_short_entry_is_json_and_has_room_whatever_stands_in_it(letter):
    """The journal keeps RESERVE_BYTES for the end of each request, and no more."""
    entry = {name: letter * 10_000 if value == "" else value for name, value in empty_log_entry().items()}
    entry |= dict.fromkeys([name for name, value in entry.items() if value is None], 2**63 - 1)
    entry |= dict.fromkeys(("alias", "served_model", "trusted_issuer"), letter * 10_000)
    entry |= {"correlation_id": "r" * 128, "group_ids": [2**63 - 1] * 1000, "tags": {letter: letter * 5000}}
    record = to_record(_shorten_entry(entry))
    assert len(record) <= RESERVE_BYTES - HEADER_BYTES
    assert json.loads(record)["correlation_id"] == entry["correlation_id"]


class TestOneEntryForEach:
    @pytest.mark.parametrize(
        ("options", "answer", "outcome", "status", "severity", "source"),
        [
            ({}, {}, "completed", 200, "info", "Worker"),
            ({"key": "svc_nobody"}, {}, "denied", 401, "warning", "Not Set"),
            ({"body": {"model": "m"}}, {}, "failed", 400, "warning", "Not Set"),
            ({"body": {"model": ""}}, {}, "failed", 400, "warning", "Not Set"),
            ({"headers": {"Content-Type": "text/plain"}}, {}, "failed", 415, "warning", "Not Set"),
            ({"headers": {"X-Svc-Cache": "only"}}, {}, "failed", 504, "warning", "Not Set"),
            ({}, {"status": 422}, "failed", 422, "warning", "Worker"),
            ({}, {"status": 429}, "failed", 429, "warning", "Worker"),
            ({}, {"status": 401}, "failed", 502, "error", "Worker"),
            ({}, {"status": 500}, "failed", 502, "error", "Worker"),
            ({}, {"raw": b"garbage\r\n\r\n"}, "failed", 502, "error", "Worker"),
        ],
    )
    def test_of_its_outcome_and_a_message_where_it_went_wrong(
        self, world, provider, options, answer, outcome, status, severity, source
    ):
        provider.default = Answer(**answer)
        response = world.ask(**options)
        assert response.status_code == status
        entry = world.entry(response)
        assert (entry.outcome, entry.status, entry.severity, entry.entry_source) == (outcome, status, severity, source)
        messages = LogEntry.objects.filter(correlation_id=entry.correlation_id, entry_type="Message")
        if status in (200, 401):  # of a bad credential there is nothing more to tell, and anybody can send thousands
            assert messages.count() == 0
        else:
            message = world.entry(response, kind="Message")
            error = response.json()
            assert (message.severity, message.exception) == (severity, error["exception"])
            result = f"{world.row(provider).name}: {error['message']}" if source == "Worker" else error["message"]
            assert message.message.startswith(result)
            assert (entry.message, entry.exception) == (result, error["exception"])

    def test_many_requests_leave_as_many_entries(self, world, provider):
        assert world.key  # made here: the threads have no connection to the database
        before = world.entries(model=world.model)
        with ThreadPoolExecutor(16) as pool:
            responses = list(pool.map(lambda number: world.ask(f"{number % 20}"), range(60)))
        for response in responses:
            assert world.entry(response).status == 200
        assert world.entries(model=world.model) - before == 60

    def test_an_id_that_is_sent_twice_names_two_entries(self, world, provider):
        name = f"twice-{world.number}"
        for _ in range(2):
            world.ask(headers={"X-Svc-Request-ID": name})
        world.until(lambda: world.entries(correlation_id=name) == 2)

    def test_the_message_of_an_error_tells_its_cause_to_operators_only(self, world, provider):
        provider.answers(raw=b"garbage\r\n\r\n")
        response = world.ask()
        entry = world.entry(response, kind="Message")
        assert "InvalidResponse" in entry.message
        assert entry.user_id is None  # so that its user does not see it in their list
        assert "InvalidResponse" not in response.text + world.entry(response).message


class TestFields:
    def test_who_asked_what_of_whom_and_what_it_took(self, world):
        rule = world.allow()
        provider = world.provider()
        issued = world.new_key()
        provider.answers(
            text="one two three",
            finish_reason="length",
            usage={
                "prompt_tokens": 100,
                "completion_tokens": 30,
                "prompt_tokens_details": {"cached_tokens": 60},
                "completion_tokens_details": {"reasoning_tokens": 12},
            },
            delay=0.1,
        )
        begun = datetime.now(UTC)
        response = world.ask("Hi", key=issued.text, headers={"X-Svc-Tags": "team=a, env=b"})
        entry = world.entry(response)
        assert (entry.provider_id, entry.provider_name) == (world.row(provider).id, world.row(provider).name)
        assert (entry.key_id, entry.key_name) == (issued.key.id, issued.key.name)
        assert (entry.rule_id, entry.rule_name) == (rule.id, rule.name)
        assert (entry.user_id, entry.username) == (world.user.id, world.user.username)
        assert (entry.model, entry.operation, entry.stream) == (world.model, "chat", False)
        assert (entry.input_tokens, entry.cache_read_tokens, entry.output_tokens) == (40, 60, 30)
        assert entry.reasoning_tokens == 12
        assert (entry.finish_reason, entry.provider_finish_reason) == ("length", "length")
        assert (entry.attempts, entry.cache_status, len(entry.cache_hash)) == (1, "MISS", 64)
        assert entry.tags == {"team": "a", "env": "b"}
        assert entry.address == "127.0.0.1"
        assert 100 < entry.duration_ms < patience(2000)
        assert abs((entry.timestamp - begun).total_seconds()) < patience(1)
        assert entry.message == f"{world.model} answered by {world.row(provider).name}."

    def test_the_stages_are_a_waterfall(self, world, provider):
        provider.answers(delay=0.2)
        response = world.ask()
        stages = world.entry(response).stages
        assert [name for name, _, _ in stages] == STAGES
        lengths = {name: length for name, _, length in stages}
        assert 190 < lengths["provider"] < 500
        begins = [begin for _, begin, _ in stages]
        assert begins == sorted(begins)
        assert all(length >= 0 for length in lengths.values())
        assert begins[0] + lengths.pop("waiting") <= 0
        entry = world.entry(response)
        assert sum(lengths.values()) == pytest.approx(entry.duration_ms, abs=patience(0.1) * 1000)

    def test_the_response_tells_the_same_stages(self, world, provider):
        provider.answers(delay=0.2)
        timing = dict(part.split(";dur=") for part in world.ask().headers["Server-Timing"].split(", "))
        assert list(timing) == SHOWN
        assert 190 < float(timing["provider"]) < 500
        assert "provider" not in world.ask().headers["Server-Timing"]

    def test_a_refused_request_has_the_stages_that_it_came_to(self, world, provider):
        response = world.ask(body={"model": ""})
        assert [stage[0] for stage in world.entry(response).stages] == ["waiting", "auth", "request", "logging"]
        assert "request;dur=" in response.headers["Server-Timing"]

    def test_what_the_provider_calls_the_end_is_kept_beside_our_word(self, world, provider):
        provider.answers(finish_reason="made_up")
        entry = world.entry(world.ask())
        assert (entry.finish_reason, entry.provider_finish_reason) == ("other", "made_up")

    @pytest.mark.parametrize(
        "usage",
        [
            {"prompt_tokens": -5, "completion_tokens": "7"},
            {"prompt_tokens": 1e300, "completion_tokens": 2**70},
            {"prompt_tokens": True},
        ],
    )
    @promise("V-N4: impossible counts of a provider are not believed", target="not counted", suite="attack")
    def test_counts_that_no_counter_has_are_not_believed(self, world, provider, usage):
        provider.answers(usage=usage)
        response = world.ask()
        assert response.status_code == 200
        entry = world.entry(response)
        assert entry.outcome == "completed"
        for tokens in (entry.input_tokens, entry.output_tokens):
            assert tokens is None or 0 <= tokens < 1000


class TestPayload:
    def test_the_whole_of_it_by_default(self, world, provider):
        provider.answers(text="Lisbon")
        response = world.ask("Capital of Portugal?")
        payload = json.loads(world.entry(response).payload)
        assert payload["request"]["messages"][0]["content"] == "Capital of Portugal?"
        assert payload["response"] == response.json()

    def test_of_a_stream_what_was_sent(self, world, provider):
        provider.answers(text="Lisbon now")
        response = world.stream()
        body = response.content.decode()
        assert json.loads(world.entry(response).payload)["response"] == body

    def test_lines_of_json_are_no_object(self, world):
        world.allow()
        lines = [b'{"response": "a"}\n', b'{"done": true}\n']
        provider = world.provider(format_name="passthrough")
        provider.answers(stream=lines, headers={"Content-Type": "application/x-ndjson"})
        for response in (world.stream(), world.stream()):  # the second one is stored
            assert json.loads(world.entry(response).payload)["response"] == b"".join(lines).decode()

    @pytest.mark.parametrize("written", [SECRET, SECRET.replace("/", "\\/"), quote(SECRET, safe="")])
    def test_a_credential_that_the_provider_echoes_is_not_kept(self, world, written):
        world.allow()
        provider = world.provider(credential=SECRET)
        event = f'data: {{"choices": [{{"index": 0, "delta": {{"content": "It is {written}!"}}}}]}}\n\n'
        provider.answers(stream=[event, "data: [DONE]\n\n"])
        entry = world.entry(world.stream())
        stored = CacheEntry.objects.get(request_hash=entry.cache_hash)
        for rest in (entry.payload, stored.response):
            assert "It is …!" in rest
            assert written not in rest

    def test_credentials_in_prompts_answers_and_errors_are_not_kept(self, world):
        secrets = [world.new_key().text, "AKIAIOSFODNN7EXAMPLE", "sk-ant-api03-Zm9vYmFyYmF6cXV4"]
        world.allow()
        provider = world.provider()
        provider.answers(text=f"Your key is {secrets[1]}.")
        answered = world.ask(f"My key is {secrets[0]}.", body={"metadata": {"password": "hunter2"}})
        assert secrets[1] in answered.text  # what is served is untouched
        request = provider.seen[-1].body
        assert secrets[0].encode() in request
        assert b"hunter2" in request
        provider.answers(status=400, body=json.dumps({"error": {"message": f"bad key {secrets[2]}"}}).encode())
        refused = world.ask("again")
        entries = [world.entry(answered), world.entry(refused), world.entry(refused, "Message")]
        stored = CacheEntry.objects.get(request_hash=entries[0].cache_hash)
        texts = [text for entry in entries for text in (entry.payload, entry.message, str(entry.candidates))]
        for text in [*texts, stored.response]:
            assert not [secret for secret in (*secrets, "hunter2") if secret in text]
        assert "svc_***" in entries[0].payload

    def test_credentials_in_escapes_or_pieces_are_not_kept(self, world):
        """Neither in the database nor in the journal, whoever wrote them and however they were split."""
        request, answered = world.new_key().text, "sk-ant-api03-Zm9vYmFyYmF6cXV4"
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in request)
        world.allow()
        event = '{"choices": [{"index": 0, "delta": {"content": %s}, "finish_reason": null}]}'
        events = [f"data: {event % json.dumps(letter)}\n\n" for letter in f"It is {answered}!"]
        end = event.replace("null", '"stop"') % '""'
        provider = world.provider()
        provider.answers(stream=[*events, f"data: {end}\n\n", "data: [DONE]\n\n"])
        messages = f'[{{"role": "user", "content": "{escaped}"}}]'
        options = '"stream": true, "stream_options": {"include_usage": true}'  # as sent on, so that the bytes pass
        body = f'{{"model": "{world.model}", {options}, "messages": {messages}}}'
        responses = [world.post(body.encode(), stream=True) for _ in range(2)]
        for response in responses:
            assert "".join(re.findall(r'"content": "(.*?)"', response.text)) == f"It is {answered}!"
        assert escaped.encode() in provider.seen[0].body
        entries = [world.entry(response) for response in responses]
        assert [entry.cache_status for entry in entries] == ["MISS", "HIT"]
        stored = CacheEntry.objects.get(request_hash=entries[0].cache_hash)
        for entry in entries:
            assert "svc_***" in entry.payload
            assert request[4:14] not in entry.payload
            assert escaped not in entry.payload
        remaining = [
            "".join(re.findall(r'content\\?": \\?"(.*?)\\?"', text)) for text in (entries[0].payload, stored.response)
        ]
        assert remaining[1] == "It is sk-ant-***!"
        assert remaining[0].endswith(remaining[1])
        segments = [path.read_bytes() for path in world.gateway.directory.rglob("*.segment")]
        assert segments
        for canary in (request[4:14], escaped, answered[-8:]):
            assert not any(canary.encode() in segment for segment in segments)

    @pytest.mark.parametrize("path", ["/work", "/v1/chat/completions", "/v1/messages"])
    def test_an_answer_that_holds_the_credential_is_given_to_nobody(self, world, path):
        world.allow()
        world.provider(credential=SECRET).answers(text=f"It is {SECRET}!")
        self._refused(world, path)

    def test_nor_is_one_that_writes_it_in_escapes_and_would_be_translated(self, world):
        world.allow()
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
        choice = f'{{"message": {{"role": "assistant", "content": "{escaped}"}}, "finish_reason": "stop"}}'
        world.provider(credential=SECRET).answers(body=f'{{"choices": [{choice}]}}'.encode())
        self._refused(world, "/v1/messages")

    def _refused(self, world, path):
        response = world.post({"model": world.model, "max_tokens": 9, "messages": MESSAGES}, path=path)
        assert response.status_code == 502
        assert SECRET not in response.text
        assert SECRET not in str([vars(entry) for entry in LogEntry.objects.all()])

    def test_nor_is_the_media_type_that_holds_it(self, world):
        world.allow()
        values = {"Content-Type": f"text/event-stream; charset=utf-8; key={SECRET}"}
        event = 'data: {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}\n\n'
        world.provider(credential=SECRET).answers(stream=[event, "data: [DONE]\n\n"], headers=values)
        for _ in range(2):  # the second one is stored
            assert world.stream().headers["Content-Type"] == "text/event-stream; charset=utf-8"

    def test_a_word_in_the_place_of_a_credential_is_no_secret(self, world):
        world.allow()
        world.provider(credential="ollama").answers(text="Ask ollama!")
        response = world.ask()
        assert response.status_code == 200
        assert json.loads(world.entry(response).payload)["response"] == response.json()

    @pytest.mark.parametrize(
        "text",
        [
            "it's a \"quote\" `tick` \\ backslash \\' and '; DROP TABLE telemetry_logentry; --",
            "nul \x00 inside",
            "\\u0000 spelled out",
            "four bytes 😀 𝔘𝔫𝔦 and \u202e right to left \u2028",
            "%s %(name)s {} {0} $1 ?",
            "</script><img src=x onerror=alert(1)>",
            "\ufffe\uffff\x7f\x1b[31m",
            "x" * 100_000,
            "😀" * 40_000,
        ],
    )
    @pytest.mark.parametrize("stream", [False, True])
    def test_hostile_text_is_kept_without_harm(self, world, provider, text, stream):
        response = world.ask(text, body={"stream": stream})
        assert response.status_code == 200
        entry = world.entry(response)
        assert (entry.outcome, entry.model) == ("completed", world.model)
        payload = json.loads(entry.payload)
        assert len(entry.payload) < 200_000
        if len(text) < 1000:
            assert payload["request"]["messages"][0]["content"] == text
        assert world.ask("still alive").status_code == 200

    def test_hostile_names_and_tags_are_kept_too(self, world, provider):
        response = world.ask(body={"model": "mod'el\"; -- 😀"}, headers={"X-Svc-Tags": "a='; -- \"{}"})
        entry = world.entry(response)
        assert (entry.status, entry.model, entry.tags) == (400, "mod'el\"; -- 😀", {"a": "'; -- \"{}"})

    @pytest.mark.parametrize("kind", ["redacted", "none"])
    def test_as_little_of_it_as_the_setting_says(self, own_gateway, kind):
        world = own_gateway(GATEWAY_LOG_PAYLOAD=kind, GATEWAY_KEY_REQUESTS_PER_MINUTE="5")
        world.allow()
        world.provider().default = Answer(text="secret answer")
        responses = [world.ask("secret question"), world.stream("secret question"), world.ask("secret question")]
        for response in responses:
            assert b"secret" in response.content
            entry = world.entry(response)
            assert "secret" not in str(entry.__dict__)
            if kind == "none":
                assert entry.payload == ""
            else:
                payload = json.loads(entry.payload)
                assert payload["response"]["bytes"] == len(response.content)
                assert len(payload["request"]["sha256"]) == 64
        if kind == "none":
            self.limits_follow_the_setting(world)

    def limits_follow_the_setting(self, world):
        """In the same gateway, whose keys have five requests a minute."""
        in_one_minute(6)
        key = world.new_key().text
        assert [world.ask(key=key).status_code for _ in range(7)] == [200] * 5 + [429] * 2
