"""Socket time-outs that the kernel enforces."""

import socket
import ssl
import struct


def bound_waits(sock: socket.socket, *, receive: float | None = None, send: float | None = None) -> None:
    """Make reads and writes of a blocking socket raise BlockingIOError after so many seconds of waiting.

    Python's own time-outs call poll() before every read and write, and gunicorn's setblocking() resets them. They
    are used, and raise TimeoutError, where the kernel's have no effect: gevent's sockets never block, and TLS retries
    when the kernel gives up.
    """
    if type(sock).__module__.startswith("gevent") or isinstance(sock, ssl.SSLSocket):
        sock.settimeout(receive or send)
        return
    sock.settimeout(None)
    for option, seconds in ((socket.SO_RCVTIMEO, receive), (socket.SO_SNDTIMEO, send)):
        if seconds is not None:
            whole = int(seconds)
            sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", whole, int((seconds - whole) * 1e6)))
