"""Nobody makes the gateway call an address of its own network: listeners on loopback hear nothing."""

import base64
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.errors import ValidationError
from providers.models import Provider
from providers.transport import transport
from providers.transport.resolver import Resolver
from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.management import PASSWORD, Client, new_admin
from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.running import RunningGateway, Store
from tests.support.sinks import DISGUISED, PRIVATE, Sinks, connections, sinks
from tests.support.thoroughness import number_of
from tests.support.world import World

pytestmark = pytest.mark.either_store

SECRET = "sk-secret-of-the-provider"
# Each is loopback to some reader of URLs; {port} is that of the listeners.
SPELLINGS = {
    "plain": "http://127.0.0.1:{port}/",
    "another of its network": "http://127.1.2.3:{port}/",
    "name": "http://localhost:{port}/",
    "name with a dot": "http://localhost.:{port}/",
    "name in capitals": "http://LOCALHOST:{port}/",
    "name below it": "http://x.localhost:{port}/",
    "this machine's name": "http://{hostname}:{port}/",
    "IPv6": "http://[::1]:{port}/",
    "IPv6 in full": "http://[0000:0000:0000:0000:0000:0000:0000:0001]:{port}/",
    "IPv6 with zone": "http://[::1%25lo]:{port}/",
    "unspecified": "http://0.0.0.0:{port}/",
    "unspecified IPv6": "http://[::]:{port}/",
    "zero": "http://0:{port}/",
    "mapped": "http://[::ffff:127.0.0.1]:{port}/",
    "mapped in hexadecimal": "http://[::ffff:7f00:1]:{port}/",
    "compatible": "http://[::127.0.0.1]:{port}/",
    "NAT64": "http://[64:ff9b::127.0.0.1]:{port}/",
    "6to4": "http://[2002:7f00:1::]:{port}/",
    "Teredo": "http://[2001:0:7f00:1::]:{port}/",
    "ISATAP": "http://[2607:f8b0::5efe:127.0.0.1]:{port}/",
    "decimal": "http://2130706433:{port}/",
    "octal": "http://0177.0.0.1:{port}/",
    "long octal": "http://017700000001:{port}/",
    "hexadecimal": "http://0x7f000001:{port}/",
    "hexadecimal parts": "http://0x7f.0.0.1:{port}/",
    "two parts": "http://127.1:{port}/",
    "three parts": "http://127.0.1:{port}/",
    "trailing dot": "http://127.0.0.1.:{port}/",
    "leading zeros": "http://127.0.0.01:{port}/",
    "beyond 32 bits": "http://4294967296:{port}/",
    "full-width digits": "http://１２７.０.０.１:{port}/",
    "circled digits": "http://①②⑦.⓪.⓪.①:{port}/",
    "ideographic dots": "http://127。0。0。1:{port}/",
    "percent escapes": "http://%31%32%37.0.0.1:{port}/",
    "escaped dot": "http://127%2e0.0.1:{port}/",
    "user": "http://api.openai.com@127.0.0.1:{port}/",
    "user and password": "http://api.openai.com:80@127.0.0.1:{port}/",
    "fragment": "http://127.0.0.1:{port}#@api.openai.com/",
    "backslash": "http://127.0.0.1:{port}\\@api.openai.com/",
    "question mark": "http://127.0.0.1:{port}?@api.openai.com/",
    "tab": "http://127.0.\t0.1:{port}/",
    "line break": "http://127.0.0.1:{port}/\r\nHost: x",
    "space before": " http://127.0.0.1:{port}/",
    "no slashes": "http:127.0.0.1:{port}/",
    "one slash": "http:/127.0.0.1:{port}/",
    "three slashes": "http:///127.0.0.1:{port}/",
    "no scheme": "//127.0.0.1:{port}/",
    "https": "https://127.0.0.1:{port}/",
    "gopher": "gopher://127.0.0.1:{port}/_x",
    "dict": "dict://127.0.0.1:{port}/x",
    "ftp": "ftp://127.0.0.1:{port}/",
    "websocket": "ws://127.0.0.1:{port}/",
    "scheme and plus": "http+unix://127.0.0.1:{port}/",
    "file": "file:///etc/passwd",
    "data": "data:text/plain,x",
}
METADATA = ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "100.100.100.200", "2852039166",
            "0xa9fea9fe", "0251.0376.0251.0376", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]"]  # fmt: skip
ROUTING = (
    "api_base", "base_url", "baseUrl", "base_uri", "endpoint", "host", "hostname", "url", "uri", "proxy", "proxies",
    "http_proxy", "upstream", "target", "server", "azure_endpoint", "custom_host", "api_host", "openai_api_base",
    "litellm_params", "litellm_credential_name", "user_config", "model_list", "router_settings", "fallbacks",
    "context_window_fallbacks", "extra_body", "extra_headers", "headers", "default_headers", "api_key", "apiKey",
    "organization", "api_version", "deployment_id", "custom_llm_provider", "vertex_credentials", "aws_endpoint",
    "region_name", "credential", "provider_url", "callback_url", "webhook", "metadata[url]", "config[base_url]",
)  # fmt: skip
ROUTING_HEADERS = (
    "Host", "X-Forwarded-Host", "X-Host", "X-Portkey-Custom-Host", "X-Portkey-Provider", "X-Portkey-Config",
    "X-Base-Url", "X-Api-Base", "X-Upstream", "X-Original-Url", "X-Rewrite-Url", "X-Litellm-Api-Base", "X-Target",
    "Forwarded", "Proxy", "X-Gitlab-Host-Override", "OpenAI-Base-Url", "Destination", "X-Svc-Url",
)  # fmt: skip


@pytest.fixture
def listening() -> Iterator[Sinks]:
    with sinks() as listening:
        yield listening


@pytest.fixture(scope="module")
def public_only(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose providers are on the Internet."""
    with RunningGateway(store, tmp_path_factory.mktemp("ssrf"), GATEWAY_PROVIDER_NETWORKS="public") as running:
        yield running


@pytest.fixture
def public_world(public_only: RunningGateway, orm: None) -> Iterator[World]:
    with ExitStack() as resources:
        yield World(public_only, resources)


@promise("V-O2, V-B1, V-N1: no spelling of a private address is called", target="0 connections on 3 listeners")
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_no_spelling_of_loopback_is_called(public_world, listening, spelling):
    url = spelling.format(port=listening.port, hostname=socket.gethostname())
    try_provider(public_world, url)
    assert listening.heard == []


@promise("V-O2: nor is one that a guardrail names", target="0 connections on 3 listeners")
@pytest.mark.parametrize("spelling", (PRIVATE | DISGUISED).values(), ids=PRIVATE | DISGUISED)
def test_no_guardrail_calls_loopback(public_world, listening, spelling):
    try:
        answer = ask_with_guardrail(public_world, spelling.format(port=listening.port))
    except ValidationError:
        return
    assert answer.status_code in (502, 503, 504), answer.text
    assert listening.heard == []


def test_a_guardrail_that_may_call_loopback_is_heard(world, listening):
    ask_with_guardrail(world, PRIVATE["plain http"].format(port=listening.port))
    assert listening.heard


def ask_with_guardrail(world: World, url: str) -> requests.Response:
    """The answer to a request that a guardrail at this URL has to let through; ValidationError if none may be there."""
    world.allow()
    world.provider()
    parameters = {"url": url, "timeoutSeconds": 1}
    row = create_guardrail(name=world.name("remote"), type="http", direction="request", parameters=parameters,
                           applies_to={"users": [world.user.pk]})  # fmt: skip
    world.settle()
    try:
        return world.ask()
    finally:
        delete_guardrail(row)


@promise("V-O2: metadata services are not called from any network", target="refused by the address alone")
@pytest.mark.parametrize("host", METADATA)
def test_no_spelling_of_a_metadata_address_is_called(world, host):
    """Nothing listens there in a test, so what refuses has to say that it is the address."""
    url = f"http://{host}/latest/meta-data/iam"
    refusal = try_provider(world, url)
    assert refusal.status_code == 400, refusal.text
    assert "reserved address" in refusal.text or "address in an unusual form" in refusal.text
    assert refusal.elapsed.total_seconds() < patience(0.5)


@pytest.fixture(scope="session")
def connected() -> list[object]:
    """The addresses to which this process has tried to connect."""
    return connections()


@promise("V-O2: metadata services are not called from any network", target="0 connections are begun")
@pytest.mark.parametrize("networks", ["any", "public"])
@pytest.mark.parametrize("host", METADATA)
def test_no_connection_to_a_metadata_address_is_begun(connected, host, networks):
    """Even if one was saved as a provider's address, as names that come to lead there are."""
    before = len(connected)
    with pytest.raises(transport.RefusedAddress):
        transport.connect_checked(host, 80, timeout=2, networks=networks)
    assert connected[before:] == []


def test_a_connection_that_is_begun_is_noticed(connected, listening):
    with transport.connect_checked("127.0.0.1", listening.port, timeout=2, networks="any"):
        assert connected[-1] == ("127.0.0.1", listening.port)


def try_provider(world: World, url: str) -> requests.Response:
    """Add a provider as an admin would, and have it asked for work and for its models: the answer that refuses it."""
    admin = Client(world.gateway.url).as_user(user := new_admin())
    formats = {row["name"]: row["id"] for row in admin.rows("/formats/")}
    response = admin.post("/providers/", name=world.name("ssrf"), url=url, authMethod="bearer", apiKey=SECRET,
                          models=[world.model], formatId=formats["openai"])  # fmt: skip
    if response.status_code == 400:
        return response
    assert response.status_code == 201, response.text
    world.allow()
    world.settle()
    answer = world.ask()
    assert answer.status_code in (502, 504), answer.text
    assert "root:" not in answer.text
    fetch_models(world, user.username, response.headers["ProviderId"])
    return answer


def fetch_models(world: World, username: str, provider_id: str) -> None:
    """The button of the console that asks a provider for its models."""
    session, base = requests.Session(), f"{world.gateway.url}/admin"
    session.get(f"{base}/login/", timeout=30)

    def send(path: str, **fields: str) -> requests.Response:
        form = {"csrfmiddlewaretoken": session.cookies["csrftoken"]} | fields
        return session.post(f"{base}/{path}", data=form, timeout=30, allow_redirects=False)

    assert send("login/", username=username, password=PASSWORD).status_code == 302
    response = send(f"providers/provider/{provider_id}/fetch-models/", post="yes")
    assert response.status_code == 302, "it offers models to choose from"
    assert Provider.objects.get(pk=provider_id).models.count() == 1


@promise("V-L3, V-L4: no field of a body chooses the destination or the credential", target="0 connections elsewhere")
@pytest.mark.parametrize("path", ["/work", "/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_no_field_of_a_body_chooses_the_destination(world, listening, path, figure):
    world.allow()
    provider = world.provider()
    elsewhere = f"http://127.0.0.1:{listening.port}/v1"
    for name in ROUTING:
        for value in (elsewhere, {"base_url": elsewhere, "api_base": elsewhere}, [{"api_base": elsewhere}]):
            words = {"input": name} if "responses" in path else {"messages": [{"role": "user", "content": name}]}
            body = {"model": world.model, "max_tokens": 5, name: value} | words
            answer = world.post(body, path=path, headers={"X-Svc-Cache": "bypass"})
            assert answer.status_code in (200, 400), f"{body}: {answer.text}"
    assert listening.heard == []
    assert_ours(provider)
    figure(f"{len(ROUTING)} names, 3 forms of values")


@promise("V-P1, V-G1, V-L3: no header or query chooses the destination", target="0 connections elsewhere")
def test_no_header_and_no_query_chooses_the_destination(world, listening, figure):
    world.allow()
    provider = world.provider()
    host = f"127.0.0.1:{listening.port}"
    for value in (host, f"http://{host}/v1", json.dumps({"custom_host": f"http://{host}"})):
        for name in ROUTING_HEADERS:
            assert world.ask(headers={name: value, "X-Svc-Cache": "bypass"}).status_code in (200, 400, 404)
        for name in ROUTING:
            query = requests.Request("POST", "http://x/work", params={name: value}).prepare().path_url
            assert world.ask(path=query, headers={"X-Svc-Cache": "bypass"}).status_code in (200, 400)
    assert listening.heard == []
    assert_ours(provider)
    figure(f"{len(ROUTING_HEADERS)} headers, {len(ROUTING)} parameters")


def nesting(inner: st.SearchStrategy) -> st.SearchStrategy:
    return st.dictionaries(st.sampled_from(ROUTING), inner, min_size=1, max_size=3) | st.lists(inner, max_size=3)


NESTED = st.recursive(st.just("http://127.0.0.1:{port}/v1"), nesting, max_leaves=6)


@promise("V-L4: nor does one at any depth", target="0 connections elsewhere")
def test_no_nested_field_chooses_the_destination(world, listening):
    world.allow()
    provider = world.provider()

    @given(st.dictionaries(st.sampled_from(ROUTING), NESTED, min_size=1, max_size=4))
    @settings(max_examples=number_of(100))
    def attempt(fields: dict) -> None:
        document = json.loads(json.dumps(fields).replace("{port}", str(listening.port)))
        assert world.ask(body=document, headers={"X-Svc-Cache": "bypass"}).status_code in (200, 400)

    attempt()
    assert listening.heard == []
    assert_ours(provider)


def assert_ours(provider) -> None:
    assert provider.seen
    for request in provider.seen:
        assert request.path == "/v1/chat/completions"
        assert request.headers["host"] == f"127.0.0.1:{provider.port}"
        assert request.headers["authorization"] == f"Bearer {SECRET}"


@promise("V-N1: a redirect of a provider is not followed", target="0 connections, credential not sent")
@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
@pytest.mark.parametrize("header", ["Location", "Content-Location", "Refresh", "Link"])
def test_no_redirect_is_followed(world, listening, status, header):
    world.allow()
    target = f"http://127.0.0.1:{listening.port}/"
    provider = world.provider()
    provider.default.status = status
    provider.default.headers = {header: f"0;url={target}" if header == "Refresh" else target}
    assert world.ask().status_code == 502
    assert listening.heard == []


@promise("V-L20: a new address of a provider drops its credential", target="nothing sent there")
def test_another_origin_clears_the_credential(world, listening):
    world.allow()
    provider = world.provider()
    row = world.row(provider)
    admin = Client(world.gateway.url).as_user(new_admin())
    for url in (f"http://127.1.2.3:{listening.port}/v1", f"http://localhost:{listening.port}/v1"):
        assert admin.patch(f"/providers/{row.pk}/", url=url).status_code == 200
        world.settle()
        world.ask()
    assert listening.heard  # the new address was asked
    carriers = (SECRET.encode(), base64.b64encode(SECRET.encode()))
    assert not [heard for heard in listening.heard if any(carrier in heard for carrier in carriers)]


def lookup(host: str, port: int) -> tuple:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]


@promise("V-O2: a name is looked up once for each connection, and that address is called", target="1 lookup")
def test_a_name_that_changes_its_address_gains_nothing(listening, monkeypatch):
    answers = [[lookup("127.1.2.3", listening.port)], [lookup("127.0.0.1", listening.port)]]
    asked = []

    def rebind(host: str, port: int) -> list:
        asked.append(host)
        return answers.pop(0)

    monkeypatch.setattr(transport, "RESOLVER", Resolver(rebind))
    with transport.connect_checked("rebinding.example", listening.port, timeout=2, networks="any") as sock:
        assert sock.getpeername()[0] == "127.1.2.3"
    assert asked == ["rebinding.example"]


@promise("V-O2: a name with one private address is not called at all", target="0 connections")
@pytest.mark.parametrize("order", [1, -1])
def test_a_name_with_a_private_address_among_public_ones_is_not_called(listening, monkeypatch, order):
    mixed = [lookup("8.8.8.8", listening.port), lookup("127.0.0.1", listening.port)][::order]
    monkeypatch.setattr(transport, "RESOLVER", Resolver(lambda host, port: mixed))
    with pytest.raises(transport.RefusedAddress):
        transport.connect_checked("mixed.example", listening.port, timeout=2, networks="public")
    assert listening.heard == []
