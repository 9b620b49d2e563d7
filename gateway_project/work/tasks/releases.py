"""Whether a newer release exists, according to a feed that an administrator named; it is read in the background.

The feed (GATEWAY_RELEASE_FEED, a URL or a file) is JSON as GitHub lists releases: {"tag_name": "v1.2.3"}, or a list of
such objects. Drafts, pre-releases and names that are not a plain version do not count.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from gateway_project import PRODUCT_VERSION
from gateway_project.background import BackgroundThread
from providers.transport.provider_response import explain_failure
from providers.transport.transport import RefusedAddress, Transport

log = logging.getLogger("gateway.releases")

UNKNOWN = "unknown"
READ_EVERY_SECONDS, RETRY_EVERY_SECONDS = 6 * 3600.0, 3600.0
MAX_AGE_SECONDS = 24 * 3600.0  # of the last successful read
MAX_BYTES, PIECE_BYTES = 1024 * 1024, 16 * 1024
SILENCE_SECONDS, TOTAL_SECONDS = 5.0, 20.0
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "language-model-gateway"}
OK = 200
VERSION = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9}){0,3})")

Version = tuple[int, ...]


class BadFeed(Exception):
    """The feed cannot be read, or names no release; the message says why."""


class ReleaseFeed(BackgroundThread):
    """Reads the feed at once and then every few hours; a feed that fails is tried again after an hour."""

    def __init__(self, location: str, transport: Transport, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("release-feed", log, every=0.0)
        self._location = location
        self._transport = transport
        self._clock = clock
        self._newest: Version | None = None
        self._read_at = 0.0
        self._has_warned = False

    def update_available(self) -> str:
        """`true` or `false` by what the feed said within the last day, else `unknown`."""
        newest, installed = self._newest, read_version(PRODUCT_VERSION)
        if newest is None or installed is None or self._clock() - self._read_at > MAX_AGE_SECONDS:
            return UNKNOWN
        return "true" if newest > installed else "false"

    def run_once(self) -> None:
        """Read the feed; only the first of several failures in a row is logged."""
        self.every = RETRY_EVERY_SECONDS
        try:
            self._newest = newest_release(read_feed(self._location, self._transport))
        except BadFeed as error:
            self._newest = None
            if not self._has_warned:
                log.warning("It is unknown whether an update is available: the release feed %s.", error)
            self._has_warned = True
        else:
            self._read_at, self._has_warned, self.every = self._clock(), False, READ_EVERY_SECONDS


def newest_release(document: bytes) -> Version:
    """The highest version that the feed names. Raises BadFeed."""
    try:
        parsed = orjson.loads(document)
    except ValueError:
        raise BadFeed("is not JSON") from None
    versions = list(_versions(parsed if isinstance(parsed, list) else [parsed]))
    if not versions:
        raise BadFeed("names no release: it has no tag_name such as v1.2.3")
    return max(versions)


def read_version(text: str) -> Version | None:
    """1.2.0 and v1.2 alike as (1, 2); None for other texts, such as a pre-release."""
    match = VERSION.fullmatch(text)
    if match is None:
        return None
    numbers = [int(number) for number in match[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def read_feed(location: str, transport: Transport) -> bytes:
    """The feed's bytes. Raises BadFeed."""
    pieces = _pieces_of_file(Path(location)) if location.startswith("/") else _pieces_of_url(location, transport)
    deadline, document = time.monotonic() + TOTAL_SECONDS, bytearray()
    try:
        for piece in pieces:
            document += piece
            if len(document) > MAX_BYTES:
                raise BadFeed(f"is larger than {MAX_BYTES:,} bytes")
            if time.monotonic() > deadline:
                raise BadFeed(f"was not complete within {TOTAL_SECONDS:.0f} s")
    except RefusedAddress as refused:
        raise BadFeed(f"is not read: {refused}") from None
    except (OSError, UnicodeError) as error:  # requests' errors are OSErrors
        raise BadFeed(f"cannot be read: {_reason(error)}") from None
    return bytes(document)


def _pieces_of_url(url: str, transport: Transport) -> Iterator[bytes]:
    session = transport.session()
    with session.get(url, headers=HEADERS, timeout=SILENCE_SECONDS, allow_redirects=False, stream=True) as answer:
        if answer.status_code != OK:
            raise BadFeed(f"answered with status {answer.status_code}")
        if "Content-Encoding" in answer.headers:
            raise BadFeed("is compressed, although no compression was requested")
        yield from answer.iter_content(PIECE_BYTES)


def _pieces_of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(PIECE_BYTES), b"")


def _reason(error: BaseException) -> str:
    """The cause in words: requests wraps it several times over, in texts that quote the URL."""
    while error.__context__ is not None:
        error = error.__context__
    return f"no answer within {SILENCE_SECONDS:.0f} s" if isinstance(error, TimeoutError) else explain_failure(error)


def _versions(releases: list[object]) -> Iterator[Version]:
    for release in releases:
        if not isinstance(release, dict) or release.get("draft") or release.get("prerelease"):
            continue
        name = release.get("tag_name")
        if isinstance(name, str) and (version := read_version(name)) is not None:
            yield version
