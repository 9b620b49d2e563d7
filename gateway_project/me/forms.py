"""The forms of the pages for ordinary users."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta

from django import forms
from django.http import QueryDict
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from gateway_project.access_requests.forms import NativeSelect
from gateway_project.json_types import JsonObject
from keys.services import default_lifetime


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
        return values | ({"expiry": datetime.combine(last_day, time.max, UTC)} if last_day else {})


class RotationForm(forms.Form):
    """How long the present secret is accepted beside the new one."""

    hours = forms.ChoiceField(
        label="The current secret keeps working for",
        choices=[("24", "24 hours"), ("0", "no time: it ends now"), ("1", "1 hour"), ("168", "7 days")],
        widget=NativeSelect,
    )

    def overlap(self) -> timedelta:
        return timedelta(hours=int(self.cleaned_data["hours"]))


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
