"""The second step of a login with a password: a code, a passkey, or the setup of an app that a role requires."""

from collections.abc import Mapping

from django.contrib.auth import login as open_console
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from accounts import sessions
from accounts.console import LoginRequest
from accounts.models import User
from accounts.second_factor import pending, services
from accounts.second_factor.app_secret import new_app, shown_app
from accounts.second_factor.forms import FirstAppForm, LoginCodeForm
from accounts.second_factor.pending import PendingLogin
from accounts.second_factor.sites import Site
from accounts.second_factor.verification import check_code, has_second_factor
from gateway_project.api import audit
from gateway_project.api.access import Caller
from gateway_project.console.audit import session_event_recorder
from gateway_project.errors import GatewayError

BACKEND = "accounts.console.Backend"


def second_step(site: Site, request: HttpRequest) -> HttpResponse:
    """The page that a login with a right password leads to; to the login itself for everybody else."""
    login = pending.read_login(request, site=site.name)
    if login is None:
        return site.redirect("login")
    if has_second_factor(login.user):
        return _ask_for_factor(site, request, login)
    return _set_up(site, request, login) if login.user.must_have_second_factor else site.redirect("login")


def _ask_for_factor(site: Site, request: HttpRequest, login: PendingLogin) -> HttpResponse:
    from accounts.second_factor.passkeys import begin_authentication  # 3 MB that few logins need

    has_answer = bool(request.POST.get("credential"))
    form = LoginCodeForm(None if has_answer else request.POST or None)
    problem = ""
    if has_answer or form.is_valid():
        try:
            _check(request, login.user, form)
            _log_in(request, login.user)
            return HttpResponseRedirect(login.next_path or site.url(site.first_page))
        except GatewayError as error:
            problem = error.sentence
    context = {"form": form, "problem": problem, "passkey": begin_authentication(request, login.user)}
    return site.show(request, "code", "Second factor", context, is_login=True)


def _check(request: HttpRequest, user: User, form: LoginCodeForm) -> None:
    """Accept the passkey or the code of the request; raises AuthenticationFailed and RateLimited."""
    record_event = session_event_recorder(request)
    with sessions.throttle_login(user.username, request.META.get("REMOTE_ADDR", ""), record_event):
        if answer := request.POST.get("credential"):
            from accounts.second_factor.passkeys import check_passkey

            check_passkey(request, user, answer, record_event)
        else:
            check_code(user, form.cleaned_data["code"], record_event)


def _log_in(request: HttpRequest, user: User) -> None:
    """Open the session, in the browser's session with a new cookie."""
    console_request: LoginRequest = request  # type: ignore[assignment]  # with an attribute more
    console_request.login, _ = sessions.start_session(
        user, device=request.META.get("HTTP_USER_AGENT", ""), address=request.META.get("REMOTE_ADDR", "")
    )
    open_console(request, user, backend=BACKEND)
    pending.end_login(request)
    session_event_recorder(request)(f"{user.username} logged in with a second factor.", user=user)


def _set_up(site: Site, request: HttpRequest, login: PendingLogin) -> HttpResponse:
    form = FirstAppForm(request.POST or None)
    if form.is_valid():
        try:
            recovery_codes = services.set_up_app(
                login.user,
                sealed_secret=new_app(request, login.user),
                code=form.cleaned_data["code"],
                actor=_actor(request, login.user),
                may_replace=False,
            )
            _log_in(request, login.user)
            context: Mapping[str, object] = {
                "codes": recovery_codes,
                "next_path": login.next_path or site.url(site.first_page),
            }
            return site.show(request, "codes", "Recovery codes", context, is_login=True)
        except GatewayError as error:
            form.add_error("code", error.message)
    context = {"form": form, "is_required": True, **shown_app(request, login.user)}
    return site.show(request, "app", "Set up a second factor", context, is_login=True)


def _actor(request: HttpRequest, user: User) -> audit.Actor:
    return audit.Actor(Caller(user), getattr(request, "correlation_id", ""), request.META.get("REMOTE_ADDR", ""))
