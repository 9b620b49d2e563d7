"""Streams: chunks are forwarded as they arrive, and a stream ends well only where the provider said so."""

import json
import signal
import time

import pytest

from tests.support.pace import patience
from tests.support.provider_answers import Answer
from tests.support.stepped_streams import Client
from tests.support.streaming import DONE, arrivals, datas, error_in, event, part, read, text

pytestmark = pytest.mark.either_store


class TestForwarding:
    def test_chunks_arrive_as_they_are_sent(self, world, provider):
        provider.answers(text="one two three", pace=0.5)
        chunks = arrivals(world.stream())
        assert text(b"".join(chunk for _, chunk in chunks)) == "one two three"
        moments = [moment for moment, chunk in chunks if b"delta" in chunk]
        assert moments[-1] - moments[0] > 0.5  # the first was there long before the last was sent

    def test_the_head_says_what_a_stream_is(self, world, provider):
        response = world.stream()
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-cache, no-transform"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert response.headers["X-Svc-Provider"] == world.row(provider).name
        assert response.headers["X-Svc-Cache"] == "MISS"
        assert response.headers["Transfer-Encoding"] == "chunked"

    def test_the_log_tells_how_it_went(self, world, provider):
        provider.answers(text="one two three", pace=0.1)
        response = world.stream("a b c d")
        read(response)
        entry = world.entry(response)
        assert (entry.outcome, entry.status, entry.stream, entry.severity) == ("completed", 200, True, "info")
        assert (entry.input_tokens, entry.output_tokens, entry.finish_reason) == (4, 3, "stop")
        assert entry.first_byte_ms < entry.duration_ms
        assert entry.duration_ms > 300
        assert "stream" in [stage[0] for stage in entry.stages]

    def test_events_pass_byte_for_byte(self, world, provider):
        requests = [
            b": hello\n\n",
            b'event: x\nid: 1\ndata: {"choices":[ ]}\n\n',
            event(part("é\u2028 😀")),
            DONE.encode(),
        ]
        provider.answers(stream=requests)
        assert read(world.stream()) == b"".join(requests)

    def test_an_answer_that_is_no_stream_is_handed_on_whole(self, world, provider):
        provider.answers(body={"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]})
        response = world.stream()
        assert response.headers["Content-Type"] == "application/json"
        assert response.json()["choices"][0]["message"]["content"] == "whole"

    @pytest.mark.parametrize("size", [1, 2, 3, 7])
    def test_events_may_be_cut_anywhere(self, world, provider, size):
        whole = event(part("Grüße ")) + event(part("😀日本", "stop")) + DONE.encode()
        provider.answers(stream=[whole[start : start + size] for start in range(0, len(whole), size)])
        body = read(world.stream())
        assert body == whole
        assert text(body) == "Grüße 😀日本"

    @pytest.mark.parametrize("size", [1, 5, 10_000])
    @pytest.mark.parametrize("newline", [b"\r\n", b"\r"])
    def test_lines_may_end_as_they_like(self, world, provider, newline, size):
        whole = (event(part("one ")) + event(part("two", "stop")) + DONE.encode()).replace(b"\n", newline)
        provider.answers(stream=[whole[start : start + size] for start in range(0, len(whole), size)])
        response = world.stream()
        body = read(response)
        assert text(body) == "one two"
        assert body.count(b"[DONE]") == 1
        assert b"exception" not in body
        assert world.entry(response).outcome == "completed"

    def test_an_event_of_a_megabyte_passes(self, world, provider):
        provider.answers(stream=[part("x" * 1_000_000), part("", "stop"), DONE])
        body = read(world.stream())
        assert text(body) == "x" * 1_000_000

    def test_many_streams_at_once_do_not_mix(self, world, provider):
        provider.default = Answer(pace=0.05)
        streams = [world.stream(f"a{number} b{number} c{number}") for number in range(10)]
        for number, response in enumerate(streams):
            assert text(read(response)) == f"a{number} b{number} c{number}"

    def test_an_end_without_an_answer_is_none(self, world, provider):
        provider.answers(stream=[DONE]).answers(text="an answer")
        response = world.stream()
        assert (response.status_code, response.json()["exception"]) == (502, "ProviderError")
        assert world.stream().headers["X-Svc-Cache"] == "MISS"

    def test_a_byte_order_mark_does_not_go_on(self, world, provider):
        provider.answers(stream=[b"\xef\xbb\xbf" + event(part("Bom dia")), part("", "stop"), DONE])
        assert read(world.stream()).startswith(b"data: {")

    @pytest.mark.parametrize("ending", ["data: [DONE]", "data: [DONE]\n", "data:[DONE]\r\n\r\n"])
    def test_the_terminal_mark_may_lack_its_blank_line(self, world, provider, ending):
        provider.answers(stream=[part("a", "stop"), ending])
        response = world.stream()
        body = read(response)
        assert [data.strip() for data in datas(body)][-1] in (b"[DONE]", b"data:[DONE]")
        assert world.entry(response).outcome == "completed"
        assert read(world.stream()) == body

    def test_what_a_provider_says_after_the_end_is_not_handed_on(self, world, provider):
        provider.answers(stream=[part("a", "stop"), DONE, part("more")])
        assert datas(read(world.stream()))[-1] == b"[DONE]"


class TestUsage:
    def usage_chunks(self, body):
        return [data for data in datas(body) if b'"usage"' in data]

    def test_it_is_asked_of_the_provider_and_kept_from_a_client_that_did_not_ask(self, world, provider):
        response = world.stream("a b")
        body = read(response)
        assert provider.seen[0].json["stream_options"] == {"include_usage": True}
        assert self.usage_chunks(body) == []
        assert datas(body)[-1] == b"[DONE]"
        assert world.entry(response).input_tokens == 2

    def test_it_is_handed_on_to_a_client_that_asked(self, world, provider):
        body = read(world.stream("a b", body={"stream_options": {"include_usage": True}}))
        chunks = self.usage_chunks(body)
        assert len(chunks) == 1
        assert json.loads(chunks[0])["usage"]["prompt_tokens"] == 2

    def test_the_other_options_of_a_client_stay(self, world, provider):
        read(world.stream(body={"stream_options": {"include_usage": False, "include_obfuscation": False}}))
        assert provider.seen[0].json["stream_options"] == {"include_usage": True, "include_obfuscation": False}

    def test_usage_in_the_last_event_of_the_text_is_taken_out_of_it_alone(self, world, provider):
        usage = {"prompt_tokens": 5, "completion_tokens": 6}
        provider.answers(stream=[part("a"), part("b", "stop") | {"usage": usage}, DONE])
        response = world.stream()
        body = read(response)
        assert (self.usage_chunks(body), text(body)) == ([], "ab")
        entry = world.entry(response)
        assert (entry.input_tokens, entry.output_tokens, entry.finish_reason) == (5, 6, "stop")


class TestHeartbeats:
    def test_a_silence_before_the_first_chunk_is_bridged(self, world, provider):
        provider.answers(stream=["", part("late", "stop") | {"id": "x"}, DONE], pace=1.3, framing="close")
        response = world.stream()
        chunks = arrivals(response)
        assert chunks[0][1].startswith(b":")
        assert text(b"".join(chunk for _, chunk in chunks)) == "late"

    def test_a_silence_after_the_head_and_between_chunks_is_bridged(self, world, provider):
        provider.answers(stream=[part("a"), part("b", "stop"), DONE], pace=1.3)
        response = world.stream()
        body = read(response)
        assert body.count(b": heartbeat\n\n") == 2
        assert text(body) == "ab"
        assert world.entry(response).outcome == "completed"

    def test_so_is_one_in_which_the_provider_says_nothing_that_can_be_handed_on(self, world, provider):
        waits = [": processing\n\n"] * 8
        provider.answers(stream=[*waits, part("a"), *waits, part("b", "stop"), DONE], pace=0.3)
        message = {
            "model": world.model,
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "x"}],
            "stream": True,
        }
        body = read(world.post(message, path="/v1/messages"))
        before, between = body.split(b"message_start")[0], body[body.index(b'"text":"a"') : body.index(b'"text":"b"')]
        assert before.startswith(b": heartbeat\n\n")
        assert 1 <= between.count(b": heartbeat\n\n") <= 3
        assert body.rstrip().endswith(b'{"type":"message_stop"}')

    @pytest.mark.parametrize("version", ["1.1", "1.0"])
    def test_none_comes_into_the_middle_of_a_line_or_ends_an_event(self, world, version):
        world.allow()
        line = b'data: {"image": "' + b"A" * 1_500_000 + b'"}\n\n'  # lines of a megabyte are passed on before their end
        pieces = [line[:1_200_000], line[1_200_000:] + b"event: last\n", b"data: {}\n\n" + DONE.encode()]
        world.provider(format_name="passthrough").answers(stream=pieces, pace=1.3)
        client = Client(world, version=version)
        client.read()
        assert client.body.startswith(line)
        events = client.body.removeprefix(line).removesuffix(DONE.encode())
        assert events.replace(b": heartbeat\n", b"") == b"event: last\ndata: {}\n\n"

    def test_they_are_not_stored(self, world, provider):
        provider.answers(stream=[part("a"), part("b", "stop"), DONE], pace=1.2)
        read(world.stream())
        replayed = read(world.stream())
        assert text(replayed) == "ab"
        assert b"heartbeat" not in replayed


class TestBadEnds:
    @pytest.mark.parametrize(
        "answer",
        [
            {"text": "one two", "no_terminal": True},
            {"text": "one two", "no_terminal": True, "framing": "close"},
            {"text": "one two three", "cut_after": 400},
            {"text": "one two three", "cut_after": 400, "reset": True},
            {"text": "one two three", "cut_after": 400, "framing": "close"},
            {"stream": [part("one two"), 'data: {"choices": [{"delta": {"con']},
            {"stream": [part("one two"), "data: [DON"]},
            {"stream": [part("one two"), ": [DONE]\n\n"]},
        ],
    )
    def test_a_stream_without_its_terminal_mark_ends_in_an_error(self, world, provider, answer):
        provider.answers(**answer)
        response = world.stream()
        body = read(response)
        assert b"one" in body
        assert (error_in(body)["code"], error_in(body)["exception"]) == (502, "ProviderError")
        assert b"[DONE]" not in body.replace(b": [DONE]", b"")
        entry = world.entry(response)
        assert (entry.outcome, entry.severity, entry.exception) == ("truncated", "error", "ProviderError")
        assert world.entry(response, kind="Message").severity == "error"
        assert world.stream().headers["X-Svc-Cache"] == "MISS"

    def test_an_error_in_the_middle_is_told_in_our_form(self, world, provider):
        provider.answers(stream=[part("one "), {"error": {"message": "overloaded now"}}, part("two"), DONE], pace=0.05)
        response = world.stream()
        body = read(response)
        assert "overloaded now" in error_in(body)["message"]
        assert b'"two"' not in body
        assert b"[DONE]" not in body
        entry = world.entry(response)
        assert (entry.outcome, entry.severity) == ("failed", "error")
        assert world.stream().headers["X-Svc-Cache"] == "MISS"

    @pytest.mark.parametrize("rubbish", ["data: {]\n\n", "data: 5\n\n", "data: [1]\n\n", b"data: \xff\n\n"])
    def test_an_event_that_is_no_json_object_ends_it(self, world, provider, rubbish):
        provider.answers(stream=[part("one "), rubbish, DONE], pace=0.05)
        response = world.stream()
        assert error_in(read(response))["code"] == 502
        assert world.entry(response).outcome == "failed"

    @pytest.mark.parametrize(
        "answer", [{"stream": [{"error": {"message": "no"}}]}, {"stream": []}, {"stream": [": hm\n\n"]}]
    )
    def test_an_error_before_the_first_event_is_a_status(self, world, provider, answer):
        provider.answers(**answer)
        response = world.stream()
        if answer["stream"] == [": hm\n\n"]:
            assert error_in(response.content)["code"] == 502
        else:
            assert (response.status_code, response.json()["exception"]) == (502, "ProviderError")
        assert world.entry(response).outcome in ("failed", "truncated")

    def test_an_error_that_comes_with_the_first_event_is_a_status_too(self, world, provider):
        provider.answers(stream=[event(part("one")) + event({"error": {"message": "no"}})])
        assert world.stream().status_code == 502

    def test_a_refusal_of_a_stream_is_a_status_too(self, world, provider):
        provider.answers(status=429, headers={"Retry-After": "3"})
        response = world.stream()
        assert (response.status_code, response.headers["Retry-After"]) == (429, "3")

    def test_a_provider_that_falls_silent_is_given_up(self, world):
        world.allow()
        provider = world.provider(idle_timeout_seconds=0.5)
        provider.answers(stream=[part("one")], silent_after=1)
        response = world.stream()
        body = read(response)
        assert (error_in(body)["code"], error_in(body)["exception"]) == (504, "ProviderTimeout")
        assert provider.seen[0].wait_closed() < patience(1.5)
        assert world.entry(response).outcome == "truncated"

    def test_the_clients_own_time_ends_a_stream(self, world, provider):
        provider.answers(text="a b c d e f g h", pace=0.2)
        response = world.stream(headers={"X-Svc-Timeout": "0.6"})
        body = read(response)
        assert b'"a"' in body
        assert error_in(body)["code"] == 504
        assert world.entry(response).outcome == "truncated"


class TestClientsThatLeave:
    @pytest.mark.parametrize(
        ("answer", "stream"),
        [
            ({"text": "word " * 100, "pace": 0.05}, True),
            ({"stream": [part("one")], "silent_after": 1}, True),
            ({"stream": [], "silent_after": 0}, True),
            ({"silent": True}, True),
            ({"silent": True}, False),
            ({"silent_after": 0}, False),
            ({"drip": 0.05}, False),
        ],
    )
    @pytest.mark.parametrize("end", ["close", "reset"])
    def test_the_provider_is_hung_up_on_within_a_second(self, world, provider, answer, stream, end):
        provider.answers(**answer)
        name = f"leaves-{world.number}"
        sock = world.send({"stream": stream}, f"X-Svc-Request-ID: {name}")
        provider.wait_for(1)
        time.sleep(0.4)
        seconds = time.monotonic()
        if end == "reset":
            sock.setsockopt(1, 13, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # SO_LINGER 0: RST in place of FIN
        sock.close()
        provider.seen[0].wait_closed()
        assert time.monotonic() - seconds < patience(1)
        entry = world.entry(name)
        assert (entry.outcome, entry.attempts, entry.provider_name) == ("client_closed", 1, world.row(provider).name)
        assert world.ask("another").status_code == 200

    def test_what_it_got_is_logged_and_nothing_is_cached(self, world, provider):
        provider.answers(text="word " * 50, pace=0.05)
        name = f"leaves-{world.number}"
        sock = world.send({"stream": True}, f"X-Svc-Request-ID: {name}")
        reply = b""
        while b"word" not in reply:
            reply += sock.recv(4096)
        sock.close()
        entry = world.entry(name)
        assert "word" in entry.payload
        assert entry.status == 200
        assert world.stream().headers["X-Svc-Cache"] == "MISS"


def test_a_stop_of_the_server_ends_a_silent_stream_in_good_order(own_gateway):
    world = own_gateway(GATEWAY_GRACEFUL_TIMEOUT="4")
    world.allow()
    provider = world.provider(idle_timeout_seconds=30)
    provider.answers(stream=[part("one")], silent_after=1)
    provider.answers(text="whole", delay=0.5)
    response = world.stream()
    waiting = world.send({"n": 1})
    provider.wait_for(2)
    world.gateway.process.send_signal(signal.SIGTERM)
    body = read(response)
    assert text(body.rpartition(b"data:")[0]) == "one"
    assert (error_in(body)["code"], error_in(body)["exception"]) == (503, "ServiceUnavailable")
    assert b"whole" in waiting.recv(65536)
    assert world.gateway.process.wait(10) == 0
    entry = world.entry(response)
    assert (entry.outcome, entry.exception) == ("truncated", "ServiceUnavailable")
    provider.seen[0].wait_closed()
