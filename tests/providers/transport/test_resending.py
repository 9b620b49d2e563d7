"""A request is sent again only where the provider certainly did not receive it."""

import select
import socket
import threading
import time

import pytest

from gateway_project.errors import ProviderError
from providers.transport.calls import Call, End, Interrupted
from providers.transport.provider_response import NotReceived
from providers.transport.transport import ProviderRequest
from tests.support.provider import NO_LINGER
from tests.support.providers.asking import PATIENCE, ask, new_call

pytestmark = pytest.mark.either_store


class OneConnection:
    """Providers' ends of connections, in the hands of the test: each request is answered by hand."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"

    def serve(self):
        """Accept a connection and answer one request on it; the connection stays open."""
        self.listener.settimeout(10)
        self.socket, _ = self.listener.accept()
        self.socket.recv(65536)
        self.socket.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.socket.close()
        self.listener.close()


class Crossing(Call):
    """A call during which something happens after the connection was chosen and before the request is written."""

    def __init__(self, happens):
        super().__init__(client=None, total_seconds=5)
        self.happens = happens

    def attach(self, sock):
        super().attach(sock)
        self.happens()


def kept(transport, far):
    """Let the transport keep a connection to this provider."""
    serving = threading.Thread(target=far.serve)
    serving.start()
    ask(transport, far.url)
    serving.join()


@pytest.mark.parametrize("size", [10, 30_000_000], ids=["written whole", "cut short"])
def test_a_close_that_crosses_the_request_proves_that_nobody_received_it(transport, size):
    with OneConnection() as far:
        kept(transport, far)
        with pytest.raises(NotReceived) as caught:
            transport.send(ProviderRequest(far.url, bytes(size)), PATIENCE, Crossing(far.socket.close))
        assert not caught.value.may_have_worked


def test_a_reset_that_crosses_the_request_proves_it_too(transport):
    with OneConnection() as far:
        kept(transport, far)
        closing = threading.Thread(target=close_when_readable, args=[far.socket])
        closing.start()
        with pytest.raises(NotReceived):
            ask(transport, far.url)
        closing.join()


def close_when_readable(far):
    """What is in the buffer is not read: the kernel sends RST."""
    select.select([far], [], [])
    far.close()


@pytest.mark.long
def test_a_reset_by_a_provider_that_worked_on_the_request_proves_nothing(transport):
    with OneConnection() as far:
        kept(transport, far)

        def read_and_reset():
            far.socket.recv(65536)
            time.sleep(0.3)
            far.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            far.socket.close()

        reading = threading.Thread(target=read_and_reset)
        reading.start()
        with pytest.raises(ProviderError) as caught:
            ask(transport, far.url)
        reading.join()
        assert type(caught.value) is ProviderError


@pytest.mark.long
def test_a_provider_that_read_half_of_a_request_is_not_sent_it_again(transport):
    with OneConnection() as far:
        kept(transport, far)

        def read_half():
            far.socket.recv(50_000)
            time.sleep(0.3)
            far.socket.close()

        reading = threading.Thread(target=read_half)
        reading.start()
        with pytest.raises(ProviderError) as caught:
            transport.send(ProviderRequest(far.url, bytes(100_000)), PATIENCE, new_call())
        reading.join()
        assert type(caught.value) is ProviderError


def test_a_call_that_was_ended_is_not_sent_again(transport):
    with OneConnection() as far:
        kept(transport, far)
        call = Crossing(lambda: call.interrupt(End.CLIENT_CLOSED))
        with pytest.raises(Interrupted):
            ask(transport, far.url, call)
