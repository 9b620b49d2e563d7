"""TLS to providers: whom they are trusted by, and what all connections share."""

import socket
import ssl
import threading
import time
from contextlib import suppress

import pytest
import requests

from gateway_project.errors import ProviderError
from providers.transport.calls import AttemptTimes
from providers.transport.transport import ProviderRequest, Transport, tls_context
from tests.support.certificates import self_signed
from tests.support.providers.asking import PATIENCE, ask, new_call

pytestmark = pytest.mark.either_store


@pytest.fixture
def secure(tmp_path):
    """A TLS server that signed its certificate itself, for 127.0.0.1."""
    context = self_signed(tmp_path / "both.pem")
    received = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve_tls, args=[listener, context, received], daemon=True).start()
        yield f"https://localhost:{listener.getsockname()[1]}/", received


def serve_tls(listener, context, received):
    while True:
        try:
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) as wrapped:
                received.append(wrapped.recv(1000))
        except ssl.SSLError:
            continue
        except OSError:
            return


@pytest.mark.parametrize("variable", ["", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_certificate_that_nobody_vouches_for_is_refused(transport, secure, variable, monkeypatch, tmp_path):
    url, received = secure
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "both.pem"))
    with pytest.raises(ProviderError, match="No connection"):
        ask(transport, url, Authorization="Bearer sk-secret")
    assert received == []


@pytest.fixture
def trusted(tmp_path, monkeypatch):
    """Certificates of this server's kind are trusted, as a private authority of the machine's would be."""
    context = self_signed(tmp_path / "both.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "both.pem"))
    tls_context.cache_clear()
    yield context
    tls_context.cache_clear()


@pytest.fixture
def lasting_server(trusted):
    """A TLS server that answers every request of a connection, and the protocols of its connections."""
    connections = []
    trusted.set_alpn_protocols(["http/1.1"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(3):
            threading.Thread(target=serve_kept_tls, args=[listener, trusted, connections], daemon=True).start()
        yield f"https://localhost:{listener.getsockname()[1]}/", connections


def serve_kept_tls(listener, context, connections):
    with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as wrapped:
        connections.append(wrapped.selected_alpn_protocol())
        while wrapped.recv(1000):
            wrapped.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def test_connections_with_tls_are_kept_too(transport, lasting_server):
    url, connections = lasting_server
    assert [ask(transport, url) for _ in range(3)] == [b"{}"] * 3
    assert len(connections) == 1


def test_a_new_connection_tells_the_time_of_connecting_from_that_of_tls(transport, lasting_server):
    call = new_call()
    call.times = times = AttemptTimes()
    transport.send(ProviderRequest(lasting_server[0], b"{}"), PATIENCE, call).close()
    assert 0 < times.connect_begun < times.connected < times.tls_ended < times.first_byte


@pytest.mark.long
def test_a_silence_is_heard_through_tls_too(trusted):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve_a_pause, args=[listener, trusted], daemon=True).start()
        transport = Transport(networks="any", heartbeat_seconds=0.1)
        url = f"https://localhost:{listener.getsockname()[1]}/"
        for _ in range(2):  # a connection that is kept may be sent on for any time again
            response = transport.send(ProviderRequest(url, b"{}"), PATIENCE, new_call())
            pieces = list(response.pieces())
            response.close()
            assert (pieces[0], b"".join(pieces)) == (b"", b"{}")
        transport.close_idle(-1)


def serve_a_pause(listener, context):
    with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as wrapped:
        while wrapped.recv(1000):
            wrapped.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            time.sleep(0.35)
            wrapped.sendall(b"{}")


@pytest.mark.long
def test_the_certificates_are_read_once_for_all_connections(transport, lasting_server):
    url = lasting_server[0]
    with transport.session() as session:  # requests would have its own read into each connection's
        assert session.get(url, timeout=5).json() == {}
    first, second = (transport.send(ProviderRequest(url, b"{}"), PATIENCE, new_call()) for _ in range(2))
    assert first.source.context is second.source.context is tls_context()
    for response in (first, second):
        assert response.read() == b"{}"


def test_no_connection_changes_what_all_go_by(transport, lasting_server):
    url, protocols = lasting_server
    with transport.session() as session, suppress(requests.RequestException):
        session.get(url, timeout=5, verify=False)
    assert ask(transport, url) == b"{}"
    assert tls_context().verify_mode == ssl.CERT_REQUIRED
    assert tls_context().check_hostname
    tls_context().set_alpn_protocols(["other"])  # urllib3 does, for each connection, while others shake hands
    transport.close_idle(-1)
    assert ask(transport, url) == b"{}"
    assert protocols == ["http/1.1"] * 3


def test_whom_requests_trusts_is_trusted_whatever_the_machine_has(trusted):
    bundle = ssl.create_default_context(cafile=requests.certs.where()).get_ca_certs(binary_form=True)
    ours = tls_context().get_ca_certs(binary_form=True)
    assert len(bundle) > 100
    assert set(bundle) <= set(ours)


def test_a_name_that_the_certificate_does_not_have_is_refused(transport, lasting_server):
    with pytest.raises(ProviderError, match="No connection"):
        ask(transport, lasting_server[0].replace("localhost", "127.0.0.1"))
