"""The form of a key in the console."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import TypeVar

from django import forms
from django.conf import settings
from django.db.models import Model
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from accounts.models import Feature
from gateway_project.console.display.measures import CHOICES as MEASURE_CHOICES
from gateway_project.console.display.widgets import NativeSelect
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.env import WINDOWS, WITHOUT_WINDOW
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from keys import services
from keys.models import ApiKey
from keys.restrictions import MAX_TOKENS, ContentLogging, read_models, read_networks, read_tags
from providers.console.currency import cost_note

LIMIT = ["limit_measure", "limit_window", "limit_amount"]
RESTRICTIONS = ["models", "networks", "not_before", "tags", "max_tokens_per_request", "content_logging"]
LOGGING_LABELS = {
    ContentLogging.DEFAULT: "As the gateway",
    ContentLogging.REDACTED: "Sizes and hashes",
    ContentLogging.NONE: "Nothing",
}
Value = TypeVar("Value")


class Lines(forms.CharField):
    """Several texts, one on each line."""

    widget = UnfoldAdminTextareaWidget

    def __init__(self, help_text: str) -> None:
        super().__init__(required=False, strip=False, help_text=help_text)
        self.widget.attrs["rows"] = 3

    def prepare_value(self, value: object) -> object:
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: object) -> list[str]:  # type: ignore[override]  # lines, not one text
        lines = value if isinstance(value, list) else str(value or "").splitlines()
        return [line.strip() for line in lines if line.strip()]

    def has_changed(self, initial: object, data: object) -> bool:
        return self.to_python(initial) != self.to_python(data)


class KeyForm(ServiceForm):
    """A key's own fields; its permissions are names of features. A new key may get a limit with it."""

    form_names = {
        "limits[0]": "limit_measure", **{f"limits[0].{name.removeprefix('limit_')}": name for name in LIMIT},
    }  # fmt: skip

    permissions = forms.MultipleChoiceField(
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        initial=["work"],
        help_text="A subset of the owner's permissions. A key never allows more than its owner currently has.",
    )

    never_expires = forms.BooleanField(
        required=False,
        label="Never expires",
        widget=UnfoldBooleanSwitchWidget,
        help_text="The key stays valid until it is locked, expired or deleted.",
    )
    models = Lines(
        "Patterns (RE2, whole name) of the models and aliases that the key may use, one per line. Rules must allow "
        "them too. Empty: all that the rules allow."
    )
    networks = Lines("Networks that the key is accepted from, one per line, such as 192.0.2.0/24. Empty: all.")
    tags = Lines("Tags of each request with the key, one per line, such as team=search.")
    max_tokens_per_request = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_TOKENS,
        label="Tokens in an answer",
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="The most tokens that an answer may have. Empty: no limit.",
    )
    content_logging = forms.ChoiceField(
        required=False,
        choices=[(kind.value, label) for kind, label in LOGGING_LABELS.items()],
        initial=ContentLogging.DEFAULT.value,
        widget=UnfoldAdminSelectWidget,
        help_text="What the log keeps of prompts and answers. It never keeps more than the gateway's setting.",
    )

    limit_measure = forms.ChoiceField(
        required=False,
        choices=[("", "None of its own"), *MEASURE_CHOICES],
        widget=UnfoldAdminSelectWidget,
        label="Limit of",
        help_text="More limits can be added on the page of the key.",
    )
    limit_window = forms.ChoiceField(
        required=False,
        choices=[(window, window.capitalize()) for window in WINDOWS],
        initial="day",
        widget=UnfoldAdminSelectWidget,
        label="Window",
        help_text="Calendar windows, in UTC. Concurrent requests have none.",
    )
    limit_amount = forms.DecimalField(
        required=False,
        min_value=0,
        max_digits=20,
        decimal_places=6,
        label="Amount",
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="0: unlimited, even if the default setting has a limit.",
    )

    class Meta:
        model = ApiKey
        fields = ["name", "owner", "expiry", "not_before", "provider"]
        help_texts = {
            "provider": "With a provider, the key uses only this provider, for every model.",
            "not_before": "In UTC. The key is refused before this time. Empty: now.",
        }

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        permissions = self.fields.get("permissions")
        if isinstance(permissions, forms.MultipleChoiceField):
            permissions.choices = [(feature.name, feature.label) for feature in Feature.objects.all()]
        if (amount := self.fields.get("limit_amount")) is not None:
            amount.help_text = f"{cost_note()} {amount.help_text}".lstrip()
        if "expiry" in self.fields:
            self.fields["expiry"].help_text = _expiry_help(is_new=self.instance.pk is None)

    def initial_of(self, row: Model) -> dict[str, object]:
        assert isinstance(row, ApiKey)
        return {
            "permissions": row.permissions,
            "models": row.model_patterns,
            "networks": row.networks,
            "tags": [f"{name}={value}" for name, value in sorted(row.tags.items())],
            "max_tokens_per_request": row.max_tokens_per_request,
            "content_logging": row.content_logging,
        }

    def clean_models(self) -> list[str]:
        return _read(read_models, self.cleaned_data["models"])

    def clean_networks(self) -> list[str]:
        return _read(read_networks, self.cleaned_data["networks"])

    def clean_tags(self) -> dict[str, str]:
        pairs = [line.partition("=") for line in self.cleaned_data["tags"]]
        return _read(read_tags, {name.strip(): value.strip() for name, _, value in pairs})

    def clean_content_logging(self) -> str:
        return self.cleaned_data["content_logging"] or ContentLogging.DEFAULT.value

    def clean(self) -> JsonObject:
        """The values for the service: the expiry is None for a key that never expires, and left out for the default."""
        values = self.cleaned_data
        never_expires = values.pop("never_expires", False)
        self._collect_limit(values)
        if self.instance.pk is not None:
            return values
        if never_expires and values.get("expiry"):
            self.add_error("never_expires", "Set an expiry or choose this, not both.")
        elif not never_expires and values.get("expiry", ...) is None:
            del values["expiry"]
        return values

    def _collect_limit(self, values: JsonObject) -> None:
        """Put the limit of a new key in the place of its three fields; it is written as the API takes limits."""
        measure, window, amount = (values.pop(name, None) for name in LIMIT)
        if measure and amount is None and "limit_amount" not in self.errors:
            self.add_error("limit_amount", "Enter an amount.")
        elif amount is not None and not measure and "limit_measure" not in self.errors:
            self.add_error("limit_measure", "Choose what the amount limits.")
        if measure and amount is not None:
            window = "none" if measure in WITHOUT_WINDOW else window
            values["limits"] = [{"measure": measure, "window": window, "amount": f"{amount:f}"}]


class RotationForm(forms.Form):
    """How long the current secret is accepted beside the new one."""

    hours = forms.ChoiceField(
        label="The current secret keeps working for",
        choices=[("24", "24 hours"), ("0", "not at all: it ends now"), ("1", "1 hour"), ("168", "7 days")],
        widget=NativeSelect,
    )

    def overlap(self) -> timedelta:
        return timedelta(hours=int(self.cleaned_data["hours"]))


class ExtensionForm(forms.Form):
    """Another last day for keys that have not expired."""

    last_day = forms.DateField(label="Last day (UTC)", widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))

    def expiry(self) -> datetime:
        return end_of(self.cleaned_data["last_day"])


def end_of(day: date) -> datetime:
    """The last moment of a day in UTC."""
    return datetime.combine(day, time.max, UTC)


def _read(read: Callable[[object], Value], values: object) -> Value:
    try:
        return read(values)
    except ValidationError as error:
        number = error.field.strip("[]")
        place = f"Line {int(number) + 1} " if number.isdigit() else ""
        message = f"{place}{error.message}"
        raise forms.ValidationError(message[0].upper() + message[1:]) from None


def _expiry_help(*, is_new: bool) -> str:
    days, maximum = services.default_lifetime().days, settings.GATEWAY_KEY_MAX_DAYS
    bound = f" At most {maximum} days from now." if maximum else ""
    default = f"Default: {days} days from now." if is_new else "Empty: the key never expires."
    return f"In UTC. {default}{bound}"
