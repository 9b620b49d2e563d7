"""Warns of a proxy that is not in GATEWAY_TRUSTED_PROXIES: behind it all clients have one address."""

import logging
import threading
import time

from django.core.cache import caches

log = logging.getLogger("gateway.proxies")

PAUSE_SECONDS, SHOWN_SECONDS = 3600, 24 * 3600
KEY = "unlisted-proxy"


class UnlistedProxies:
    """Reports such a peer at most once an hour in each process: clients can send these headers too."""

    def __init__(self) -> None:
        self._next = 0.0
        self._lock = threading.Lock()

    def report(self, peer: str) -> None:
        if time.monotonic() < self._next:
            return
        with self._lock:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + PAUSE_SECONDS
        log.warning(describe_proxy(peer))
        try:
            caches["default"].set(KEY, peer, SHOWN_SECONDS)
        except Exception:  # of any kind: the request goes on without the shared cache
            caches["process"].set(KEY, peer, SHOWN_SECONDS)


def last_peer() -> str:
    """The peer that was reported within a day; '' if there is none."""
    try:
        peer = caches["default"].get(KEY)
    except Exception:  # of any kind: the page is shown without the shared cache
        peer = None
    return str(peer or caches["process"].get(KEY) or "")


def describe_proxy(peer: str) -> str:
    """What is wrong, and what to do."""
    return (
        f"{peer} sends X-Forwarded-For, Forwarded or X-Real-IP and is not in GATEWAY_TRUSTED_PROXIES, so the header is "
        "ignored. If this is your proxy, all its clients share one address in the log and in limits on logins. Add "
        "the proxy to the setting, and let it send X-Forwarded-For."
    )
