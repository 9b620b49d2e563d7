"""The way to providers: kept connections, checked addresses, and not one surprise on the wire."""

import socket
import threading
import time

import pytest

from gateway_project.errors import ProviderError, ProviderTimeout, UnusableAnswer
from providers.transport.calls import End, Interrupted
from providers.transport.transport import ProviderRequest, Transport, connect_checked
from tests.support.pace import patience
from tests.support.provider import ScriptedProvider, refusing_port
from tests.support.providers.asking import PATIENCE, ask, new_call

pytestmark = pytest.mark.either_store


@pytest.fixture
def provider():
    with ScriptedProvider() as running:
        yield running


def url_of(provider, path="/v1/chat/completions"):
    return f"http://127.0.0.1:{provider.port}{path}"


def test_a_request_arrives_with_our_headers_and_no_others(provider, transport):
    ask(transport, url_of(provider, "/v1/x?y=1"), Authorization="Bearer sk")
    seen = provider.wait_for(1)[0]
    assert (seen.method, seen.path, seen.body) == ("POST", "/v1/x?y=1", b'{"model": "m"}')
    assert [name for name, _ in seen.raw_headers] == [
        "Host", "Content-Type", "Accept", "Accept-Encoding", "User-Agent", "Content-Length", "Authorization",
    ]  # fmt: skip
    assert seen.headers["host"] == f"127.0.0.1:{provider.port}"
    assert seen.headers["accept-encoding"] == "identity"


def test_the_credential_in_a_url_goes_nowhere(provider, transport):
    ask(transport, f"http://user:secret@127.0.0.1:{provider.port}/v1")
    seen = provider.wait_for(1)[0]
    assert seen.headers["host"] == f"127.0.0.1:{provider.port}"
    assert "authorization" not in seen.headers


def test_the_environment_has_no_say(provider, transport, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{refusing_port()}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    ask(transport, url_of(provider))
    assert transport.session().get(url_of(provider), timeout=5).status_code == 200
    assert all("authorization" not in seen.headers for seen in provider.wait_for(2))


def test_a_redirect_is_an_answer_and_nobody_follows_it(provider, transport):
    with ScriptedProvider() as other:
        provider.answers(status=307, headers={"Location": other.url}, body=b"")
        response = transport.send(ProviderRequest(url_of(provider), b"{}"), PATIENCE, new_call())
        assert (response.status, response.read()) == (307, b"")
        assert other.seen == []


def test_connections_are_kept(provider, transport):
    for _ in range(3):
        ask(transport, url_of(provider))
    assert [seen.connection for seen in provider.wait_for(3)] == [1, 1, 1]


def test_a_connection_is_never_shared_between_origins(provider, transport):
    with ScriptedProvider() as other:
        for _ in range(2):
            ask(transport, url_of(provider))
            ask(transport, url_of(other))
        assert (len(provider.seen), len(other.seen)) == (2, 2)


@pytest.mark.parametrize("answer", [{"close_connection": True}, {"framing": "close"}])
def test_an_announced_goodbye_ends_the_connection(provider, transport, answer):
    provider.answers(**answer)
    for _ in range(2):
        ask(transport, url_of(provider))
    assert [seen.connection for seen in provider.wait_for(2)] == [1, 2]


@pytest.mark.long
def test_a_connection_that_went_stale_is_replaced_and_the_request_sent_once(provider, transport):
    provider.answers(close_connection="unannounced")
    ask(transport, url_of(provider))
    time.sleep(0.3)
    assert b"choices" in ask(transport, url_of(provider))
    assert [seen.connection for seen in provider.wait_for(2)] == [1, 2]


def test_a_new_connection_without_an_answer_is_not_asked_again(provider, transport):
    provider.answers(raw=b"")
    with pytest.raises(ProviderError, match="without an answer"):
        ask(transport, url_of(provider))
    assert len(provider.seen) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "answer",
    [{"raw": b""}, {"raw": b"", "delay": 0.4}, {"raw": b"HTTP/1.1 200 OK\r\nContent-", "reset": True}],
    ids=["at once", "after a while", "in the middle of its headers"],
)
def test_a_provider_that_may_have_worked_on_a_request_is_not_asked_again(provider, transport, answer):
    provider.answers().answers(**answer)
    ask(transport, url_of(provider))
    with pytest.raises(ProviderError):
        ask(transport, url_of(provider))
    assert [seen.connection for seen in provider.wait_for(2)] == [1, 1]
    assert len(provider.seen) == 2


def test_connections_close_after_a_while(provider, transport):
    ask(transport, url_of(provider))
    transport.close_idle(100)
    ask(transport, url_of(provider))
    transport.close_idle(-1)
    ask(transport, url_of(provider))
    assert [seen.connection for seen in provider.wait_for(3)] == [1, 1, 2]


def test_an_answer_that_was_not_read_gives_no_connection_back(provider, transport):
    provider.answers(oversize=90_000)
    transport.send(ProviderRequest(url_of(provider), b"{}"), PATIENCE, new_call()).close()
    ask(transport, url_of(provider))
    assert [seen.connection for seen in provider.wait_for(2)] == [1, 2]


LATE = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"poisoned": 1}'


def talkative(listener, spoke):
    """Answers one request, and says more than it was asked a moment later; then serves as it should."""
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    time.sleep(0.05)
    connection.sendall(LATE)
    spoke.set()
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def test_what_a_provider_says_unasked_is_nobodys_answer(transport):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=talkative, args=[listener, spoke := threading.Event()], daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        assert ask(transport, url) == b"{}"
        assert spoke.wait(30)
        assert ask(transport, url) == b"{}"


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("http://127.0.0.1:1/a b", {}),
        ("http://127.0.0.1:1/ä", {}),
        ("http://127.0.0.1:1/a?b=c d", {}),
        ("http://127.0.0.1:1/", {"Authorization": "Bearer a\r\nX-Evil: 1"}),
        ("http://127.0.0.1:1/", {"Authorization": "Bearer a\nX-Evil: 1"}),
        ("http://127.0.0.1:1/", {"Authorization": "Bearer a\rX-Evil: 1"}),
        ("http://127.0.0.1:1/", {"x-api-key": "a\0b"}),
        ("http://127.0.0.1:1/", {"x-api-key": "schlüssel"}),
        ("http://127.0.0.1:1/", {"x-api-key\r\nX-Evil": "1"}),
    ],
)
def test_nothing_in_a_url_or_credential_can_begin_another_header(transport, url, headers):
    with pytest.raises(ProviderError, match="cannot be sent") as caught:
        ask(transport, url, **headers)
    assert "Evil" not in caught.value.message


def test_line_breaks_in_a_url_break_no_line(provider, transport):
    ask(transport, url_of(provider, "/v1\r\nX-Evil: 1".replace(" ", "")))
    assert "x-evil" not in provider.wait_for(1)[0].headers


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "0.0.0.0", "[::]"]
)
def test_metadata_and_link_local_addresses_are_never_called(transport, host):
    begun = time.monotonic()
    with pytest.raises(ProviderError, match="does not call"):
        ask(transport, f"http://{host}/latest/meta-data")
    assert time.monotonic() - begun < patience(0.5)


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "017700000001"])
def test_a_number_in_disguise_is_not_called(provider, transport, host):
    with pytest.raises(ProviderError, match="does not call|host name"):
        ask(transport, f"http://{host}:{provider.port}/")
    assert provider.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
def test_private_addresses_are_not_called_where_only_public_ones_are(provider, host):
    public = Transport(networks="public", heartbeat_seconds=1)
    with pytest.raises(ProviderError, match="does not call"):
        ask(public, f"http://{host}:{provider.port}/")
    with pytest.raises(Exception, match="not a public address"):
        public.session().get(f"http://{host}:{provider.port}/", timeout=2)
    assert provider.connections == 0


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(provider):
    sock = connect_checked("localhost", provider.port, timeout=1, networks="any")
    with sock:
        assert sock.getpeername()[0] in ("127.0.0.1", "::1")


def test_nobody_listening_is_told(transport):
    with pytest.raises(ProviderError, match="refused the connection"):
        ask(transport, f"http://127.0.0.1:{refusing_port()}/")


def test_an_unknown_host_is_told(transport):
    with pytest.raises((ProviderError, ProviderTimeout)):  # by what the machine's name server says, if anything
        ask(transport, "http://nosuch.invalid/")


@pytest.mark.long
def test_a_connection_that_is_not_accepted_is_a_time_out(transport):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        begun = time.monotonic()
        with pytest.raises(ProviderTimeout, match="did not accept"):
            ask(transport, f"http://127.0.0.1:{listener.getsockname()[1]}/")
        assert time.monotonic() - begun < patience(2)
        for filler in fillers:
            filler.close()


@pytest.mark.parametrize("seconds", [0, 0.1])
def test_a_call_that_ends_before_a_connection_is_accepted_has_used_up_its_own_time(transport, seconds):
    """Otherwise clients with little time would open the provider's circuit breaker for all others."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        call = new_call(seconds)
        with pytest.raises(ProviderTimeout, match="did not complete its answer in time"):
            ask(transport, f"http://127.0.0.1:{listener.getsockname()[1]}/", call)
        assert call.end is End.TOTAL
        for filler in fillers:
            filler.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "error"),
    [
        (End.CLIENT_CLOSED, Interrupted),
        (End.STOPPING, Interrupted),
        (End.FIRST_BYTE, ProviderTimeout),
        (End.IDLE, ProviderTimeout),
        (End.TOTAL, ProviderTimeout),
    ],
)
@pytest.mark.parametrize("answer", [{"silent": True}, {"stream": ["data: a\n\n"] * 2, "silent_after": 1}])
def test_a_call_ended_from_outside_wakes_at_once_and_says_why(provider, transport, end, error, answer):
    provider.answers(**answer)
    call = new_call()
    threading.Timer(0.2, call.interrupt, [end]).start()
    begun = time.monotonic()
    with pytest.raises(error) as caught:
        ask(transport, url_of(provider), call)
    assert time.monotonic() - begun < patience(1)
    assert end.value in str(caught.value)
    assert provider.wait_for(1)[0].wait_closed() < patience(1)


def test_a_call_that_has_ended_sends_nothing(provider, transport):
    call = new_call()
    call.interrupt(End.CLIENT_CLOSED)
    with pytest.raises(Interrupted):
        ask(transport, url_of(provider), call)
    assert provider.seen == []


def test_a_truncated_answer_is_an_error_and_its_connection_gone(provider, transport):
    provider.answers(cut_after=5)
    with pytest.raises(ProviderError, match="before the end"):
        ask(transport, url_of(provider))
    ask(transport, url_of(provider))
    assert [seen.connection for seen in provider.wait_for(2)] == [1, 2]


def test_an_answer_over_the_limit_is_an_error(provider, transport):
    provider.answers(oversize=PATIENCE.response_bytes + 1)
    with pytest.raises(UnusableAnswer, match="longer than"):
        ask(transport, url_of(provider))


def test_many_threads_get_each_their_own_answer(provider, transport):
    def one(number, answers):
        body = b'{"messages": [{"role": "user", "content": "nonce-%d-"}]}' % number
        answers[number] = transport.send(ProviderRequest(url_of(provider), body), PATIENCE, new_call(20)).read()

    answers = {}
    threads = [threading.Thread(target=one, args=[number, answers]) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(b"nonce-%d-" % number in answer for number, answer in answers.items())
    assert len(answers) == 100
