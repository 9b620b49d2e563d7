"""python -m bench.path: the function calls of a cache hit and of a miss, as JSON.

With the same version of Python they are the same on every machine. One request after the other is served in this
process, on SQLite and without Redis. The first ones do what is done once and do not count; of those that count the
fewest calls do, since some do what is due now and then.
"""

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench.servers import start_standin

WARM_UP, TAKES = 5, 3


def main() -> None:
    with ExitStack() as resources:
        directory = Path(resources.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        standin = start_standin(None, directory / "standin.log")
        resources.callback(standin.stop)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "gateway_project.settings",
            "SECRET_KEY": "not-a-secret-" * 4,
            "DATABASE_URL": f"sqlite:///{directory}/gateway.sqlite3",
            "REDIS_URL": "",
            "GATEWAY_VAR_DIR": str(directory),
        }
        command = [sys.executable, "-m", "bench.fill", "10", "10", f"http://127.0.0.1:{standin.port}"]
        key = json.loads(subprocess.check_output(command))["plain"]
        sys.stdout.write(json.dumps(calls_by_kind(key)))


def calls_by_kind(key: str) -> dict[str, int]:
    """The calls of a hit and of a miss with this key."""
    from gateway_project.wsgi import application

    def ask(prompt: str) -> str:
        """The cache's answer, of a request that is served as a server does it."""
        headers: dict[str, str] = {}
        body = application(environ(key, prompt), lambda _status, lines, *_: headers.update(lines))
        b"".join(body)
        if close := getattr(body, "close", None):
            close()
        return headers["X-Svc-Cache"]

    for number in range(WARM_UP):
        assert (ask(f"miss {number}"), ask(f"miss {number}")) == ("MISS", "HIT")
    return {
        "hit": min(calls(lambda: ask("miss 0"), "HIT") for _ in range(TAKES)),
        "miss": min(calls(partial(ask, f"another {number}"), "MISS") for number in range(TAKES)),
    }


def environ(key: str, prompt: str) -> dict[str, Any]:
    """What a server gives the application for a request."""
    body = json.dumps({"model": "fast", "messages": [{"role": "user", "content": prompt}]}).encode()
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/work",
        "QUERY_STRING": "",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "localhost",
        "HTTP_AUTHORIZATION": f"Bearer {key}",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
    }


def calls(ask: Callable[[], str], answer: str) -> int:
    """The calls of Python's and of C's functions in this thread while it asks."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        kind = ask()
    finally:
        sys.setprofile(None)
    assert kind == answer, kind
    return count


if __name__ == "__main__":
    main()
