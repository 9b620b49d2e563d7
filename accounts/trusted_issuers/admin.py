"""Trusted issuers in the console."""

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextareaWidget

from accounts.trusted_issuers import services
from accounts.trusted_issuers.fetching import fetch_keys_now
from accounts.trusted_issuers.jwks import ALGORITHMS
from accounts.trusted_issuers.models import TrustedIssuer, default_algorithms
from accounts.trusted_issuers.serializers import keys_of
from accounts.trusted_issuers.viewsets import TrustedIssuerViewSet
from gateway_project.console.audit import record_change
from gateway_project.console.forms.inputs import JsonObjectField
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.row_actions import row_action
from gateway_project.console.tables import ServiceAdmin
from gateway_project.json_types import JsonObject

FIELDS = (
    *("name", "enabled", "issuer", "audience", "jwks_url", "jwks", "algorithms"),
    *("user_claim", "user_prefix", "subjects", "leeway_seconds", "max_age_seconds"),
)
JSON_AREA = {"rows": 4, "spellcheck": "false"}


class TrustedIssuerForm(ServiceForm):
    """A trusted issuer; its keys and its subjects are JSON, as in the API."""

    algorithms = forms.MultipleChoiceField(
        choices=[(name, name) for name in ALGORITHMS],
        initial=default_algorithms,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )
    jwks = JsonObjectField(
        label="Stored keys",
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs=JSON_AREA),
        help_text="The issuer's public keys as a JSON Web Key Set. Only if the gateway cannot fetch them.",
    )
    subjects = JsonObjectField(
        required=False,
        initial=dict,
        empty_value={},
        widget=UnfoldAdminTextareaWidget(attrs=JSON_AREA),
        help_text='As JSON: {"system:serviceaccount:search:indexer": "indexer"}. If any are listed, all other '
        "values of the claim are refused.",
    )

    class Meta:
        model = TrustedIssuer
        fields = list(FIELDS)
        labels = {"jwks_url": "Address of the keys"}
        help_texts = {
            "issuer": "The exact value of iss in its tokens.",
            "audience": "The value that aud of its tokens must contain. No other service should accept tokens for "
            "this audience.",
            "jwks_url": "An https URL. Empty: the address in the issuer's /.well-known/openid-configuration.",
            "user_claim": "The claim that names the user who sends the request.",
            "user_prefix": "Without subjects: the user name is this prefix followed by the value of the claim.",
            "leeway_seconds": "The most seconds by which its clock may differ from the gateway's.",
            "max_age_seconds": "The most seconds after iat for which a token is accepted, whatever its exp says.",
        }


@admin.register(TrustedIssuer)
class TrustedIssuerAdmin(ServiceAdmin):
    """Clusters, clouds and portals whose tokens are accepted for work instead of API keys."""

    viewset = TrustedIssuerViewSet
    form = TrustedIssuerForm
    empty_message = "There are no trusted issuers. Work needs an API key or a login."
    list_display = ["name", "is_enabled", "issuer", "audience", "keys"]
    list_filter = ["enabled"]
    search_fields = ["name", "issuer", "audience"]
    ordering = ["id"]
    actions_detail = ["fetch"]

    def get_fieldsets(self, request: HttpRequest, obj: TrustedIssuer | None = None) -> list[object]:
        state = [] if obj is None else [("State", {"fields": ["keys", "fetched_at", "fetch_problem"]})]
        return [
            (None, {"fields": ["name", "enabled", "issuer", "audience"]}),
            ("Keys", {"fields": ["jwks_url", "jwks", "algorithms"]}),
            ("Users", {"fields": ["user_claim", "user_prefix", "subjects"]}),
            ("Times", {"fields": ["leeway_seconds", "max_age_seconds"]}),
            *state,
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: TrustedIssuer | None = None) -> list[str]:
        return ["keys", "fetched_at", "fetch_problem"]

    @row_action(
        "Fetch keys now",
        icon="key",
        path="fetch",
        effect="The gateway reads the keys from the issuer's server now. This takes up to 5 seconds.",
        atomic=False,
        applies_to=lambda row: row.enabled and not row.has_own_keys,
    )
    def fetch(self, request: HttpRequest, row: TrustedIssuer) -> str:
        before = keys_of(row)
        fetch_keys_now(row)
        record_change(request, "fetch", TrustedIssuerViewSet.resource_name, row.pk, before=before, after=keys_of(row))
        return f"The keys could not be fetched. {row.fetch_problem}" if row.fetch_problem else "The keys were fetched."

    @display(description="Enabled", boolean=True, ordering="enabled")
    def is_enabled(self, row: TrustedIssuer) -> bool:
        return row.enabled

    @display(description="Keys")
    def keys(self, row: TrustedIssuer) -> str:
        return ", ".join(row.key_ids) or "none yet"

    def create(self, request: HttpRequest, values: JsonObject) -> TrustedIssuer:
        return services.create_trusted_issuer(**values)

    def change(self, request: HttpRequest, row: TrustedIssuer, values: JsonObject) -> None:
        services.update_trusted_issuer(row, **values)

    def destroy(self, request: HttpRequest, row: TrustedIssuer) -> None:
        services.delete_trusted_issuer(row)

    def deletion_effects(self, row: TrustedIssuer) -> list[str]:
        return ["Tokens of this issuer are refused immediately."]
