"""How long a socket waits: left to the kernel."""

import socket
import ssl
import struct


def bound_waits(sock: socket.socket, *, receive: float | None = None, send: float | None = None) -> None:
    """Reads and writes of a blocking socket that wait longer than so many seconds raise BlockingIOError.

    Python's own time-outs ask poll() before every read and write, and gunicorn's setblocking() undoes them.
    Under gevent, whose sockets never block, and with TLS, which goes on waiting when the kernel does not, they are all
    there is: what is raised then is TimeoutError.
    """
    if type(sock).__module__.startswith("gevent") or isinstance(sock, ssl.SSLSocket):
        sock.settimeout(receive or send)
        return
    sock.settimeout(None)
    for option, seconds in ((socket.SO_RCVTIMEO, receive), (socket.SO_SNDTIMEO, send)):
        if seconds is not None:
            whole = int(seconds)
            sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", whole, int((seconds - whole) * 1e6)))
