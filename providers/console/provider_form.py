"""The form of a provider."""

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.text import capfirst
from unfold.widgets import UnfoldAdminTextareaWidget

from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import with_link
from gateway_project.errors import Conflict, GatewayError
from gateway_project.json_types import JsonObject
from providers import services
from providers.console.choosing import PLACEHOLDER, trials
from providers.console.parts import SECRET_HELP, secret_field
from providers.formats import FORMATS
from providers.models import TIMEOUTS, Provider


class ProviderForm(ServiceForm):
    """A provider. Its credential can be set and is never shown."""

    form_names = {"api_key": "secret", "models": "new_models"}
    secret = secret_field("Leave empty to keep the credential. A new scheme, host or port in the URL clears it.")
    clear_credential = forms.BooleanField(required=False, help_text="Forget the credential.")
    new_models = forms.CharField(
        required=False,
        label="Models",
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}),
        help_text="The provider's model names, one per line. More can be fetched from the provider later.",
    )

    class Meta:
        model = Provider
        fields = [
            "name", "format", "url", "auth_method", "enabled", "priority", "weight", "cache_scope",
            "cache_ttl_seconds", *TIMEOUTS, "max_response_bytes", "unknown_parameters",
            "health_check_seconds", "health_check_always",
        ]  # fmt: skip
        help_texts = {
            "url": "The base URL, as SDKs take it, such as https://api.openai.com/v1",
        }
        labels = {
            "url": "URL",
            "auth_method": "Authentication",
            "cache_ttl_seconds": "Cache lifetime (seconds)",
            "max_response_bytes": "Longest answer (bytes)",
            "health_check_seconds": "Check every (seconds)",
            "health_check_always": "Check also while it works",
            **{name: f"{name.removesuffix('_seconds').replace('_', ' ').capitalize()} (seconds)" for name in TIMEOUTS},
        }

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self._label("cache_scope", "", f"Default ({settings.GATEWAY_CACHE_SCOPE})")
        self._show_defaults()
        if self.instance.pk is not None:
            return
        self.fields["secret"].help_text = SECRET_HELP
        field = self.fields["unknown_parameters"]
        if isinstance(field, forms.TypedChoiceField) and not callable(field.choices):
            field.choices, field.required = [("", "Default of the format"), *field.choices], False
            field.help_text = _format_defaults()
        self.initial["unknown_parameters"] = ""

    def clean_name(self) -> str:
        """The name. A conflict with another provider is reported together with all other errors."""
        name: str = self.cleaned_data["name"]
        if self.instance.pk is None and (other := Provider.objects.filter(name=name).first()):
            conflict = Conflict(services.name_conflict(name)).with_row(other)
            raise ValidationError(with_link(conflict.message, conflict, self.request))
        return name

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        if word := PLACEHOLDER.search(url):
            raise ValidationError(f"Replace {word[0]} with your own.")
        try:
            return services.checked_url(url)
        except GatewayError as error:
            raise ValidationError(capfirst(error.message)) from None

    def clean(self) -> JsonObject:
        """The fields. If the provider was asked, its error is shown at the field that has to change."""
        trial = trials.get(self.request)
        if trial is not None and trial.error is not None:
            self.add_error(self.form_names.get(trial.error.field, trial.error.field), trial.error.message)
        return self.cleaned_data

    def _show_defaults(self) -> None:
        """Show the values of the settings that apply if a field is empty."""
        defaults = {name: getattr(settings, f"GATEWAY_{name.removesuffix('_seconds').upper()}") for name in TIMEOUTS}
        defaults |= {"cache_ttl_seconds": settings.GATEWAY_CACHE_TTL}
        texts = {name: (f"{value:g}", f"Empty: {value:g} s.") for name, value in defaults.items()}
        answer = settings.GATEWAY_MAX_RESPONSE_BYTES
        texts["max_response_bytes"] = str(answer), f"Empty: {answer / 2**20:g} MiB."
        for name, (placeholder, help_text) in texts.items():
            if (field := self.fields.get(name)) is not None:
                field.widget.attrs["placeholder"] = placeholder
                field.help_text = (
                    f"0: answers are not cached. {help_text}" if name == "cache_ttl_seconds" else help_text
                )

    def _label(self, name: str, value: str, label: str) -> None:
        """Replace the label of one value of a choice."""
        field = self.fields.get(name)
        if isinstance(field, forms.TypedChoiceField) and not callable(field.choices):
            field.choices = [(key, label if key == value else text) for key, text in field.choices]


def _format_defaults() -> str:
    """What the default of each format does with unknown parameters."""
    *first, last = sorted(name for name, format in FORMATS.items() if format.strict)
    return f"Default for the formats {', '.join(first)} and {last}: drop them. Default for all others: pass them on."
