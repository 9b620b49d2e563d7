"""The console's site: access control, and the registry of pages that belong to no table."""

from collections.abc import Callable, Sequence
from functools import wraps

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from unfold.sites import UnfoldAdminSite

from gateway_project.api.access import require_licence
from gateway_project.api.audit import acting_as
from gateway_project.api.write_limit import count_write
from gateway_project.console.audit import actor, caller
from gateway_project.database.guarding import override_access_tests
from gateway_project.errors import AccessTestFailed, LicenceInvalid, RateLimited
from gateway_project.hooks import Hook
from gateway_project.json_types import JsonObject

Page = Callable[..., HttpResponse]
# Whether the login that the console's session belongs to is still alive.
has_live_login: Hook[[HttpRequest], bool] = Hook("has_live_login")
# The buttons of a login page for single sign-on, which lead to this path after the login.
sign_on_choices: Hook[[str], Sequence[object]] = Hook("sign_on_choices")
# Before a logout: the page that leads to the logout of the identity provider where the session began, if it did.
leave_provider: Hook[[HttpRequest], HttpResponse | None] = Hook("leave_provider")
# The page for the second factor, if a login needs one after the right password.
second_step: Hook[[HttpRequest], HttpResponse] = Hook("second_step")

# URL names, by prefix, of the pages that need no licence: the first page, login and logout, and the pages that are
# needed to install a valid licence.
LICENCE_FREE_PAGES = (
    "index",
    "login",
    "logout",
    "jsi18n",
    "licence",
    "licensing_licence_",
    "rules_rule_",
    "rules_accesstest_",
    "access-tests",
    "rule-preview",
    "rule-lint",
    "rule-move",
    "rule-versions",
    "deleted-rules",
)
# Apps whose fields may autocomplete without a licence.
LICENCE_FREE_AUTOCOMPLETE = ("rules",)
# The field of a form with the reason to make a change that breaks access tests.
REASON = "override_reason"
# Title, sentence and status of the pages that a browser gets instead of these errors.
NOT_FOUND = ("Not found", "There is no page at this address.", 404)
NOT_OFFERED = ("Not possible", "The console does not have this function.", 403)


class ConsoleSite(UnfoldAdminSite):
    """Admits active admins while their login is alive; `page` adds pages that belong to no table."""

    site_header = site_title = "Gateway"
    index_title = "Overview"
    enable_nav_sidebar = True
    login_template = "console/login.html"

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        self._pages: dict[str, tuple[str, Page]] = {}
        self.parts: set[str] = set()

    def has_permission(self, request: HttpRequest) -> bool:
        return super().has_permission(request) and has_live_login(request)

    def login(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        next_path = request.GET.get("next", "")
        choices = sign_on_choices(next_path if next_path.startswith("/") else reverse("admin:index"))
        response = super().login(request, {**(extra_context or {}), "sign_on_choices": choices})
        # The form sets this if the password was right and a second factor is needed.
        return HttpResponseRedirect(reverse("admin:login-code")) if awaits_second_step(request) else response

    def logout(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        further_logout = leave_provider(request) if request.method == "POST" else None
        response = super().logout(request, extra_context)
        return response if further_logout is None else further_logout

    def admin_view(self, view: Page, cacheable: bool = False) -> Page:
        return self._leading_users(super().admin_view(self._with_checks(self._asking_for_reason(view)), cacheable))

    def _leading_users(self, view: Page) -> Page:
        """The view; a logged-in user without the role admin is led to their own pages."""

        @wraps(view)
        def answer(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
            is_user = request.user.is_authenticated and not request.user.is_staff
            if settings.GATEWAY_USER_PAGES and is_user and wants_page(request) and has_live_login(request):
                return HttpResponseRedirect(reverse("me:overview"))
            return view(request, *args, **kwargs)

        return answer

    def _with_checks(self, view: Page) -> Page:
        """The view, after the checks of the licence (except for LICENCE_FREE_PAGES), of the address and of writes.

        Each form that is sent counts as a write, but the one that logs out. If a check fails, or if nothing is at the
        address, the response is a page that says why.
        """

        @wraps(view)
        def answer(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
            try:
                if not _is_licence_free(request):
                    require_licence()
                if "%00" in request.META.get("QUERY_STRING", ""):
                    raise BadRequest
                if view_name(request) != "logout":
                    count_write(caller(request), str(request.method))
                with acting_as(lambda: actor(request)):
                    return view(request, *args, **kwargs)
            except LicenceInvalid as error:
                return self.refusal(request, "The licence", error.message, error.code)
            except RateLimited as error:
                return self.refusal(request, "Too many changes", error.sentence, error.code, error.headers)
            except (BadRequest, SuspiciousOperation):
                return self.refusal(request, "This address", "This address is not valid.", 400)
            except (Http404, PermissionDenied) as error:
                if not wants_page(request):
                    raise
                return self.refusal(request, *(NOT_FOUND if isinstance(error, Http404) else NOT_OFFERED))

        return answer

    def refusal(
        self, request: HttpRequest, title: str, problem: str, code: int, headers: dict[str, str] | None = None
    ) -> HttpResponse:
        """A page of the console with this sentence instead of the requested page."""
        context = self.context(request, title, problem=problem)
        return TemplateResponse(request, "console/refused.html", context, status=code, headers=headers)

    def _asking_for_reason(self, view: Page) -> Page:
        """The view; if it breaks access tests, a page asks for a reason, with which the form can be sent again."""

        @wraps(view)
        def answer(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
            try:
                with override_access_tests(request.POST.get(REASON, ""), field=REASON):
                    return view(request, *args, **kwargs)
            except AccessTestFailed as error:
                return self._ask_for_reason(request, error)

        return answer

    def _ask_for_reason(self, request: HttpRequest, error: AccessTestFailed) -> HttpResponse:
        """A page with the tests that a change breaks, and a form that makes the same change for a reason."""
        unsent = (REASON, "csrfmiddlewaretoken")
        fields = [(name, value) for name, values in request.POST.lists() if name not in unsent for value in values]
        context = self.context(request, "Access tests", tests=error.tests, fields=fields)
        return TemplateResponse(request, "console/override.html", context, status=error.code)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        # Rows have no pages outside of the console.
        routes = [route for route in super().get_urls() if getattr(route, "name", None) != "view_on_site"]
        return [path("login/code/", second_step, name="login-code"), *routes]

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[JsonObject]:
        """The tables of an app, for its page alone: no other page shows them, and the side bar has its own list."""
        return [] if app_label is None else super().get_app_list(request, app_label)

    def search(self, request: HttpRequest, extra_context: object = None) -> HttpResponse:
        """404: the theme's search over all tables is not used; each table has its own."""
        raise Http404

    def password_change(self, request: HttpRequest, extra_context: object = None) -> HttpResponse:
        """Redirect to the user's own page: Django's form would bypass the services and the log."""
        return HttpResponseRedirect(reverse("admin:accounts_user_change", args=[request.user.pk]))

    def page(self, route: str, *, name: str, part: bool = False) -> Callable[[Page], Page]:
        """Decorates a view: `admin:name` at this route below /admin/, for users whom the console admits.

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

    def context(self, request: HttpRequest, title: str, **more: object) -> dict[str, object]:
        """The context that a page's template needs."""
        return {**self.each_context(request), "title": title, **more}


def console_site() -> ConsoleSite:
    """The site of this process."""
    site = admin.site
    assert isinstance(site, ConsoleSite)
    return site


def awaits_second_step(request: HttpRequest) -> bool:
    """Whether the login form of this request has found that a second factor is needed."""
    return getattr(request, "awaits_second_step", False)


def view_name(request: HttpRequest) -> str:
    """The name of the page's route, or ''."""
    return (request.resolver_match.url_name or "") if request.resolver_match else ""


def wants_page(request: HttpRequest) -> bool:
    """Whether a browser requests a page; scripts and API clients do not."""
    return "text/html" in request.headers.get("Accept", "")


def _is_licence_free(request: HttpRequest) -> bool:
    name = view_name(request)
    if name == "autocomplete":
        return request.GET.get("app_label") in LICENCE_FREE_AUTOCOMPLETE
    return name.startswith(LICENCE_FREE_PAGES)
