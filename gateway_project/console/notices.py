"""What administrators have to know about this installation now: shown by the console, and written to the log."""

import time
from collections.abc import Callable
from typing import NamedTuple

from django.urls import reverse

from accounts.access_requests.models import AccessRequest
from gateway_project.server.connections import unlisted_proxies
from licensing import services as licensing


class Notice(NamedTuple):
    """One of them: `severity` is "warning" while everything is served, else "error"; `text` is made for people.

    `remedy` says what a link to the page at `address` is for, if there is one.
    """

    severity: str
    text: str
    remedy: str = ""
    address: str = ""


def notices() -> list[Notice]:
    """All that there are at this moment."""
    return [notice for source in SOURCES if (notice := source(time.time())) is not None]


def about_the_licence(now: float) -> Notice | None:
    """That it expires soon, from 30 days before, or that it does not count any more."""
    terms = licensing.current()
    if not (warning := terms.warning(now)):
        return None
    return Notice("error" if terms.problem(now) else "warning", warning)


def about_an_unlisted_proxy(now: float) -> Notice | None:
    """That a peer forwards for others and is not listed as a proxy."""
    peer = unlisted_proxies.last_peer()
    return Notice("warning", unlisted_proxies.warning(peer)) if peer else None


def about_access_requests(now: float) -> Notice | None:
    """That somebody waits for a decision."""
    count = AccessRequest.objects.open().count()
    if not count:
        return None
    text = f"{count:,} access request{' waits' if count == 1 else 's wait'} for a decision."
    return Notice("warning", text, "Decide", reverse("admin:access-requests"))


SOURCES: tuple[Callable[[float], Notice | None], ...] = (
    about_the_licence,
    about_an_unlisted_proxy,
    about_access_requests,
)
