"""Logging in and out; the session is the console's."""

from functools import partial

from django.contrib.auth import logout
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_POST
from unfold.widgets import UnfoldAdminPasswordWidget

from accounts.console import SignIn
from accounts.guessing.password_login import is_for_admins_only
from accounts.second_factor.login_step import second_step
from gateway_project.console.site import awaits_second_step, leave_provider, sign_on_choices
from gateway_project.me.second_factor import SITE
from gateway_project.me.site import HEADERS, context_of, hide_when_off


class UserSignIn(SignIn):
    """The console's form, for every user."""

    admits_everyone = True

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        # The console's widget shows the password by a script that these pages do not load.
        self.fields["password"].widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"})


class UserLogin(LoginView):
    """The login; `next` may lead to pages of the gateway alone."""

    authentication_form = UserSignIn
    template_name = "me/login.html"
    next_page = "me:overview"

    def get_context_data(self, **options: object) -> dict[str, object]:
        context = super().get_context_data(**options) | context_of("Log in")
        next_path = self.get_redirect_url() or reverse("me:overview")
        return context | {"sign_on_choices": sign_on_choices(next_path), "is_for_admins_only": is_for_admins_only()}

    def dispatch(self, request: HttpRequest, *args: object, **options: object) -> HttpResponseBase:
        response = super().dispatch(request, *args, **options)
        if awaits_second_step(request):
            response = SITE.redirect("login-code")
        for name, value in HEADERS.items():
            response[name] = value
        return response


login_page = hide_when_off(UserLogin.as_view())
second_step_page = hide_when_off(partial(second_step, SITE))


@hide_when_off
@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    """End this session, and lead to the login, or to the logout of the identity provider where it began."""
    further_logout = leave_provider(request)
    logout(request)
    return HttpResponseRedirect(reverse("me:login")) if further_logout is None else further_logout
