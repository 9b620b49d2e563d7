"""The forms of whoever administers a group."""

from collections.abc import Mapping

from django import forms
from django.utils.text import capfirst
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from accounts.models import LONGEST_USERNAME, User, check_name, check_text
from gateway_project.console.display.widgets import NativeSelect
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from providers.models import Provider
from rules.models import MAX_DESCRIPTION_LENGTH, MAX_PATTERN_LENGTH, Rule
from rules.serializers import MAX_NAME_LENGTH


def add_errors(form: forms.Form, error: GatewayError, names: Mapping[str, str]) -> None:
    """Add each problem to its field, as a sentence; one of a field that the form does not have, to the form."""
    for problem in error.problems:
        name = names.get(problem.field, problem.field)
        is_shown = name in form.fields
        form.add_error(name if is_shown else None, capfirst(problem.detail) if is_shown else problem.sentence)


class AccountForm(forms.Form):
    """A new service account."""

    username = forms.CharField(
        label="Name",
        strip=False,
        max_length=LONGEST_USERNAME,
        validators=[check_name],
        widget=UnfoldAdminTextInputWidget,
    )
    display_name = forms.CharField(
        required=False,
        max_length=User._meta.get_field("display_name").max_length,
        validators=[check_text],
        widget=UnfoldAdminTextInputWidget,
        help_text="What it is for.",
    )


class RuleForm(forms.Form):
    """A rule that denies models to the group and to those below it."""

    name = forms.CharField(max_length=MAX_NAME_LENGTH, validators=[check_name], widget=UnfoldAdminTextInputWidget)
    models = forms.CharField(
        label="Models that are denied",
        required=False,
        max_length=MAX_PATTERN_LENGTH,
        widget=UnfoldAdminTextInputWidget,
        help_text="A pattern (RE2) for the whole name, such as gpt-5|gpt-5-.*; empty: every model.",
    )
    provider = forms.ModelChoiceField(
        Provider.objects.order_by("name"), required=False, empty_label="Of any provider", widget=NativeSelect
    )
    enabled = forms.BooleanField(required=False, initial=True, help_text="The rule is applied.")
    description = forms.CharField(
        required=False, max_length=MAX_DESCRIPTION_LENGTH, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2})
    )

    @staticmethod
    def initial_of(rule: Rule) -> JsonObject:
        """The values of a stored rule."""
        values = {name: getattr(rule, name) for name in ("name", "enabled", "description")}
        return values | {"models": rule.regex, "provider": rule.provider_id}

    def values(self) -> JsonObject:
        """The values for the service."""
        values = {name: self.cleaned_data[name] for name in ("name", "enabled", "description")}
        provider = self.cleaned_data["provider"]
        return values | {"regex": self.cleaned_data["models"], "provider_id": getattr(provider, "pk", None)}
