"""Clients of a gateway with few threads, which send and read slowly."""

import socket
from contextlib import ExitStack

from tests.support.running import RunningGateway
from tests.support.world import World

THREADS = 8
LIMIT = 2  # seconds that a client may stall


def connect(gateway: RunningGateway, resources: ExitStack, receive_buffer: int = 0) -> socket.socket:
    sock = resources.enter_context(socket.socket())
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(20)
    sock.connect(("127.0.0.1", gateway.port))
    return sock


def answer(sock: socket.socket) -> bytes:
    """Everything that the server says until it closes."""
    text = b""
    while data := sock.recv(65536):
        text += data
    return text


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "\r\n"]).encode()


def work_head(world: World, *lines: str) -> bytes:
    return head(
        "POST /work HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {world.key}",
        "Content-Type: application/json",
        *lines,
    )


def request(world, number):
    body = {"model": world.model, "messages": [{"role": "user", "content": f"question {number}"}]}
    return {"json": body, "headers": {"Authorization": f"Bearer {world.key}"}, "timeout": 30}
