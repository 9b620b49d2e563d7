"""The forms of the pages for ordinary users."""

from collections.abc import Mapping, Sequence

from django import forms
from django.http import QueryDict
from django.utils.text import capfirst
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from keys.forms import end_of
from keys.services import default_lifetime


def add_errors(form: forms.Form, error: GatewayError, names: Mapping[str, str]) -> None:
    """Add each problem to its field, as a sentence; one of a field that the form does not have, to the form."""
    for problem in error.problems:
        name = names.get(problem.field, problem.field)
        is_shown = name in form.fields
        form.add_error(name if is_shown else None, capfirst(problem.detail) if is_shown else problem.sentence)


class KeyForm(forms.Form):
    """A new key of one's own."""

    name = forms.CharField(max_length=100, widget=UnfoldAdminTextInputWidget)
    expiry = forms.DateField(
        label="Last day (UTC)", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"})
    )
    permissions = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, initial=["work"])

    def __init__(self, data: QueryDict | None, *, features: Sequence[str]) -> None:
        super().__init__(data)
        permissions = self.fields["permissions"]
        assert isinstance(permissions, forms.MultipleChoiceField)
        permissions.choices = [(name, name) for name in features]
        self.fields["expiry"].help_text = f"Default: {default_lifetime().days} days from now."

    def values(self) -> JsonObject:
        """The values for the service."""
        values = dict(self.cleaned_data)
        last_day = values.pop("expiry")
        return values | ({"expiry": end_of(last_day)} if last_day else {})


class PasswordForm(forms.Form):
    """Another password for the user's own account."""

    current = forms.CharField(
        label="Current password",
        strip=False,
        max_length=4096,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"}),
    )
    new = forms.CharField(
        label="New password",
        strip=False,
        max_length=4096,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
    )
