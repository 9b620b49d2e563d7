"""Requests that are sent to a second target after they were answered: they wait here, and never slow a request."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import random
from typing import TYPE_CHECKING, NamedTuple

from gateway_project.server.threads import started_threads
from gateway_project.work.doors.base import Endpoint
from gateway_project.work.exchange import Exchange, Identity
from providers.formats import WorkRequest
from providers.formats.dialect import COUNT_TOKENS

if TYPE_CHECKING:
    from gateway_project.work.guardrails.book import Applicable
    from gateway_project.work.routing.aliases import Mirror
    from gateway_project.work.snapshot.records import AliasSnapshot, ProviderSnapshot, Target

log = logging.getLogger("gateway.mirrors")

MAX_THREADS, MAX_WAITING, MAX_WAITING_BYTES = 32, 128, 16 * 1024 * 1024
DELAY_SECONDS = 0.2  # what was written last has to arrive, too
WARN_EVERY_SECONDS = 60.0


class MirroredRequest(NamedTuple):
    """A request that was answered, and the target that gets it too."""

    target: "Target"
    request: WorkRequest
    identity: Identity
    alias: "AliasSnapshot"
    request_id: str
    endpoint: Endpoint
    address: str
    tags: dict[str, str]
    guardrails: "Applicable | None"  # that apply to what is logged of the answer


class MirroredBody:
    """The body of a response after whose delivery something happens: the server closes it once all has been written."""

    def __init__(self, body: bytes | Iterable[bytes], at_end: Callable[[], None]) -> None:
        self._body: Iterable[bytes] = (body,) if isinstance(body, bytes) else body
        self._at_end = at_end

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        """Called by the server, also if its client has gone."""
        try:
            if (close := getattr(self._body, "close", None)) is not None:
                close()
        finally:
            self._at_end()


class Mirrors:
    """The requests to mirror; a few threads serve them. Where too many wait, or too large ones, they are left out."""

    def __init__(self, serve: Callable[[MirroredRequest], None]) -> None:
        self._serve = serve
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._waiting = self._bytes = 0
        self._warned_at = 0.0
        self._is_stopped = False

    def offer(self, exchange: Exchange, alias: "AliasSnapshot", mirror: "Mirror[ProviderSnapshot]") -> None:
        """Mirror a request whose answer has been delivered, if it is one of the share; returns at once."""
        request = exchange.request
        if random() >= mirror.share or not _is_worth_it(exchange):  # noqa: S311 - it has to spread, no more
            return
        assert request is not None
        mirrored = MirroredRequest(
            mirror.target, request, exchange.identity, alias, exchange.request_id, exchange.endpoint,
            exchange.connection.address, exchange.options.tags,
            None if exchange.guarding is None else exchange.guarding.applicable,
        )  # fmt: skip
        if self._take_room(len(request.raw)):
            self._executor().submit(self._run, mirrored, time.monotonic() + DELAY_SECONDS)
        else:
            self._warn()

    def stop(self) -> None:
        """Serve no more; returns when those that are being served have ended."""
        self._is_stopped = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _run(self, mirrored: MirroredRequest, begin: float) -> None:
        try:
            time.sleep(max(begin - time.monotonic(), 0))
            if not self._is_stopped:
                self._serve(mirrored)
        except Exception:
            log.exception("The request %s was not mirrored.", mirrored.request_id)
        finally:
            with self._lock:
                self._waiting -= 1
                self._bytes -= len(mirrored.request.raw)

    def _take_room(self, size: int) -> bool:
        with self._lock:
            if self._is_stopped or self._waiting >= MAX_WAITING or self._bytes + size > MAX_WAITING_BYTES:
                return False
            self._waiting += 1
            self._bytes += size
            return True

    def _executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(MAX_THREADS, "mirror", _count_thread)
            return self._pool

    def _warn(self) -> None:
        now = time.monotonic()
        if now - self._warned_at > WARN_EVERY_SECONDS:
            self._warned_at = now
            log.warning("Some requests are not mirrored: the mirror is too slow, and too many wait for it.")


def _count_thread() -> None:
    started_threads["mirror"] += 1


def _is_worth_it(exchange: Exchange) -> bool:
    """Whether a provider answered it with more than a count, and it does not refer to what only that one keeps."""
    if exchange.error is not None or exchange.outcome not in ("", "completed"):
        return False
    request = exchange.request
    is_own = exchange.answer is not None and not exchange.is_from_others and exchange.attempts.count > 0
    if not is_own or request is None:
        return False
    return request.operation != COUNT_TOKENS and not request.stateful_parameter
