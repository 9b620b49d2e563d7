"""Stage 6: what the provider is sent, and what its refusals become."""

import base64
import socket
import time
from email.utils import formatdate

import pytest
from django.forms.models import model_to_dict

from telemetry.models import CacheEntry, LogEntry
from tests.support.management import refused
from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.embedded

SECRET = "sk-secret-of-the-provider"


# The first bytes of a TLS connection: a handshake record, of version 3.
TLS_HANDSHAKE = b"\x16\x03"


class RedisConnection:
    """A port at which one client may say whatever it likes; nothing is ever answered."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(30)
        self.port = self.listener.getsockname()[1]
        return self

    def __exit__(self, *exc):
        self.listener.close()

    def heard(self) -> bytes:
        """Every byte that came on the first connection, until the client gave up."""
        connection, _ = self.listener.accept()
        with connection:
            connection.settimeout(30)
            return b"".join(iter(lambda: connection.recv(65536), b""))


class TestWhatTheProviderSees:
    @pytest.mark.parametrize(
        ("method", "credential", "header", "value"),
        [
            ("bearer", SECRET, "authorization", f"Bearer {SECRET}"),
            ("x-api-key", SECRET, "x-api-key", SECRET),
            ("api-key", SECRET, "api-key", SECRET),
            ("x-goog-api-key", SECRET, "x-goog-api-key", SECRET),
            ("basic", "user:pass word", "authorization", f"Basic {base64.b64encode(b'user:pass word').decode()}"),
        ],
    )
    def test_the_credential_is_sent_as_the_method_says(self, world, method, credential, header, value):
        world.allow()
        provider = world.provider(auth_method=method, credential=credential)
        assert world.ask().status_code == 200
        request = provider.seen[0]
        assert request.headers[header] == value
        carriers = {"authorization", "x-api-key", "api-key", "x-goog-api-key"}
        assert carriers & request.headers.keys() == {header}
        assert request.path == "/v1/chat/completions"

    def test_a_credential_in_the_query_is_written_there_and_nowhere_else(self, world):
        world.allow()
        provider = world.provider(auth_method="query", credential="a/b&c=d e")
        assert world.ask().status_code == 200
        assert provider.seen[0].path == "/v1/chat/completions?key=a%2Fb%26c%3Dd%20e"
        assert "authorization" not in provider.seen[0].headers

    def test_a_method_of_none_sends_no_credential(self, world):
        world.allow()
        provider = world.provider(auth_method="none", credential="")
        assert world.ask().status_code == 200
        assert "authorization" not in provider.seen[0].headers

    @promise("V-L19, V-M2: text that looks like a variable is text", target="sent as it stands", suite="attack")
    def test_text_that_looks_like_a_variable_is_sent_as_it_stands(self, world):
        world.allow()
        provider = world.provider(credential="${HOME} os.environ/HOME")
        world.ask()
        assert provider.seen[0].headers["authorization"] == "Bearer ${HOME} os.environ/HOME"

    @promise(
        "V-T3, V-G1, V-D2, S17: providers get our headers and no others",
        target="the listed headers alone",
        suite="attack",
    )
    def test_nothing_of_the_clients_headers_passes(self, world, provider):
        world.ask(
            headers={
                "Cookie": "SvcAuthCookie=1",
                "X-Api-Key": "client",
                "Api-Key": "client",
                "X-Svc-Tags": "a=b",
                "X-Svc-Timeout": "5",
                "X-Svc-Request-ID": "client-1",
                "X-Forwarded-For": "10.1.1.1",
                "Forwarded": "for=10.1.1.1",
                "User-Agent": "client",
                "Accept": "text/plain",
                "Accept-Encoding": "gzip, br",
                "Accept-Language": "pt",
                "OpenAI-Organization": "org-client",
                "Anthropic-Beta": "all",
                "Connection": "keep-alive, X-Secret",
                "X-Secret": "1",
                "Content-Type": "application/json; charset=utf-8",
            }
        )
        headers = dict(provider.seen[0].raw_headers)
        assert len(headers) == len(provider.seen[0].raw_headers)
        assert headers == {
            "Host": f"127.0.0.1:{provider.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": "identity",
            "User-Agent": headers["User-Agent"],
            "Content-Length": str(len(provider.seen[0].body)),
            "Authorization": f"Bearer {SECRET}",
        }
        assert headers["User-Agent"] != "client"

    def test_nothing_in_the_body_changes_destination_or_credential(self, world, provider):
        body = {
            "base_url": "http://127.0.0.1:9/",
            "api_base": "x",
            "api_key": "y",
            "url": "z",
            "headers": {"Host": "h"},
        }
        assert world.ask(body=body, headers={"Host": "elsewhere"}).status_code in (200, 400)
        assert world.ask(body=body).status_code == 200
        request = provider.seen[-1]
        assert (request.path, request.headers["host"]) == ("/v1/chat/completions", f"127.0.0.1:{provider.port}")
        assert request.headers["authorization"] == f"Bearer {SECRET}"

    def test_the_query_of_a_client_does_not_travel(self, world, provider):
        world.session.post(
            f"{world.gateway.url}/work?key=1&model=other",
            json={"model": world.model, "messages": []},
            headers={"Authorization": f"Bearer {world.key}"},
        )
        assert provider.seen[0].path == "/v1/chat/completions"

    @promise("The environment chooses no destination", target="0 connections", suite="attack")
    def test_proxies_of_the_environment_are_not_used(self, own_gateway):
        nowhere = "http://127.0.0.1:9"
        world = own_gateway(HTTP_PROXY=nowhere, http_proxy=nowhere, ALL_PROXY=nowhere, NO_PROXY="", no_proxy="")
        world.allow()
        provider = world.provider()
        assert world.ask().status_code == 200
        assert len(provider.seen) == 1

    def test_https_is_never_spoken_in_the_clear(self, world):
        world.allow()
        with RedisConnection() as wire:
            world.provider(url=f"https://127.0.0.1:{wire.port}/v1", credential=SECRET)
            assert world.ask("the prompt").status_code in (502, 504)
            heard = wire.heard()
        assert heard.startswith(TLS_HANDSHAKE)
        for clear in (SECRET, "Bearer", "the prompt", world.model, "/v1/chat/completions", "HTTP/1.1"):
            assert clear.encode() not in heard


class TestWhatTheClientSeesOfTheProvider:
    @promise("V-T3: nothing of a provider's headers passes down", target="0 headers", suite="attack")
    def test_cookies_and_account_headers_stay_here(self, world, provider):
        headers = {
            "Set-Cookie": "a=b",
            "OpenAI-Organization": "org",
            "X-RateLimit-Remaining-Requests": "1",
            "X-Request-ID": "theirs",
            "X-Svc-Request-ID": "theirs",
            "Server": "theirs",
            "Location": "http://elsewhere/",
            "X-Svc-Cache": "HIT",
        }
        provider.answers(headers=headers).answers(
            headers=headers, stream=[{"choices": [{"delta": {}}]}, "data: [DONE]\n\n"]
        )
        for response in (world.ask(), world.stream()):
            assert response.status_code == 200
            for name, value in headers.items():
                assert response.headers.get(name) != value

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirects_are_not_followed(self, world, provider, status):
        elsewhere = world.provider("other")
        provider.answers(status=status, headers={"Location": f"{elsewhere.url}/chat/completions"})
        assert "redirect" in refused(world.ask(), 502, "ProviderError")
        assert elsewhere.seen == []


class TestTheCredentialStaysASecret:
    @pytest.mark.parametrize(
        "answer",
        [
            {"status": 400, "body": {"error": {"message": f"What is {SECRET}?"}}},
            {"status": 401, "body": {"error": {"message": f"Incorrect key {SECRET}"}}},
            {"status": 429, "body": {"error": {"message": f"{SECRET} is limited"}}},
            {"status": 500, "body": {"error": {"message": f"{SECRET} broke us"}}},
            {"status": 404, "body": {"detail": [{"loc": ["header"], "input": f"Bearer {SECRET}"}]}},
            {"body": {"error": {"message": f"200, but {SECRET}"}}},
            {"stream": [{"error": {"message": f"first {SECRET}"}}]},
            {"stream": [{"choices": [{"delta": {"content": "a"}}]}, {"error": {"message": f"later {SECRET}"}}]},
        ],
    )
    def test_an_error_that_quotes_it_is_told_without_it(self, world, provider, answer):
        provider.answers(**answer)
        response = world.stream() if "stream" in answer else world.ask()
        assert SECRET not in response.text
        assert SECRET not in str(response.headers)
        entry = world.entry(response)
        assert entry.outcome == "failed"
        for row in LogEntry.objects.filter(correlation_id=entry.correlation_id):
            assert SECRET not in str(model_to_dict(row))

    def test_a_basic_credential_is_hidden_in_the_form_that_it_is_sent_in_too(self, world):
        world.allow()
        provider = world.provider(auth_method="basic", credential="user:a-long-password")
        text = base64.b64encode(b"user:a-long-password").decode()
        provider.answers(status=400, body={"error": {"message": f"Basic {text} is none"}})
        assert text not in world.ask().text

    def test_it_is_neither_in_the_log_nor_in_the_cache_nor_printed(self, world, provider):
        responses = [world.ask(), world.ask(), world.stream("x")]
        provider.answers(raw=b"garbage\r\n\r\n")
        responses.append(world.ask("y"))
        for response in responses:
            assert SECRET not in response.text + str(response.headers)
            world.entry(response)
        for table in (LogEntry, CacheEntry):
            for row in table.objects.filter(provider_id=world.row(provider).id):
                assert SECRET not in str(model_to_dict(row))
                assert world.key not in str(model_to_dict(row))
        assert SECRET not in world.gateway.log()
        assert world.key not in world.gateway.log()


class TestRefusals:
    @pytest.mark.parametrize("status", [400, 402, 404, 408, 409, 413, 415, 422, 451])
    def test_a_rejection_passes_with_its_status_and_message(self, world, provider, status):
        provider.answers(status=status, body={"error": {"message": "max_tokens is too large", "type": "x"}})
        response = world.ask()
        assert refused(response, status, "ProviderRejected") == "max_tokens is too large"
        entry = world.entry(response)
        assert (entry.status, entry.outcome, entry.severity) == (status, "failed", "warning")
        assert (entry.entry_source, entry.attempts, entry.exception) == ("Worker", 1, "ProviderRejected")

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"error": "plain text"}, "plain text"),
            ({"message": "flat"}, "flat"),
            ({"detail": "FastAPI's"}, "FastAPI's"),
            ([{"error": {"message": "in a list"}}], "in a list"),
            ({"detail": [{"msg": "field required"}]}, "field required"),
            ({"error": {"message": "x" * 9000}}, "x" * 2000),
            ({"error": {"message": "Grüße 😀"}}, "Grüße 😀"),
            (b"<html>no</html>", "status 400"),
            (b"\xff\xfe", "status 400"),
            (b"", "status 400"),
            (b'{"error": ' + b"[" * 5000, "status 400"),
        ],
    )
    def test_its_words_are_found_in_whatever_shape_they_come(self, world, provider, body, message):
        provider.answers(status=400, body=body)
        result = refused(world.ask(), 400, "ProviderRejected")
        assert message in result
        assert len(result) <= 2048

    def test_an_endless_refusal_is_not_read_to_its_end(self, world, provider):
        provider.answers(status=400, oversize=50_000_000)
        begun = time.monotonic()
        refused(world.ask(), 400, "ProviderRejected")
        assert time.monotonic() - begun < patience(2)

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_refused_credential_is_our_affair(self, world, provider, status):
        provider.answers(status=status, body={"error": {"message": "Incorrect API key of account 42"}})
        response = world.ask()
        message = refused(response, 502, "ProviderError")
        assert "42" not in response.text
        assert "credential" in message
        assert world.entry(response).severity == "error"

    @pytest.mark.parametrize("status", [201, 204, 206, 500, 501, 502, 504, 599])
    def test_any_other_status_is_a_failure_of_the_provider(self, world, provider, status):
        provider.answers(status=status)
        response = world.ask()
        refused(response, 502, "ProviderError")
        assert (world.entry(response).status, world.entry(response).outcome) == (502, "failed")

    @pytest.mark.parametrize(("status", "code"), [(429, 429), (503, 503), (529, 503)])
    def test_an_overloaded_provider(self, world, provider, status, code):
        provider.answers(status=status, body={"error": {"message": "slow down"}})
        response = world.ask()
        assert refused(response, code, "ProviderOverloaded") == "slow down"
        assert "Retry-After" not in response.headers
        assert world.entry(response).status == code

    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ({"Retry-After": "7"}, {7}),
            ({"Retry-After": "0"}, {1}),
            ({"Retry-After": "1.2"}, {2}),
            ({"retry-after-ms": "2500"}, {3}),
            ({"Retry-After": "9", "Retry-After-Ms": "400"}, {1}),
            ({"Retry-After": "1m30s"}, {90}),
            ({"Retry-After": "99999"}, {3600}),
            ({"Retry-After": formatdate(time.time() - 60, usegmt=True)}, {1}),
        ],
    )
    def test_when_to_come_back_is_told_in_whole_seconds(self, world, provider, headers, seconds):
        provider.answers(status=429, headers=headers)
        response = world.ask()
        refused(response, 429, "ProviderOverloaded")
        assert int(response.headers["Retry-After"]) in seconds

    def test_when_to_come_back_may_be_a_date(self, world, provider):
        provider.answers(status=503, headers={"Retry-After": formatdate(time.time() + 30, usegmt=True)})
        assert 28 <= int(world.ask().headers["Retry-After"]) <= 31

    @pytest.mark.parametrize("value", ["soon", "-5", "1e3", "", "٣"])
    def test_nonsense_about_when_to_come_back_is_left_out(self, world, provider, value):
        provider.answers(raw=f"HTTP/1.1 429 Slow\r\nRetry-After: {value}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        response = world.ask()
        refused(response, 429, "ProviderOverloaded")
        assert "Retry-After" not in response.headers

    def test_a_provider_that_recovers_is_served_from_at_once(self, world, provider):
        provider.answers(status=500)
        provider.default = Answer(text="back")
        assert [world.ask().status_code for _ in range(2)] == [502, 200]
