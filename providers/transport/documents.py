"""Fetches a small document from an address that an administrator has named: without redirects, and within bounds."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from urllib.parse import SplitResult, urlsplit

from providers.transport.provider_response import explain_failure
from providers.transport.transport import RefusedAddress, connect_checked, tls_context

OK = 200
HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "language-model-gateway",
}


class DocumentUnavailable(Exception):
    """There is no document; the message says why."""


def fetch_document(url: str, *, networks: str, seconds: float, max_bytes: int) -> bytes:
    """The body of a response with status 200 to GET; all of it has to arrive in so many seconds.

    Raises DocumentUnavailable.
    """
    deadline = time.monotonic() + seconds
    try:
        document = _fetch(urlsplit(url), networks, deadline, max_bytes)
    except RefusedAddress as refused:
        raise DocumentUnavailable(f"{url} is not called: {refused}") from None
    except (OSError, HTTPException, ValueError) as error:
        if time.monotonic() < deadline and not isinstance(error, TimeoutError):
            raise DocumentUnavailable(f"{url} cannot be read: {explain_failure(error)}") from None
    else:
        if time.monotonic() < deadline:
            return document
    raise DocumentUnavailable(f"{url} did not answer completely within {seconds:.0f} s")


def _fetch(url: SplitResult, networks: str, deadline: float, max_bytes: int) -> bytes:
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    sock = connect_checked(host, port, timeout=max(deadline - time.monotonic(), 0.001), networks=networks)
    with sock:
        if url.scheme != "https":
            with _cut_off(sock, deadline):
                return _get(sock, url, max_bytes)
        with (
            tls_context().wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False) as secure,
            _cut_off(secure, deadline),
        ):
            secure.do_handshake()
            return _get(secure, url, max_bytes)


@contextmanager
def _cut_off(sock: socket.socket, deadline: float) -> Iterator[None]:
    """Inside, the connection ends at the deadline: time-outs of sockets count from the last byte, however slow."""

    def cut_off() -> None:
        with suppress(OSError):
            # The base class's method: an SSLSocket's would tear down the TLS state that the reader uses.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(max(deadline - time.monotonic(), 0.0), cut_off)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _get(sock: socket.socket, url: SplitResult, max_bytes: int) -> bytes:
    connection = HTTPConnection(url.hostname or "")
    connection.sock = sock
    target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    connection.request("GET", target, headers={"Host": url.netloc, **HEADERS})
    response = connection.getresponse()
    if response.status != OK:
        raise DocumentUnavailable(f"{url.geturl()} answered with status {response.status}")
    document = response.read(max_bytes + 1)
    if len(document) > max_bytes:
        raise DocumentUnavailable(f"{url.geturl()} is larger than {max_bytes:,} bytes")
    return document
