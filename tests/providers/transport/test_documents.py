"""Documents from addresses that administrators name: within bounds of time and size, and from nowhere else."""

import socket
import ssl
import threading
import time

import pytest

from providers.transport.documents import DocumentUnavailable, fetch_document
from providers.transport.fetching import Bounds
from tests.support.certificates import self_signed
from tests.support.issuers import IssuerServer
from tests.support.pace import patience

pytestmark = pytest.mark.embedded

MAX_BYTES = 256 * 1024


@pytest.fixture
def server():
    with IssuerServer() as server:
        yield server


def fetch(url, *, seconds=5.0, networks="any"):
    return fetch_document(url, Bounds(seconds, MAX_BYTES, networks))


def refusal(url, **options):
    with pytest.raises(DocumentUnavailable) as refused:
        fetch(url, **options)
    return str(refused.value)


def test_a_document_is_read_whole(server):
    server.body = b"x" * MAX_BYTES
    assert fetch(f"{server.url}/keys?version=2") == server.body
    assert server.paths == ["/keys?version=2"]


def test_a_document_of_ten_megabytes_is_not_read(server):
    server.body = b"x" * 10 * 1024 * 1024
    assert "longer than 262144 bytes" in refusal(server.jwks_url)


def test_redirects_are_not_followed(server):
    server.status, server.headers = 302, {"Location": f"{server.url}/elsewhere"}
    assert "status 302" in refusal(server.jwks_url)
    assert server.paths == ["/keys"]


@pytest.mark.parametrize("status", [201, 204, 401, 404, 500])
def test_only_200_counts(server, status):
    server.status = status
    assert f"status {status}" in refusal(server.jwks_url)


@pytest.mark.long
def test_a_server_that_dribbles_is_cut_off(server):
    """Each byte comes within the time-out of the socket, and all of them would take a day."""
    server.body, server.piece_bytes, server.pause_seconds = b"x" * 100_000, 1, 0.2
    begun = time.monotonic()
    assert "did not complete its answer in time" in refusal(server.jwks_url, seconds=1.0)
    assert time.monotonic() - begun < patience(4)


@pytest.mark.long
def test_a_server_that_dribbles_its_headers_is_cut_off():
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def dribble():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not over.wait(0.2):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=dribble, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/keys"
        assert "did not complete its answer in time" in refusal(url, seconds=1.0)
        over.set()
        thread.join()


@pytest.mark.long
def test_a_silent_server_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert "did not complete its answer in time" in refusal(
            f"http://127.0.0.1:{listener.getsockname()[1]}/", seconds=1.0
        )


def test_an_address_of_metadata_is_not_called():
    assert "does not call" in refusal("http://169.254.169.254/keys")


def test_an_inner_address_is_not_called_where_settings_say_public(server):
    assert "does not call" in refusal(server.jwks_url, networks="public")
    assert server.paths == []


def test_a_closed_port_and_nonsense_are_reported(server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    assert "cannot be read" in refusal(url)


class TestOverTLS:
    @pytest.fixture
    def secure(self, server, tmp_path):
        context = self_signed(tmp_path / "server.pem")
        server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
        server.certificate = tmp_path / "server.pem"
        return server

    def test_a_certificate_that_nobody_vouches_for_is_refused(self, secure):
        assert "cannot be read" in refusal(f"https://localhost:{secure.http.server_port}/keys")

    def test_a_document_comes_over_tls(self, secure, monkeypatch):
        context = ssl.create_default_context(cafile=secure.certificate)
        monkeypatch.setattr("providers.transport.transport.tls_context", lambda: context)
        assert b"first" in fetch(f"https://localhost:{secure.http.server_port}/keys")
