"""Whether there is an update: what a feed says, over HTTP and in a file, and what a broken one does."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from gateway_project import PRODUCT_VERSION
from gateway_project.work.tasks import releases
from gateway_project.work.tasks.releases import (
    MAX_AGE_SECONDS,
    MAX_BYTES,
    READ_EVERY_SECONDS,
    RETRY_EVERY_SECONDS,
    ReleaseFeed,
    read_version,
)
from providers.transport.transport import Transport

pytestmark = pytest.mark.embedded

NEWER = json.dumps({"tag_name": "v99.0.1"}).encode()
PRESENT = json.dumps({"tag_name": f"v{PRODUCT_VERSION}"}).encode()


class Server:
    """A real HTTP server with one answer for every path, which notes the requests."""

    def __init__(self) -> None:
        self.status, self.headers, self.body, self.pause = 200, {}, NEWER, 0.0
        self.requests: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append((self.path, dict(self.headers)))
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for start in range(0, len(outer.body), 16 * 1024):
                    self.wfile.write(outer.body[start : start + 16 * 1024])
                    time.sleep(outer.pause)

            def log_message(self, *args) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()


def feed(location: str, networks: str = "any", **options) -> ReleaseFeed:
    return ReleaseFeed(location, Transport(networks=networks, heartbeat_seconds=1), **options)


def read(location: str, **options) -> str:
    row = feed(location, **options)
    row.run_once()
    return row.update_available()


def release(name: object, **more: object) -> dict[str, object]:
    return {"tag_name": name, **more}


@pytest.mark.parametrize(
    ("document", "verdict"),
    [
        (release("v99.0.1"), "true"),
        (release("99"), "true"),
        (release(f"v{PRODUCT_VERSION}"), "false"),
        (release(f"{PRODUCT_VERSION}.0"), "false"),
        (release("0.0.9"), "false"),
        ([release("0.0.1"), release("v0.10.0"), release("v0.9.9")], "true"),
        (
            [release("v99.0.0", prerelease=True), release("v99", draft=True), release("v99.0.0-rc1"), release("0")],
            "false",
        ),
        ([7, None, {"name": "v99"}, release("nightly"), release("v0.0.1")], "false"),
    ],
)
def test_the_highest_version_counts(server, document, verdict):
    server.body = json.dumps(document).encode()
    assert read(f"{server.url}/releases") == verdict


def test_versions_are_compared_by_their_numbers():
    assert read_version("v1.10") > read_version("1.9.9")
    assert read_version("1.2.0") == read_version("v1.2") == (1, 2)
    assert [read_version(text) for text in ("", "v", "1.2-rc1", "1..2", "1.2.3.4.5", "9" * 10, "١")] == [None] * 7


def test_a_file_is_a_feed_too(tmp_path):
    path = tmp_path / "releases.json"
    assert read(str(path)) == "unknown"
    path.write_bytes(NEWER)
    assert read(str(path)) == "true"
    path.write_bytes(b" " * (MAX_BYTES + 1))
    assert read(str(path)) == "unknown"


def test_what_is_asked_holds_no_credential_and_no_more_than_is_needed(server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert read(f"{server.url}/releases?per_page=5") == "true"
    ((path, headers),) = server.requests
    assert path == "/releases?per_page=5"
    assert headers["User-Agent"] == "language-model-gateway"
    assert not {"Authorization", "Cookie"} & headers.keys()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"status": 404}, "answered with status 404"),
        ({"status": 302, "headers": {"Location": "/elsewhere"}}, "answered with status 302"),
        ({"body": b"<html>"}, "is not JSON"),
        ({"body": b""}, "is not JSON"),
        ({"body": b"[" * 100_000}, "is not JSON"),
        ({"body": b"[]"}, "names no release"),
        ({"body": b"7"}, "names no release"),
        ({"body": b'{"tag_name": 7}'}, "names no release"),
        ({"body": b'[{"tag_name": "latest"}]'}, "names no release"),
        ({"body": b" " * (MAX_BYTES + 1)}, "is larger than 1,048,576 bytes"),
        ({"headers": {"Content-Encoding": "gzip"}}, "is compressed"),
    ],
)
def test_a_broken_feed_is_unknown_and_warned_of_once(server, caplog, answer, reason):
    row = feed(f"{server.url}/releases?key=private")
    row.run_once()
    assert row.update_available() == "true"
    for name, value in answer.items():
        setattr(server, name, value)
    with caplog.at_level(logging.INFO, logger="gateway.releases"):
        for _ in range(3):
            row.run_once()
    assert row.update_available() == "unknown"
    (record,) = caplog.records
    assert reason in record.getMessage()
    assert "private" not in record.getMessage()
    assert record.levelname == "WARNING"
    assert len(server.requests) == 4  # no redirect was followed
    server.status, server.headers, server.body = 200, {}, PRESENT
    row.run_once()
    assert row.update_available() == "false"


@pytest.mark.long
def test_one_that_does_not_answer_or_drips_is_given_up(server, monkeypatch, caplog):
    monkeypatch.setattr(releases, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(releases, "TOTAL_SECONDS", 0.3)
    server.body, server.pause = b" " * 200_000 + NEWER, 0.1
    begun = time.monotonic()
    assert read(server.url) == "unknown"
    server.pause = 2.0
    assert read(server.url) == "unknown"
    assert read("http://127.0.0.1:9/") == "unknown"
    assert time.monotonic() - begun < 5
    texts = [record.getMessage().partition("feed ")[2] for record in caplog.records]
    assert texts == [
        "was not complete within 0 s.", "cannot be read: no answer within 0 s.",
        "cannot be read: it refused the connection.",
    ]  # fmt: skip


def test_it_is_read_where_providers_may_be_and_nowhere_else(server, caplog):
    assert read(server.url, networks="public") == "unknown"
    assert read("http://169.254.169.254/latest") == "unknown"
    assert server.requests == []
    assert "is not a public address" in caplog.text
    assert "metadata" in caplog.text


def test_what_was_said_a_day_ago_counts_no_more(server):
    now = [0.0]
    row = feed(server.url, clock=lambda: now[0])
    assert row.update_available() == "unknown"
    row.run_once()
    assert (row.update_available(), row.every) == ("true", READ_EVERY_SECONDS)
    now[0] = MAX_AGE_SECONDS + 1
    assert row.update_available() == "unknown"
    server.status = 500
    row.run_once()
    assert row.every == RETRY_EVERY_SECONDS


def test_a_gateway_reads_it_in_the_background_and_never_on_a_request(own_gateway, server):
    world = own_gateway(GATEWAY_RELEASE_FEED=f"{server.url}/releases")

    def said() -> str:
        return requests.get(f"{world.gateway.url}/version/", timeout=10).json()["data"]["updateAvailable"]

    world.until(lambda: said() == "true")
    for _ in range(5):
        assert said() == "true"
    assert len(server.requests) == 1


def test_without_a_feed_nobody_is_asked(world):
    answer = requests.get(f"{world.gateway.url}/version/", timeout=10)
    assert answer.json()["data"]["updateAvailable"] == "unknown"
