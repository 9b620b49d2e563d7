"""The pages on which users who are logged in manage their own second factors."""

from collections.abc import Callable
from functools import partial

from django.http import HttpRequest, HttpResponse

from accounts import sessions
from accounts.models import AuthenticatorApp, Passkey, User
from accounts.second_factor import services
from accounts.second_factor.app_secret import new_app, shown_app
from accounts.second_factor.forms import AppForm, ConfirmationForm, PasskeyForm
from accounts.second_factor.pending import SECRET
from accounts.second_factor.sites import Site, current_session
from accounts.second_factor.verification import has_second_factor
from gateway_project.console.audit import session_event_recorder
from gateway_project.errors import GatewayError, NotFound, PermissionDenied

View = Callable[..., HttpResponse]
FIELDS = {"currentPassword": "current_password", "current_password": "current_password", "code": "code", "name": "name"}


def overview(site: Site, request: HttpRequest) -> HttpResponse:
    """The factors of the user, with links to all that can be done."""
    user = _user(request)
    context = {
        "has_password": user.has_usable_password(),
        "app": AuthenticatorApp.objects.filter(user=user).first(),
        "passkeys": user.passkeys.all(),
        "codes_left": user.recovery_codes.unused().count() if has_second_factor(user) else None,
        "is_required": user.must_have_second_factor,
    }
    return site.show(request, "overview", "Second factor", context, is_login=False)


def set_up_app(site: Site, request: HttpRequest) -> HttpResponse:
    """A secret to scan, and a form for the first code."""
    user, form = _local_user(request), AppForm(request.POST or None)
    if form.is_valid():
        try:
            _check_password(request, user, form)
            codes = services.set_up_app(
                user,
                sealed_secret=new_app(request, user),
                code=form.cleaned_data["code"],
                actor=site.actor(request),
                current_session=current_session(request),
            )
            request.session.pop(SECRET, None)
            return _after_adding(site, request, codes)
        except GatewayError as error:
            _add_error(form, error)
    context = {"form": form, **shown_app(request, user)}
    return site.show(request, "app", "Authenticator app", context, is_login=False)


def add_passkey(site: Site, request: HttpRequest) -> HttpResponse:
    """A form whose script has the browser make a passkey."""
    from accounts.second_factor.passkeys import begin_registration, finish_registration  # 3 MB that few logins need

    user, form = _local_user(request), PasskeyForm(request.POST or None)
    if form.is_valid():
        try:
            _check_password(request, user, form)
            codes = services.add_passkey(
                user,
                name=form.cleaned_data["name"],
                credential=finish_registration(request, user, request.POST.get("credential", "")),
                actor=site.actor(request),
                current_session=current_session(request),
            )
            return _after_adding(site, request, codes)
        except GatewayError as error:
            _add_error(form, error)
    context = {"form": form, "options": begin_registration(request, user)}
    return site.show(request, "passkey", "New passkey", context, is_login=False)


def _after_adding(site: Site, request: HttpRequest, codes: list[str]) -> HttpResponse:
    """The recovery codes that came with the first factor, on the only page that shows them."""
    if not codes:
        return site.redirect("second-factor")
    context = {"codes": codes, "next_path": site.url("second-factor")}
    return site.show(request, "codes", "Recovery codes", context, is_login=False)


def renew_codes(site: Site, request: HttpRequest) -> HttpResponse:
    """Ask for the password, then show new recovery codes."""
    user, form = _local_user(request), ConfirmationForm(request.POST or None)
    if form.is_valid():
        try:
            _check_password(request, user, form)
            return _after_adding(site, request, services.renew_recovery_codes(user, actor=site.actor(request)))
        except GatewayError as error:
            _add_error(form, error)
    context = {
        "form": form,
        "effect": "The old recovery codes are refused from now on.",
        "action": "Create new codes",
        "back": site.url("second-factor"),
    }
    return site.show(request, "confirm", "New recovery codes", context, is_login=False)


def remove_app(site: Site, request: HttpRequest) -> HttpResponse:
    """Ask for the password, then remove the app."""
    remove = partial(services.remove_own_app, _local_user(request))
    return _confirm_removal(site, request, remove, "the authenticator app")


def remove_passkey(site: Site, request: HttpRequest, passkey_id: int) -> HttpResponse:
    """Ask for the password, then remove one of the user's passkeys; raises NotFound."""
    user = _local_user(request)
    passkey = Passkey.objects.filter(user=user, pk=passkey_id).first()
    if passkey is None:
        raise NotFound("There is no such passkey.")
    remove = partial(services.remove_own_passkey, user, passkey.pk)
    return _confirm_removal(site, request, remove, f"the passkey {passkey.name}")


def _confirm_removal(site: Site, request: HttpRequest, remove: partial[None], factor: str) -> HttpResponse:
    form = ConfirmationForm(request.POST or None)
    if form.is_valid():
        try:
            _check_password(request, _user(request), form)
            remove(actor=site.actor(request), current_session=current_session(request))
            return site.redirect("second-factor")
        except GatewayError as error:
            _add_error(form, error)
    effect = f"You can no longer log in with {factor}. Your other sessions end."
    context = {"form": form, "effect": effect, "action": "Remove", "back": site.url("second-factor")}
    return site.show(request, "confirm", f"Remove {factor}", context, is_login=False)


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User), "the sites admit nobody without a login"
    return request.user


def _local_user(request: HttpRequest) -> User:
    """The user, who has a password here; raises PermissionDenied for others: their issuer asks for a factor."""
    user = _user(request)
    if not user.has_usable_password():
        raise PermissionDenied("You log in with an identity provider, which asks for a second factor itself.")
    return user


def _check_password(request: HttpRequest, user: User, form: ConfirmationForm | AppForm | PasskeyForm) -> None:
    """Raise ValidationError and RateLimited unless the password is right: an open session must not be enough."""
    sessions.check_own_password(
        user,
        form.cleaned_data["current_password"],
        address=request.META.get("REMOTE_ADDR", ""),
        record_event=session_event_recorder(request),
    )


def _add_error(form: ConfirmationForm | AppForm | PasskeyForm, error: GatewayError) -> None:
    field = FIELDS.get(error.field)
    is_shown = field in form.fields
    form.add_error(field if is_shown else None, error.message)


# The route below second-factor/, the name, and the view, which is called with its site and the request.
PAGES: tuple[tuple[str, str, View], ...] = (
    ("", "second-factor", overview),
    ("app/", "second-factor-app", set_up_app),
    ("app/remove/", "second-factor-app-remove", remove_app),
    ("passkeys/new/", "second-factor-passkey", add_passkey),
    ("passkeys/<int:passkey_id>/remove/", "second-factor-passkey-remove", remove_passkey),
    ("codes/", "second-factor-codes", renew_codes),
)
