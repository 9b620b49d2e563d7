"""Sends a flood of logins: python -m tests.support.login_flood PORT LOGINS ADDRESSES WAVES SECONDS [late].

With `late` the bodies follow when all heads are sent, as of programs that write them separately.

A wave begins every SECONDS, so that a gateway that refuses faster is not attacked more often. It is a process of its
own, so that it takes no time from the clients that are measured. It prints how often each status came.
"""

import json
import select
import socket
import sys
import time
from collections import Counter
from contextlib import suppress

ANSWER_SECONDS = 40


def flood(port: int, logins: int, addresses: int, *, is_late: bool) -> Counter[int]:
    """Send so many logins at once, from so many addresses; how often each status came, 0 where none did."""
    poller, socks, bodies = select.poll(), {}, {}
    for number in range(logins):
        sock = socket.socket()
        sock.bind((f"127.0.1.{number % addresses + 1}", 0))
        with suppress(OSError):
            sock.connect(("127.0.0.1", port))
            head, body = _login(number)
            sock.sendall(head if is_late else head + body)
            bodies[sock] = body
            poller.register(sock, select.POLLIN)
            socks[sock.fileno()] = sock
    for sock, body in bodies.items() if is_late else ():
        with suppress(OSError):  # it is refused already
            sock.sendall(body)
    statuses: Counter[int] = Counter({0: logins - len(socks)})
    while socks and (events := poller.poll(ANSWER_SECONDS * 1000)):
        for fileno, _ in events:
            poller.unregister(fileno)
            statuses[_answer(socks.pop(fileno))] += 1
    statuses[0] += len(socks)
    return +statuses


def status_of(text: bytes) -> int:
    """The status of a response; 0 if there is none."""
    return int(text[9:12]) if text.startswith(b"HTTP/1.1 ") else 0


def _answer(sock: socket.socket) -> int:
    with sock, suppress(OSError):
        return status_of(sock.recv(65536))
    return 0


def _login(number: int) -> tuple[bytes, bytes]:
    """Head and body."""
    attributes = {"grantType": "password", "userName": f"nobody-{number}", "password": "a wrong password"}
    body = json.dumps({"data": {"attributes": attributes}}).encode()
    head = "POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode(), body


if __name__ == "__main__":
    port, logins, addresses, waves, seconds = map(int, sys.argv[1:6])
    total: Counter[int] = Counter()
    for _ in range(waves):
        begun = time.monotonic()
        total += flood(port, logins, addresses, is_late="late" in sys.argv[6:])
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
    print(dict(total))
