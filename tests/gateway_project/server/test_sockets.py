"""Who waits for a socket waits so long and no longer, whatever the socket is."""

import time
from contextlib import ExitStack

import pytest

from gateway_project.server.sockets import bound_waits
from tests.support.certificates import encrypted


def test_tls_does_not_wait_for_ever_where_the_kernel_would_not(tmp_path):
    with ExitStack() as resources:
        server, client = encrypted(resources, tmp_path / "both.pem")
        bound_waits(client, receive=0.1, send=0.1)
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            client.recv(1)
        with pytest.raises(TimeoutError):
            client.sendall(b"x" * 10**7)
        assert time.monotonic() - begun < 5
        assert server.recv(1) == b"x"
