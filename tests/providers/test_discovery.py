"""What a provider says that it offers; a provider that says nothing sensible offers nothing."""

import gzip
import json

import pytest

from gateway_project.errors import ProviderError
from providers.discovery import _list_address, ask_for_models, offered_models
from providers.formats import FORMATS
from providers.transport.transport import Transport
from tests.support.provider import ScriptedProvider, refusing_port

pytestmark = pytest.mark.either_store

TRANSPORT = Transport(networks="any", heartbeat_seconds=1)


@pytest.fixture
def provider():
    with ScriptedProvider() as running:
        yield running


def offered(url, auth_method="bearer", credential="sk-1234"):
    return offered_models(TRANSPORT, url=url, auth_method=auth_method, credential=credential)


@pytest.mark.parametrize(
    ("document", "models"),
    [
        ({"object": "list", "data": [{"id": "gpt-5"}, {"id": "gpt-5-mini"}]}, ["gpt-5", "gpt-5-mini"]),
        ({"models": [{"name": "models/gemini-3-pro"}]}, ["gemini-3-pro"]),
        ({"models": [{"name": "llama3:8b", "size": 7}]}, ["llama3:8b"]),
        ({"data": [{"id": "good"}, {"id": 7}, {"id": ""}, {"id": None}, {}, "x", None, {"id": "x" * 300}]}, ["good"]),
        ({"data": []}, []),
        ({"data": "gpt-5"}, []),
        ({"data": {"id": "gpt-5"}}, []),
        ([{"id": "meta/llama-4", "type": "chat"}, {"id": 7}, "x"], ["meta/llama-4"]),
        ({"models": [{"name": "command-a"}]}, ["command-a"]),
        ([], []),
        ("gpt-5", []),
    ],
)
def test_the_names_in_its_list_are_what_it_offers(provider, document, models):
    provider.answers(body=json.dumps(document).encode())
    assert offered(provider.url) == models


def test_it_is_asked_with_its_credential_at_its_list(provider):
    provider.answers(body={"data": []})
    offered(provider.url + "/")
    seen = provider.wait_for(1)[0]
    assert (seen.method, seen.path, seen.headers["authorization"]) == ("GET", "/v1/models", "Bearer sk-1234")


def test_ollama_has_tags_and_anthropic_wants_a_version(provider):
    offered(f"http://127.0.0.1:{provider.port}/api", "none", "")
    offered(provider.url, "x-api-key")
    tags, versioned = provider.wait_for(2)
    assert (tags.path, "authorization" in tags.headers) == ("/api/tags", False)
    assert (versioned.headers["x-api-key"], versioned.headers["anthropic-version"]) == ("sk-1234", "2023-06-01")


@pytest.mark.parametrize(
    ("url", "auth_method", "path"),
    [
        ("/v1beta", "x-goog-api-key", "/v1beta/models?pageSize=1000"),
        ("/v1", "x-api-key", "/v1/models?limit=1000"),
        ("/openai/v1/?api-version=preview", "api-key", "/openai/v1/models?api-version=preview"),
        ("/v1?a=b", "x-api-key", "/v1/models?a=b&limit=1000"),
    ],
)
def test_the_whole_list_is_asked_for(provider, url, auth_method, path):
    offered(provider.url.removesuffix("/v1") + url, auth_method)
    assert provider.wait_for(1)[0].path == path


@pytest.mark.parametrize(
    ("path", "listed_at"),
    [
        ("/v2", "/v1/models?page_size=1000"),
        ("", "/v1/models?page_size=1000"),
        ("/cohere/v2/?team=a", "/cohere/v1/models?team=a&page_size=1000"),
    ],
)
def test_the_list_of_a_format_may_be_elsewhere_on_the_host_of_the_provider(provider, path, listed_at):
    provider.answers(body={"models": [{"name": "command-a"}]})
    url, how = provider.url.removesuffix("/v1") + path, {"auth_method": "bearer", "credential": "sk-1234"}
    assert offered_models(TRANSPORT, url=url, format_name="cohere", **how) == ["command-a"]
    assert provider.wait_for(1)[0].path == listed_at


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_leads_away_from_the_host_of_the_provider(name):
    address, _ = _list_address("https://provider.example:8443/v2", "bearer", name)
    assert address.startswith("https://provider.example:8443/")


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 401},
        {"status": 404},
        {"status": 500},
        {"body": b"<html>"},
        {"body": b""},
        {"body": b"\xff\xfe"},
        {"body": b"[" * 100_000},
        {"oversize": 6 * 1024 * 1024},
        {"body": b'{"data": [{"id": "m"}]}', "cut_after": 8},
        {"body": b'{"data": [{"id": "m"}]}', "cut_after": 8, "framing": "chunked"},
        {"body": b"not compressed", "headers": {"Content-Encoding": "gzip"}},
        {"raw": b"nonsense\r\n\r\n"},
        {"raw": b""},
        {"reset": True, "raw": b"HTTP/1.1 200 OK\r\n"},
    ],
)
def test_a_provider_that_answers_badly_offers_nothing(provider, answer):
    provider.answers(**answer)
    assert offered(provider.url) == []


def test_a_list_may_come_in_chunks_and_compressed(provider):
    body = gzip.compress(json.dumps({"data": [{"id": "m" * 100}] * 500}).encode())
    provider.answers(body=body, framing="chunked", headers={"Content-Encoding": "gzip"})
    assert len(offered(provider.url)) == 500


def test_a_redirect_is_not_followed(provider):
    with ScriptedProvider() as other:
        other.answers(body={"data": [{"id": "m"}]})
        provider.answers(status=302, headers={"Location": f"{other.url}/models"}, body=b"")
        assert offered(provider.url) == []
        assert other.seen == []


@pytest.mark.parametrize(
    "url",
    [f"http://127.0.0.1:{refusing_port()}/v1", "http://169.254.169.254/v1", "http://127.1/v1", "http://[fe80::1]/v1"],
    ids=["refusing", "metadata", "short", "link-local"],
)
def test_a_provider_that_may_not_or_cannot_be_asked_offers_nothing(url):
    assert offered(url) == []


def told(url):
    """What an administrator is told who tests the connection."""
    with pytest.raises(ProviderError) as failure:
        ask_for_models(TRANSPORT, url=url, auth_method="bearer", credential="sk-1234")
    return failure.value.message


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"http://127.0.0.1:{refusing_port()}/v1", "could not be reached: it refused the connection."),
        ("http://nowhere.invalid/v1", "could not be reached: its host name cannot be resolved."),
        (f"https://127.0.0.1:{refusing_port()}/v1", "could not be reached: it refused the connection."),
    ],
    ids=["refusing", "unknown", "refusing TLS"],
)
def test_why_it_is_not_reached_is_said_as_requests_say_it(url, words):
    assert told(url) == f"The provider {words}"


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "refused the credential"), (403, "refused the credential"), (404, "check the URL"), (500, "status 500")],
)
def test_what_an_answer_that_is_no_list_points_at(provider, status, words):
    provider.answers(status=status)
    assert words in told(provider.url)


@pytest.mark.parametrize("credential", ["sk\r\nX-Evil: 1", "sk-schlüssel-\u20ac"])
def test_a_credential_that_cannot_be_sent_asks_nobody(provider, credential):
    assert offered(provider.url, credential=credential) == []
    assert provider.seen == []
