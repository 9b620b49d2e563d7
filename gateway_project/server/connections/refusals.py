"""Errors that are answered before a request has a thread, or that gunicorn itself finds."""

import contextlib
import socket

from gunicorn import util

from gateway_project.errors import GatewayError, ServiceUnavailable
from gateway_project.server.connections.logins import TOO_MANY_LOGINS, is_login, is_whole
from gateway_project.server.http_delivery import REASONS, error_response
from gateway_project.server.request_ids import new_request_id

MAX_LOGIN_BYTES = 16 * 1024  # a longer one gets a thread


def send_error(client: socket.socket, error: GatewayError) -> None:
    """Send the gateway's error document, as far as it can be written without waiting."""
    answer = error_response(error, new_request_id())
    assert isinstance(answer.body, bytes)  # an error response is never a stream
    headers = [("Connection", "close"), *answer.headers]
    lines = [f"HTTP/1.1 {REASONS[answer.status]}", *(f"{name}: {value}" for name, value in headers)]
    with contextlib.suppress(OSError):
        util.write_nonblock(client, "\r\n".join([*lines, "\r\n"]).encode("latin-1") + answer.body)


def refuse_login(client: socket.socket) -> bool:
    """Refuse what a new connection has sent if that is a whole login; False if it is none, or not here yet.

    The login is read, so that closing does not reset the connection.
    """
    try:
        data = client.recv(MAX_LOGIN_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return False
    if not (is_login(data) and is_whole(data)):
        return False
    with client:
        client.recv(len(data))
        send_error(client, ServiceUnavailable(TOO_MANY_LOGINS, retry_after=1))
    return True
