"""What administrators have to know about this installation now: shown by the console, and written to the log."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from accounts.access_requests.models import AccessRequest
from gateway_project.console.display.names import Name, link_names
from gateway_project.console.period import with_query
from gateway_project.server.connections import unlisted_proxies
from licensing import services as licensing

LINK = '<a class="underline" href="{}">{}</a>'


class Link(NamedTuple):
    """What a page is for, or what it shows, and its address."""

    title: str
    address: str


class Notice(NamedTuple):
    """A warning or an error: `severity` is "warning" while everything is served, else "error"; `text` is for people.

    The links lead to what the text is about, or to what can be done; `names` are those in the text.
    """

    severity: str
    text: str
    links: Sequence[Link] = ()
    names: Sequence[Name] = ()

    @property
    def html(self) -> SafeString:
        """The text, in which what it names is a link, and the links after it."""
        links = ((link.address, link.title) for link in self.links)
        return format_html("{} {}", link_names(self.text, self.names), format_html_join(", ", LINK, links))


def notices() -> list[Notice]:
    """The notices of this moment."""
    return [notice for source in SOURCES if (notice := source(time.time())) is not None]


def about_the_licence(now: float) -> Notice | None:
    """The licence expires within 30 days, or is not valid any more."""
    terms = licensing.current_terms()
    if not (warning := terms.warning(now)):
        return None
    severity = "error" if terms.problem(now) else "warning"
    return Notice(severity, warning, [Link("Open the licence", reverse("admin:licence"))])


def about_an_unlisted_proxy(now: float) -> Notice | None:
    """A peer forwards requests of others and is not listed as a proxy."""
    peer = unlisted_proxies.last_peer()
    if not peer:
        return None
    setting = with_query(reverse("admin:system"), {"q": "trusted proxies"})
    return Notice("warning", unlisted_proxies.describe_proxy(peer), [Link("Show the setting", setting)])


def about_access_requests(now: float) -> Notice | None:
    """Users wait for a decision."""
    count = AccessRequest.objects.open().count()
    if not count:
        return None
    text = f"{count:,} access request{' waits' if count == 1 else 's wait'} for a decision."
    return Notice("warning", text, [Link("Decide", reverse("admin:access-requests"))])


SOURCES: tuple[Callable[[float], Notice | None], ...] = (
    about_the_licence,
    about_an_unlisted_proxy,
    about_access_requests,
)
