"""The two sites that have pages for second factors: the console, and the pages for users, which adds itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from gateway_project.api import audit
from gateway_project.console.audit import LOGIN, actor
from gateway_project.console.site import console_site


class ShowPage(Protocol):
    """Renders a template of second_factor/ inside of the site's own pages."""

    def __call__(
        self, request: HttpRequest, name: str, title: str, context: Mapping[str, object], *, is_login: bool
    ) -> HttpResponse: ...


@dataclass(frozen=True, slots=True)
class Site:
    """A site by its namespace: its first page, how it shows a page, and who acts on its pages."""

    name: str
    first_page: str
    show: ShowPage
    actor: Callable[[HttpRequest], audit.Actor]

    def url(self, page: str) -> str:
        """The address of one of its pages."""
        return reverse(f"{self.name}:{page}")

    def redirect(self, page: str) -> HttpResponse:
        return HttpResponseRedirect(self.url(page))


def _show_in_console(
    request: HttpRequest, name: str, title: str, context: Mapping[str, object], *, is_login: bool
) -> HttpResponse:
    layout = "second_factor/console_login.html" if is_login else "admin/base_site.html"
    values = console_site().context(request, title, layout=layout, **context)
    headers = {"Cache-Control": "no-store"}
    return TemplateResponse(request, f"second_factor/{name}.html", values, headers=headers)


CONSOLE = Site("admin", "index", _show_in_console, actor)


def current_session(request: HttpRequest) -> UUID:
    """The session that the pages are used with."""
    return UUID(request.session[LOGIN])
