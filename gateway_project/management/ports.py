"""Checks that a port is free before a command starts a server on it."""

import errno
import os
import socket
import time

from django.core.management.base import CommandError

MAX_PORT = 65535
# The workers of a gateway that was killed hold the port for up to a second longer.
WAIT_SECONDS = 2.0


def require_free_port(host: str, port: int, *, variable: str, command: str) -> None:
    """Raise CommandError, naming the variable that sets another port, if this one cannot be bound."""
    if "LISTEN_FDS" in os.environ:  # systemd has bound the port for us
        return
    problem = _bind_error(host, port)
    deadline = time.monotonic() + WAIT_SECONDS
    while problem and problem.errno == errno.EADDRINUSE and time.monotonic() < deadline:
        time.sleep(0.1)
        problem = _bind_error(host, port)
    if problem is None:
        return
    if problem.errno == errno.EADDRINUSE:
        raise CommandError(f"Port {port} is taken: {variable}={_suggested_port(port)} {command}")
    raise CommandError(f"Cannot listen on port {port} of {host}: {problem.strerror}.")


def _bind_error(host: str, port: int) -> OSError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gunicorn does
            probe.bind(address)
    except OSError as problem:
        return problem
    return None


def _suggested_port(port: int) -> int:
    return port + 10 if port + 11 <= MAX_PORT else port - 10  # the next port is the demonstration provider's
