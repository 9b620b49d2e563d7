"""The pages for second factors among those for users."""

from collections.abc import Mapping
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from accounts.second_factor import pages
from accounts.second_factor.sites import Site
from gateway_project.me.site import HEADERS, actor, context_of, page


def _show(
    request: HttpRequest, name: str, title: str, context: Mapping[str, object], *, is_login: bool
) -> HttpResponse:
    section = {} if is_login else {"section": "account", "current": "me:account"}
    values = context_of(title) | section | {"layout": "me/base.html"} | dict(context)
    return TemplateResponse(request, f"second_factor/{name}.html", values, headers=HEADERS)


SITE = Site("me", "overview", _show, actor)
PAGES = tuple((route, name, page(partial(view, SITE))) for route, name, view in pages.PAGES)
