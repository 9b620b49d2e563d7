"""Authentication of the console: admins log in with their password, which opens a session as the API's login does."""

from uuid import UUID

from django import forms
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.dispatch import receiver
from django.http import HttpRequest
from unfold.forms import AuthenticationForm

from accounts import sessions
from accounts.models import Session, User
from accounts.second_factor import pending
from gateway_project.console.audit import LOGIN, caller, record_session_event, session_event_recorder
from gateway_project.errors import GatewayError, SecondFactorMissing, SecondFactorRequired


class Backend(BaseBackend):
    """Finds the user of a console session; passwords are checked by SignIn."""

    def get_user(self, user_id: int) -> User | None:
        return User.objects.able_to_log_in().prefetch_related("roles").filter(pk=user_id).first()


class LoginRequest(HttpRequest):
    """The request of the login form, with the id of the session that the form opened."""

    login: UUID
    awaits_second_step: bool  # whether the form has begun a second step instead


class SignIn(AuthenticationForm):
    """The login form, with the same throttle, log entries and messages as the API's login."""

    request: LoginRequest
    admits_everyone = False

    def clean(self) -> dict[str, str]:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is not None and password:
            try:
                self.user_cache, self.request.login, _ = sessions.log_in(
                    username=name,
                    password=password,
                    device=self.request.META.get("HTTP_USER_AGENT", ""),
                    address=self.request.META.get("REMOTE_ADDR", ""),
                    record_event=session_event_recorder(self.request),
                )
            except (SecondFactorRequired, SecondFactorMissing) as error:
                self._begin_second_step(error)
            except GatewayError as error:
                raise forms.ValidationError(error.sentence) from None
            if not self._admits(self.user_cache):
                sessions.end_session(self.request.login)
                self._refuse(self.user_cache)
        return self.cleaned_data

    def _begin_second_step(self, error: SecondFactorRequired | SecondFactorMissing) -> None:
        """Remember whose password was right; the form stays invalid, and the view leads to the second step."""
        if not self._admits(error.user):
            self._refuse(error.user)
        pending.begin_login(self.request, error.user, site="me" if self.admits_everyone else "admin")
        self.request.awaits_second_step = True
        raise forms.ValidationError(error.sentence) from None

    def _admits(self, user: User) -> bool:
        return self.admits_everyone or user.is_staff

    def _refuse(self, user: User) -> None:
        record_session_event(self.request, "A user without the role admin was refused by the console.", user=user)
        raise forms.ValidationError("The console is for users with the role admin.")


@receiver(user_logged_in, dispatch_uid="console.enter")
def attach_login(sender: object, request: LoginRequest, user: User, **options: object) -> None:
    """Attach the session that the form opened to the console's session."""
    request.session[LOGIN] = str(request.login)


@receiver(user_logged_out, dispatch_uid="console.leave")
def end_login(sender: object, request: HttpRequest, user: User | None, **options: object) -> None:
    """End the attached session when the user signs out."""
    if login := request.session.get(LOGIN):
        sessions.end_session(UUID(login))
        if user is not None:  # the user may have been deactivated meanwhile
            record_session_event(request, f"{user.username} left the console.", user=user, operation="logout")


def is_alive(request: HttpRequest) -> bool:
    """Whether the session attached to the console's session has neither ended nor expired."""
    login = request.session.get(LOGIN)
    return login is not None and Session.objects.live().filter(pk=UUID(login), user_id=caller(request).user.pk).exists()
