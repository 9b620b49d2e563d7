"""The form of users in the console."""

from django import forms
from django.db.models import Model
from unfold.widgets import UnfoldAdminPasswordWidget

from accounts import services, sessions
from accounts.models import User, UserKind
from gateway_project.console.audit import caller, session_event_recorder
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.errors import Conflict, GatewayError
from gateway_project.json_types import JsonObject


class UserForm(ServiceForm):
    """A user, with a password that is only ever written."""

    form_names = {"current_password": "present_password", "new_password": "password", "group_id": "owning_group"}

    password = forms.CharField(
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        strip=False,
        required=False,
        help_text="Leave empty to keep the current password. A new password ends the user's sessions.",
    )
    present_password = forms.CharField(
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"}),
        strip=False,
        required=False,
        help_text="Required to change your own password. Changing it ends your other sessions.",
    )

    class Meta:
        model = User
        fields = ["username", "kind", "owning_group", "display_name", "email", "is_active", "roles"]
        labels = {"is_active": "Active", "owning_group": "Group"}
        help_texts = {
            "kind": "A service account is for a program: it has keys, but no password. The kind cannot be changed "
            "later.",
            "owning_group": "For a service account: the group that owns it. The account is a member of this group.",
            "username": "The login name. It cannot be changed later.",
            "is_active": "An inactive user cannot log in, and their keys are refused.",
            "roles": "The user's permissions. The role admin may do everything, including use the console.",
        }

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is None:
            self.fields["password"].help_text = "For a person: at least eight characters."
            self.fields["roles"].help_text += " Empty: the role user."

    def initial_of(self, row: Model) -> JsonObject:
        return {"password": ""}  # not the hash

    def clean(self) -> JsonObject:
        """Check the current password, outside of the service's transaction: the log keeps a wrong guess."""
        values = self.cleaned_data
        if self.instance.pk is None:
            self._check_kind(values)
            self._check_name(values)
            self._check_password(values)
        current_password = values.pop("present_password", None)
        if "present_password" in self.fields and values.get("password") and not self.errors:
            try:
                address = self.request.META.get("REMOTE_ADDR", "")
                sessions.check_own_password(
                    caller(self.request).user,
                    current_password,
                    address=address,
                    record_event=session_event_recorder(self.request),
                )
            except GatewayError as error:
                self.add_service_error(error)
        return values

    def _check_kind(self, values: JsonObject) -> None:
        """A person has a password, a service account a group."""
        is_service = values.get("kind") == UserKind.SERVICE
        missing, superfluous = ("owning_group", "password") if is_service else ("password", "owning_group")
        if not values.get(missing) and missing not in self.errors:
            self.add_error(missing, "This field is required.")
        if values.get(superfluous):
            self.add_error(superfluous, f"Leave this empty for a {'service account' if is_service else 'person'}.")

    # The service would say one of these two, and the other after the next try.

    def _check_name(self, values: JsonObject) -> None:
        """Nobody has the name of a new user."""
        name = values.get("username") or ""
        if row := User.objects.with_username(name).first():
            self.add_service_error(Conflict(services.NAME_EXISTS.format(name=name), field="username").with_row(row))

    def _check_password(self, values: JsonObject) -> None:
        """The password of a new person is good enough."""
        names = {name: values.get(name) or "" for name in ("username", "display_name", "email")}
        if values.get("password"):
            try:
                services.validated_password(values["password"], User(**names))
            except GatewayError as error:
                self.add_service_error(error)
