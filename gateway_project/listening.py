"""Whether a port can be listened on, asked before anything is promised that needs it."""

import errno
import os
import socket
import time

from django.core.management.base import CommandError

HIGHEST_PORT = 65535
# A gateway that was killed leaves the port to workers that need a second to notice.
PATIENCE_SECONDS = 2.0


def refuse_taken(host: str, port: int, *, variable: str, command: str) -> None:
    """Raises CommandError saying which variable chooses another port where this one cannot be had."""
    if "LISTEN_FDS" in os.environ:  # systemd holds the port for us
        return
    problem = _problem(host, port)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while problem and problem.errno == errno.EADDRINUSE and time.monotonic() < deadline:
        time.sleep(0.1)
        problem = _problem(host, port)
    if problem is None:
        return
    if problem.errno == errno.EADDRINUSE:
        raise CommandError(f"Port {port} is taken: {variable}={_another(port)} {command}")
    raise CommandError(f"Cannot listen on port {port} of {host}: {problem.strerror}.")


def _problem(host: str, port: int) -> OSError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gunicorn does
            probe.bind(address)
    except OSError as problem:
        return problem
    return None


def _another(port: int) -> int:
    return port + 10 if port + 11 <= HIGHEST_PORT else port - 10
