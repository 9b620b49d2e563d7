"""The console's site: who gets in, and the pages that are no table's."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.module_loading import import_string
from unfold.sites import UnfoldAdminSite

from gateway_project.errors import LicenceInvalid
from gateway_project.jsonapi import licence

Page = Callable[[HttpRequest], HttpResponse]
# Accounts know whether a login is alive; they say so here, since this room lies below them.
IS_ALIVE = "accounts.console.is_alive"

# The pages, by the beginnings of their names, that are shown whatever the licence is: the first one, the ways in and
# out, and those with which it is put right.
OPEN = ("index", "login", "logout", "jsi18n", "licence", "licensing_licence_", "rules_rule_", "rule-preview")
# Of what the fields of these tables look for as one types, too.
OPEN_FIELDS = ("rules",)


class ConsoleSite(UnfoldAdminSite):
    """Lets usable admins in as long as their login lives; `page` adds pages beside those of the tables."""

    site_header = site_title = "Gateway"
    index_title = "Overview"
    enable_nav_sidebar = True

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        self._pages: dict[str, tuple[str, Page]] = {}
        self.parts: set[str] = set()

    def has_permission(self, request: HttpRequest) -> bool:
        return super().has_permission(request) and import_string(IS_ALIVE)(request)

    def admin_view(self, view: Page, cacheable: bool = False) -> Page:
        return super().admin_view(self._licensed(view), cacheable)

    def _licensed(self, view: Page) -> Page:
        """The view, or a word on the licence where it is expired or invalid and the page is not one of OPEN.

        Or a word on the address where nothing can be made of it.
        """

        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                if not _is_open(request):
                    licence.require()
                if "%00" in request.META.get("QUERY_STRING", ""):
                    raise BadRequest
                return view(request, *args, **kwargs)
            except LicenceInvalid as error:
                return self._refusal(request, "The licence", error.message, error.code)
            except (BadRequest, SuspiciousOperation):
                return self._refusal(request, "This address", "Nothing can be made of this address.", 400)

        return answer

    def _refusal(self, request: HttpRequest, title: str, problem: str, code: int) -> HttpResponse:
        context = self.context(request, title, problem=problem)
        return TemplateResponse(request, "console/refused.html", context, status=code)

    def get_urls(self) -> list:
        # Nothing has a page outside of the console.
        return [route for route in super().get_urls() if getattr(route, "name", None) != "view_on_site"]

    def search(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The theme's search over all tables, which is shown nowhere: each table has its own."""
        raise Http404

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """To one's own page: Django's own form would pass by the services, and by the log."""
        return HttpResponseRedirect(reverse("admin:accounts_user_change", args=[request.user.pk]))

    def page(self, route: str, *, name: str, part: bool = False) -> Callable[[Page], Page]:
        """Decorates a view: `admin:name` at this route below /admin/, for those whom the console lets in.

        A `part` is no page by itself: another page asks for it.
        """
        if part:
            self.parts.add(route)

        def add(view: Page) -> Page:
            self._pages[name] = (route, view)
            return view

        return add

    def extra_urls(self) -> list[URLPattern]:
        """What UnfoldAdminSite puts before the tables' own paths."""
        return [path(route, self.admin_view(view), name=name) for name, (route, view) in self._pages.items()]

    def context(self, request: HttpRequest, title: str, **more: Any) -> dict[str, Any]:
        """What a page's template needs."""
        return {**self.each_context(request), "title": title, **more}


def _is_open(request: HttpRequest) -> bool:
    name = request.resolver_match.url_name or ""
    return name.startswith(OPEN) or (name == "autocomplete" and request.GET.get("app_label") in OPEN_FIELDS)
