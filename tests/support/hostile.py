"""Values that no attribute may turn into a fault of ours, and a text that no page may run."""

from collections.abc import Callable, Iterable
from typing import Any

import requests

from tests.support.management import refused
from tests.support.thoroughness import some

# A text that would show itself as a script.
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
WRONG = [
    None, 5, 0, -1, 1.5, 10**30, -(10**30), 1e300, 1e-300, True, False, "", " ", "x" * 30_000, "a\0b", "\u202e", "5",
    "٣", "true", "http://[", "9999-12-31T23:59:59-23:59", "(" * 500, [], [1], ["x", "x"], [None], [[1]], [{}], {},
    {"id": 1}, {"name": "x"}, [{"id": "x"}], [{"id": 10**30}], [{"name": None}], [{"name": ["x"]}],
    [{"name": "x" * 30_000}],
]  # fmt: skip


def try_wrong(send: Callable[..., requests.Response], names: Iterable[str], good: Callable[[], dict[str, Any]]) -> None:
    """Send wrong values as each attribute, beside good ones: each is taken, or refused with a word on why."""
    for turn, name in enumerate(names):
        for value in some(WRONG, turn):
            response = send(**(good() | {name: value}))
            assert response.status_code < 500, f"{name}={value!r:.100}: {response.text}"
            if response.status_code not in (200, 201):
                assert response.status_code in (400, 403, 404, 409), f"{name}={value!r:.100}: {response.text}"
                refused(response, response.status_code, response.json()["exception"])
