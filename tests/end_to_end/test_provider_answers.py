"""Stages 6 and 7: slow, broken and hostile answers, and the connections that they come over."""

import socket
import time

import pytest

from gateway_project.errors import ValidationError
from providers.models import Provider
from providers.services import update_provider
from tests.support.management import refused
from tests.support.pace import patience
from tests.support.provider import ScriptedProvider, refusing_port

pytestmark = pytest.mark.embedded


def whole(body, *headers):
    """An HTTP answer of status 200, byte by byte as it is sent."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "\r\n"]).encode() + body


GOOD = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "good"}}]}'


class TestTime:
    def timed(self, world, **options):
        begun = time.monotonic()
        response = world.ask(**options)
        return response, time.monotonic() - begun

    @pytest.mark.parametrize(
        ("option", "answer", "words"),
        [
            ("first_byte_timeout_seconds", {"silent": True}, "did not begin to answer"),
            ("idle_timeout_seconds", {"silent_after": 0}, "stopped sending"),
            ("idle_timeout_seconds", {"silent_after": 1, "framing": "chunked"}, "stopped sending"),
            ("total_timeout_seconds", {"silent": True}, "did not complete"),
            ("total_timeout_seconds", {"drip": 0.1}, "did not complete"),
        ],
    )
    def test_a_provider_that_takes_too_long_is_given_up(self, world, option, answer, words):
        world.allow()
        provider = world.provider(**{option: 0.5})
        provider.answers(**answer)
        response, seconds = self.timed(world)
        assert words in refused(response, 504, "ProviderTimeout")
        assert 0.4 < seconds < patience(1.2)
        assert provider.seen[0].wait_closed() < patience(1.2)
        entry = world.entry(response)
        assert (entry.status, entry.outcome, entry.severity) == (504, "failed", "error")
        assert entry.attempts == 1

    def test_the_settings_bound_what_the_provider_leaves_open(self, world, provider):
        provider.answers(silent=True)
        response, seconds = self.timed(world)
        refused(response, 504, "ProviderTimeout")
        assert 1.9 < seconds < patience(2.7)

    def test_the_client_bounds_the_whole_request(self, world, provider):
        provider.answers(silent=True)
        response, seconds = self.timed(world, headers={"X-Svc-Timeout": "0.4"})
        refused(response, 504, "ProviderTimeout")
        assert 0.3 < seconds < patience(1.1)

    def test_the_client_cannot_lengthen_it(self, world):
        world.allow()
        world.provider(total_timeout_seconds=0.5).answers(silent=True)
        response, seconds = self.timed(world, headers={"X-Svc-Timeout": "60"})
        refused(response, 504, "ProviderTimeout")
        assert seconds < patience(1.2)

    def test_a_slow_provider_within_its_time_is_waited_for(self, world):
        world.allow()
        world.provider(first_byte_timeout_seconds=7, idle_timeout_seconds=1).answers(text="late", delay=1.5)
        assert world.ask().status_code == 200

    def test_a_provider_that_does_not_accept_connections_in_time(self, world, provider):
        with socket.socket() as full, socket.socket() as one, socket.socket() as two, socket.socket() as three:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for sock in (one, two, three):
                sock.setblocking(False)
                sock.connect_ex(full.getsockname())
            url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
            update_provider(world.row(provider), url=url, connect_timeout_seconds=0.3)
            response, seconds = self.timed(world)
        assert "accept a connection" in refused(response, 504, "ProviderTimeout")
        assert seconds < patience(1)

    def test_a_connection_that_was_given_up_is_never_used_again(self, world):
        world.allow()
        provider = world.provider(first_byte_timeout_seconds=0.3)
        provider.answers(text="for the first", delay=0.6).answers(text="for the second")
        refused(world.ask("1"), 504, "ProviderTimeout")
        assert "for the second" in world.ask("2").text
        assert provider.connections == 2


class TestBrokenAnswers:
    @pytest.mark.parametrize(
        "answer",
        [
            {"raw": b""},
            {"raw": b"garbage\r\n\r\n"},
            {"raw": b"\x00" * 100},
            {"raw": b"HTTP/1.1 200 OK\r\n"},
            {"raw": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000},
            {"raw": b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 20_000 + b"\r\n"},
            {"raw": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Length: 20\r\n\r\n" + b"x" * 20},
            {"raw": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"},
            {"raw": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}"},
            {"raw": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}"},
            {"raw": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n{}"},
            {"raw": b"SSH-2.0-OpenSSH_9.6\r\n"},
            {"cut_after": 0},
            {"cut_after": 20},
            {"cut_after": 20, "reset": True},
            {"cut_after": 20, "framing": "chunked"},
            {"cut_after": 20, "framing": "close"},
            {"body": b""},
            {"body": b"{"},
            {"body": b"<!doctype html><title>Login</title>"},
            {"body": b"Internal Server Error"},
            {"body": b"null"},
            {"body": b"[]"},
            {"body": b'"text"'},
            {"body": b'{"choices": [{"message": {"content": "\xff"}}]}'},
            {"body": b'{"a": ' + b"[" * 100_000},
            {"body": {}},
            {"body": {"choices": None}},
            {"body": {"choices": []}},
            {"body": {"choices": ["x"]}},
            {"body": {"choices": [{}]}},
            {"body": {"choices": [{"message": "text"}]}},
            {"body": {"error": {"message": "overloaded", "code": 500}}},
            {"body": {"error": "no"}},
            {"body": {"choices": [{"message": {"content": "x"}}], "error": {"message": "half"}}},
            {"headers": {"Content-Encoding": "gzip"}},
            {"headers": {"Content-Encoding": "br"}},
        ],
    )
    def test_an_answer_that_is_none_is_a_failure_of_the_provider(self, world, provider, answer):
        provider.answers(**answer)
        response = world.ask()
        message = refused(response, 502, "ProviderError")
        assert "Traceback" not in message
        assert "\n" not in message
        entry = world.entry(response)
        assert (entry.status, entry.outcome, entry.exception) == (502, "failed", "ProviderError")
        assert len(provider.seen) == 1
        assert world.ask().headers["X-Svc-Cache"] == "MISS"

    @pytest.mark.parametrize("framing", ["length", "chunked", "close"])
    def test_an_answer_over_the_limit_is_cut_off(self, world, framing):
        world.allow()
        provider = world.provider(max_response_bytes=100_000)
        provider.answers(oversize=30_000_000, framing=framing)
        response = world.ask()
        assert "longer than 100000 bytes" in refused(response, 502, "ProviderError")
        provider.wait_idle(2)

    def test_an_answer_at_the_limit_passes(self, world):
        world.allow()
        body = GOOD.ljust(4096)
        world.provider(max_response_bytes=4096).answers(body=body)
        assert world.ask().content == body

    def test_odd_text_passes_byte_for_byte(self, world, provider):
        body = b'  {"choices" : [ {"message": {"content": "\\u0000 \xf0\x9f\x98\x80"}, "x": 1e2}], "n": 1.0}\n'
        provider.answers(body=body)
        response = world.ask()
        assert response.content == body
        assert world.entry(response).outcome == "completed"

    @pytest.mark.parametrize(
        "raw",
        [
            b"HTTP/1.1 100 Continue\r\n\r\n" + whole(GOOD),
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + whole(GOOD),
            b"HTTP/1.0 200 OK\r\n\r\n" + GOOD,
            whole(GOOD, "X-Empty:", "X-Odd: \xe9"),
            whole(GOOD) + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ],
    )
    def test_odd_but_good_http_is_understood(self, world, provider, raw):
        provider.answers(raw=raw)
        assert world.ask().content == GOOD
        assert world.ask("another").status_code == 200


class TestConnections:
    def test_a_connection_is_used_again(self, world, provider):
        for number in range(4):
            world.ask(f"{number}")
        assert (len(provider.seen), provider.connections) == (4, 1)

    @pytest.mark.parametrize("framing", ["length", "chunked"])
    def test_it_is_kept_after_errors_too_whose_end_is_known(self, world, provider, framing):
        provider.answers(status=400, framing=framing)
        world.ask("1")
        world.ask("2")
        assert provider.connections == 1

    @pytest.mark.parametrize("framing", ["length", "chunked", "close"])
    def test_every_framing_gives_the_same_body(self, world, provider, framing):
        provider.answers(text="Lisbon", framing=framing)
        assert world.ask().json()["choices"][0]["message"]["content"] == "Lisbon"
        assert world.ask("again").status_code == 200

    @pytest.mark.parametrize("pause", [0, 0.7])
    @pytest.mark.parametrize("closes", [True, "unannounced"])
    def test_a_connection_that_the_provider_closed_is_replaced(self, world, provider, closes, pause):
        provider.answers(close_connection=closes)
        assert world.ask("1").status_code == 200
        time.sleep(pause)
        response = world.ask("2")
        assert response.status_code == 200
        assert world.entry(response).attempts == 1
        assert (len(provider.seen), provider.connections) == (2, 2)

    def test_a_provider_that_was_restarted_is_found_again(self, world, provider):
        assert world.ask("1").status_code == 200
        provider.stop()
        with ScriptedProvider(provider.port) as restarted:
            assert world.ask("2").status_code == 200
            assert len(restarted.seen) == 1

    def test_a_request_is_not_sent_twice_over_a_new_connection(self, world, provider):
        provider.answers(raw=b"")
        refused(world.ask(), 502, "ProviderError")
        assert len(provider.seen) == 1

    def test_a_refused_connection(self, world):
        world.allow()
        world.provider(url=f"http://127.0.0.1:{refusing_port()}/v1")
        response = world.ask()
        assert "refused the connection" in refused(response, 502, "ProviderError")
        assert world.entry(response).attempts == 1

    def test_a_host_that_nobody_knows(self, world):
        world.allow()
        world.provider(url="http://nowhere.invalid/v1")
        refused(world.ask(), 502, "ProviderError")


class TestAddresses:
    @pytest.mark.parametrize(
        "host",
        [
            "169.254.169.254",
            "169.254.0.1",
            "169.254.169.254.",
            "0251.0376.0251.0376",
            "0xa9fea9fe",
            "2852039166",
            "[::ffff:169.254.169.254]",
            "[::ffff:a9fe:a9fe]",
            "[::169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "[64:ff9b:1::a9fe:a9fe]",
            "[2002:a9fe:a9fe::1]",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            # These would reach the very provider that listens here.
            "0.0.0.0",
            "0",
            "[::]",
            "[::ffff:0.0.0.0]",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "017700000001",
            "0177.0.0.1",
            "127.1",
            "127.0.1",
            "127.0.0.01",
        ],
    )
    def test_an_address_where_no_provider_lives_is_never_called(self, world, provider, host):
        url = f"http://{host}:{provider.port}/v1"
        with pytest.raises(ValidationError, match="must name another host"):
            update_provider(world.row(provider), url=url)
        # As a row that was written by other means: an address is checked again when it is called.
        Provider.objects.filter(pk=world.row(provider).pk).update(url=url, auth_method="none", credential="")
        begun = time.monotonic()
        response = world.ask()
        assert "does not call" in refused(response, 502, "ProviderError")
        assert len(host) < 4 or host.strip("[].") not in response.text
        assert time.monotonic() - begun < patience(0.5)
        assert (provider.seen, provider.connections) == ([], 0)

    @pytest.mark.parametrize("host", ["localhost", "[::ffff:127.0.0.1]", "LOCALHOST"])
    def test_loopback_is_called_unless_the_setting_forbids_it(self, world, provider, host):
        update_provider(world.row(provider), url=f"http://{host}:{provider.port}/v1", auth_method="none")
        assert world.ask().status_code == 200

    def test_public_networks_leave_out_the_private_ones(self, own_gateway):
        world = own_gateway(GATEWAY_PROVIDER_NETWORKS="public")
        world.allow()
        hosts = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "192.168.1.1", "172.16.0.1"]
        provider = world.provider("unused")
        for number, host in enumerate([*hosts, "100.64.0.1", "[fd12::1]", "[64:ff9b::7f00:1]"]):
            world.provider(f"m-{number}", url=f"http://{host}:{provider.port}/v1", name=f"{world.name('p')}")
        for number in range(10):
            name = refused(world.ask(body={"model": f"m-{number}"}), 502, "ProviderError")
            assert "does not call the provider: its address is not allowed" in name
        assert provider.connections == 0


class TestWords:
    """What a provider says in its errors goes to clients and into the log: without our credential, and in short."""

    def told(self, world, response):
        """What the log tells of a request that failed: its entry, and the message that gives the reason."""
        return [world.entry(response, kind=kind) for kind in ("WorkRequest", "Message")]

    @pytest.mark.parametrize("padding", [0, 2030, 2040, 3000])
    def test_the_credential_is_in_no_part_of_an_error(self, world, padding):
        secret = "sk-secret-of-this-provider"
        world.allow()
        provider = world.provider(credential=secret)
        values = {"message": "x" * padding + f" bad key {secret}", "code": secret, "param": secret}
        provider.answers(status=400, body={"error": values})
        body = {"model": world.model, "messages": [{"role": "user", "content": "hello"}]}
        response = world.post(body, path="/v1/chat/completions")
        assert response.status_code == 400
        text = response.text + "".join(f"{entry.message} {entry.candidates}" for entry in self.told(world, response))
        assert secret[:5] not in text  # nor a piece of it, where the message is cut

    def test_a_long_error_in_a_stream_is_told_in_short(self, world, provider):
        provider.answers(stream=[{"error": {"message": "x" * 3_000_000}}])
        response = world.stream("hello")
        assert response.status_code == 502
        assert len(response.json()["message"]) < 2500
        assert len(response.content) < 5000  # the message is there twice
        assert all(len(entry.message) < 5000 for entry in self.told(world, response))

    def test_a_long_name_that_a_client_made_up_is_told_in_short(self, world):
        world.allow()
        world.provider(format_name="gemini")
        body = {"model": world.model, "messages": [{"role": "user", "content": "q"}], "tools." + "z" * 3_000_000: 1}
        response = world.post(body, path="/v1/chat/completions")
        assert response.status_code == 400
        assert len(response.content) < 4000
        assert all(len(entry.message) < 5000 for entry in self.told(world, response))
