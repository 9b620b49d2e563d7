"""The user's password and sessions."""

from uuid import UUID

from django import forms
from django.contrib.auth import update_session_auth_hash
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from accounts import services, sessions
from accounts.guessing.password_login import may_log_in_with_password
from accounts.models import Session, User
from gateway_project.api import audit
from gateway_project.console.audit import session_event_recorder
from gateway_project.errors import GatewayError
from gateway_project.me.forms import PasswordForm, add_errors
from gateway_project.me.site import actor, caller, page, show_page


@page
def account(request: HttpRequest) -> HttpResponse:
    """Sessions, and a form for another password."""
    form = PasswordForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and _has_changed(request, form):
        return HttpResponseRedirect(f"{reverse('me:account')}?changed=1")
    now, own = timezone.now(), caller(request)
    context = {
        "form": form,
        "sessions": Session.objects.of(own.user).live(now).order_by("-last_used_at"),
        "own_session": own.session,
        "has_password": own.user.has_usable_password() and may_log_in_with_password(own.user),
        "has_changed": "changed" in request.GET and request.method == "GET",
    }
    return show_page(request, "account", "Account", context)


@page
@require_POST
def end_session(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Log one of the user's devices out; raises Http404 for a session that is not theirs."""
    own = caller(request)
    if not Session.objects.of(own.user).live().filter(pk=session_id).exists():
        raise Http404
    sessions.end_session(session_id)
    audit.record(actor(request), "sign out", "users", own.user.pk)
    return HttpResponseRedirect(reverse("me:account"))


def _has_changed(request: HttpRequest, form: forms.Form) -> bool:
    """Change the password; what is wrong with it goes to the form."""
    own, values = caller(request), form.cleaned_data
    user = own.user
    assert isinstance(user, User)
    try:
        address = request.META.get("REMOTE_ADDR", "")
        # Outside of the change's transaction: the log keeps a wrong guess.
        sessions.check_own_password(
            user, values["current"], address=address, record_event=session_event_recorder(request)
        )
        services.update_user(user, password=values["new"], current_session=own.session)
    except GatewayError as error:
        add_errors(form, error, {"new_password": "new", "current_password": "current"})
        return False
    audit.record(actor(request), "update", "users", user.pk, attributes=["newPassword"])
    update_session_auth_hash(request, user)  # otherwise the new password would end this session, too
    return True
