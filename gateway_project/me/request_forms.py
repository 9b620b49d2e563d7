"""The forms that ask for a model, for membership of a group and for a higher limit."""

from django import forms
from django.utils.functional import lazy
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from accounts.access_requests.models import MAX_MODEL_LENGTH, MAX_REASON_LENGTH, RequestKind
from accounts.models import MAX_GROUP_NAME_LENGTH, Group
from gateway_project.console.display.widgets import NativeSelect
from gateway_project.env import WITHOUT_WINDOW
from gateway_project.json_types import JsonObject
from licensing.models import Measure, Window
from providers.console.currency import cost_note
from providers.models import Provider


class AskForm(forms.Form):
    """What every request has."""

    title = ""
    field_order = ["model", "provider", "group", "measure", "window", "amount", "reason"]

    reason = forms.CharField(max_length=MAX_REASON_LENGTH, widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}))

    def values(self) -> JsonObject:
        """The values for the service."""
        return dict(self.cleaned_data)


class ModelForm(AskForm):
    """A model, of one provider or of any."""

    title = "Ask for a model"

    model = forms.CharField(max_length=MAX_MODEL_LENGTH, widget=UnfoldAdminTextInputWidget)
    provider = forms.ModelChoiceField(
        Provider.objects.enabled().order_by("name"),
        required=False,
        empty_label="Any provider",
        widget=NativeSelect,
    )

    def values(self) -> JsonObject:
        values = super().values()
        return values | {"provider_id": getattr(values.pop("provider"), "pk", None)}


class MembershipForm(AskForm):
    """Membership of a group, which is known by its name: a list would show the groups of all."""

    title = "Ask to join a group"

    group = forms.CharField(
        max_length=MAX_GROUP_NAME_LENGTH, widget=UnfoldAdminTextInputWidget, help_text="The whole name of the group."
    )

    def clean_group(self) -> Group:
        group = Group.objects.filter(name=self.cleaned_data["group"]).first()
        if group is None:
            raise forms.ValidationError("There is no group of this name.")
        return group

    def values(self) -> JsonObject:
        values = super().values()
        return values | {"group_id": values.pop("group").pk}


def measure_field() -> forms.ChoiceField:
    """What a limit counts."""
    return forms.ChoiceField(choices=Measure.choices, widget=NativeSelect)


def window_field() -> forms.ChoiceField:
    """The time in which a limit counts."""
    return forms.ChoiceField(
        choices=[choice for choice in Window.choices if choice[0] != Window.NONE],
        widget=NativeSelect,
        help_text="Ignored for concurrent requests.",
    )


def amount_field() -> forms.DecimalField:
    """How much a limit leaves."""
    return forms.DecimalField(
        max_digits=20, decimal_places=6, widget=UnfoldAdminTextInputWidget, help_text=lazy(cost_note, str)()
    )


class LimitForm(AskForm):
    """A higher limit of the user."""

    title = "Ask for a higher limit"

    measure = measure_field()
    window = window_field()
    amount = amount_field()

    def values(self) -> JsonObject:
        values = super().values()
        return values | ({"window": Window.NONE} if values["measure"] in WITHOUT_WINDOW else {})


FORMS: dict[str, type[AskForm]] = {
    RequestKind.MODEL.value: ModelForm,
    RequestKind.MEMBERSHIP.value: MembershipForm,
    RequestKind.LIMIT.value: LimitForm,
}
