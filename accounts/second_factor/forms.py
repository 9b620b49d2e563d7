"""The forms of the pages for second factors."""

from django import forms
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from accounts.models import MAX_PASSWORD_LENGTH
from accounts.second_factor.models import MAX_PASSKEY_NAME_LENGTH
from accounts.serializers import MAX_OTP_LENGTH

CODE = {"autocomplete": "one-time-code", "autocapitalize": "off", "spellcheck": "false"}


def _password() -> forms.CharField:
    return forms.CharField(
        label="Your password",
        strip=False,
        max_length=MAX_PASSWORD_LENGTH,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password"}),
    )


class CodeInput(UnfoldAdminTextInputWidget):
    """What was typed is not shown again: a recovery code with one wrong letter is nearly one."""

    def format_value(self, value: object) -> None:
        return None


class LoginCodeForm(forms.Form):
    """The second step of a login."""

    code = forms.CharField(
        max_length=MAX_OTP_LENGTH,
        widget=CodeInput(attrs={**CODE, "autofocus": True}),
        help_text="The code that your authenticator app shows, or a recovery code.",
    )


class FirstAppForm(forms.Form):
    """The app that the second step of a login begins with."""

    code = forms.CharField(
        max_length=MAX_OTP_LENGTH,
        widget=CodeInput(attrs=CODE),
        help_text="The code that the app shows now.",
    )


class AppForm(FirstAppForm):
    """An app for a user who is logged in."""

    current_password = _password()


class ConfirmationForm(forms.Form):
    """A change that the password is asked for."""

    current_password = _password()


class PasskeyForm(forms.Form):
    """A new passkey; the page's script fills in what the browser has made."""

    name = forms.CharField(
        max_length=MAX_PASSKEY_NAME_LENGTH,
        widget=UnfoldAdminTextInputWidget,
        help_text="A name by which you recognise the device.",
    )
    current_password = _password()
