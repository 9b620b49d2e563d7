"""The console's site: access control, and the registry of pages that belong to no table."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.module_loading import import_string
from unfold.sites import UnfoldAdminSite

from gateway_project.api import licence
from gateway_project.errors import LicenceInvalid

Page = Callable[[HttpRequest], HttpResponse]
# Whether a login is still alive; a dotted path, since this module may not import accounts.
IS_ALIVE = "accounts.console.is_alive"

# URL names, by prefix, of the pages that need no licence: the first one, login and logout, and those that are needed
# to put the licence right.
LICENCE_FREE_PAGES = (
    "index",
    "login",
    "logout",
    "jsi18n",
    "licence",
    "licensing_licence_",
    "rules_rule_",
    "rule-preview",
)
# Apps whose fields may autocomplete without a licence.
LICENCE_FREE_AUTOCOMPLETE = ("rules",)
# Title, sentence and status of the pages that a browser gets instead of these errors.
NOT_FOUND = ("Not found", "There is no page at this address.", 404)
NOT_OFFERED = ("Not possible", "The console does not offer this.", 403)


class ConsoleSite(UnfoldAdminSite):
    """Admits active admins for as long as their login lives; `page` adds pages beside those of the tables."""

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
        return super().admin_view(self._checked(view), cacheable)

    def _checked(self, view: Page) -> Page:
        """The view, behind the checks of the licence (but for LICENCE_FREE_PAGES) and of the address.

        A failed check, and an address that leads nowhere, answer with a page that says why.
        """

        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                if not _is_licence_free(request):
                    licence.require()
                if "%00" in request.META.get("QUERY_STRING", ""):
                    raise BadRequest
                return view(request, *args, **kwargs)
            except LicenceInvalid as error:
                return self.refusal(request, "The licence", error.message, error.code)
            except (BadRequest, SuspiciousOperation):
                return self.refusal(request, "This address", "This address is not valid.", 400)
            except (Http404, PermissionDenied) as error:
                if not wants_page(request):
                    raise
                return self.refusal(request, *(NOT_FOUND if isinstance(error, Http404) else NOT_OFFERED))

        return answer

    def refusal(self, request: HttpRequest, title: str, problem: str, code: int) -> HttpResponse:
        """A page of the console with this sentence instead of what was asked for."""
        context = self.context(request, title, problem=problem)
        return TemplateResponse(request, "console/refused.html", context, status=code)

    def get_urls(self) -> list:
        # No row has a page outside of the console.
        return [route for route in super().get_urls() if getattr(route, "name", None) != "view_on_site"]

    def search(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """404: the theme's search over all tables is not used; each table has its own."""
        raise Http404

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Redirect to the user's own page: Django's form would bypass the services and the log."""
        return HttpResponseRedirect(reverse("admin:accounts_user_change", args=[request.user.pk]))

    def page(self, route: str, *, name: str, part: bool = False) -> Callable[[Page], Page]:
        """Decorates a view: `admin:name` at this route below /admin/, for those whom the console admits.

        A `part` is a fragment that another page fetches.
        """
        if part:
            self.parts.add(route)

        def add(view: Page) -> Page:
            self._pages[name] = (route, view)
            return view

        return add

    def extra_urls(self) -> list[URLPattern]:
        """The added pages; UnfoldAdminSite puts them before the tables' own paths."""
        return [path(route, self.admin_view(view), name=name) for name, (route, view) in self._pages.items()]

    def context(self, request: HttpRequest, title: str, **more: Any) -> dict[str, Any]:
        """The context that a page's template needs."""
        return {**self.each_context(request), "title": title, **more}


def wants_page(request: HttpRequest) -> bool:
    """Whether a browser asks for a page; scripts and API clients do not."""
    return "text/html" in request.headers.get("Accept", "")


def _is_licence_free(request: HttpRequest) -> bool:
    name = request.resolver_match.url_name or ""
    if name == "autocomplete":
        return request.GET.get("app_label") in LICENCE_FREE_AUTOCOMPLETE
    return name.startswith(LICENCE_FREE_PAGES)
