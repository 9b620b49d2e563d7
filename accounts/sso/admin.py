"""Identity providers and identities in the console."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from unfold.decorators import display
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from accounts.sso import services
from accounts.sso.models import Identity, IdentityProvider
from accounts.sso.viewsets import IdentityProviderViewSet, IdentityViewSet
from gateway_project.console.audit import record_change
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import link, link_column
from gateway_project.console.row_actions import row_action
from gateway_project.console.tables import ServiceAdmin
from gateway_project.json_types import JsonObject

CLAIMS = ("user_name_claim", "display_name_claim", "email_claim")
ADDRESSES = ("redirect_uri", "backchannel_logout_uri", "post_logout_redirect_uri")


class IdentityProviderForm(ServiceForm):
    """A provider, with a secret that is only ever written."""

    client_secret = forms.CharField(
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        required=False,
        help_text="Leave empty to keep the current secret.",
    )

    class Meta:
        model = IdentityProvider
        fields = ["name", *(name for name in services.PLAIN)]
        labels = {"match_user_names": "Match user names", "client_id": "Client id"}
        help_texts = {
            "name": "The login pages show: Continue with …",
            "slug": "In the addresses of the flow: a-z, 0-9 and -.",
            "issuer": "Exactly as in the provider's discovery document.",
            "create_users": "A first login creates a user. Without it, only linked users log in.",
            "match_user_names": "A first login takes over the local user of the same name, unless that user has "
            "special rights such as the role admin.",
            "rules": "One rule per line: groups contains llm-admins → role admin; email_domain equals example.com → "
            "group Staff; always → role user. Each login gives the roles and groups of the rules that match, and "
            "takes away those of the others.",
        }
        widgets = {
            "name": UnfoldAdminTextInputWidget,
            "rules": UnfoldAdminTextareaWidget(attrs={"rows": 6, "spellcheck": "false"}),
        }

    def initial_of(self, row: Model) -> JsonObject:
        return {"client_secret": ""}


@admin.register(IdentityProvider)
class IdentityProviderAdmin(ServiceAdmin):
    """Where users log in with OpenID Connect."""

    viewset = IdentityProviderViewSet
    form = IdentityProviderForm
    empty_message = "There are no identity providers. Users log in with their passwords."
    list_display = ["name", "slug", "issuer", "is_enabled"]
    list_filter = ["enabled"]
    search_fields = ["name", "issuer"]
    ordering = ["name", "id"]
    actions_detail = ["fetch"]
    readonly_fields = list(ADDRESSES)

    def get_fieldsets(self, request: HttpRequest, obj: IdentityProvider | None = None) -> list:
        client = ["issuer", "client_id", "client_secret", "scopes"]
        return [
            (None, {"fields": ["name", "slug", "enabled"]}),
            ("Client", {"fields": client}),
            ("Users", {"fields": ["create_users", "match_user_names", "rules", *CLAIMS]}),
            *([("To enter at the provider", {"fields": list(ADDRESSES)})] if obj else []),
        ]

    @row_action(
        "Fetch keys now",
        icon="key",
        path="fetch",
        effect="The gateway reads the provider's addresses and keys now. Logins do not wait for this.",
        atomic=False,
        applies_to=lambda row: row.enabled,
    )
    def fetch(self, request: HttpRequest, row: IdentityProvider) -> str:
        number = services.fetch_provider_keys(row)
        record_change(request, "fetch", IdentityProviderViewSet.resource_name, row.pk, after={"keys": number})
        return f"The provider has {number} signing {'key' if number == 1 else 'keys'}."

    @display(description="Enabled", boolean=True, ordering="enabled")
    def is_enabled(self, row: IdentityProvider) -> bool:
        return row.enabled

    @display(description="Redirect URI")
    def redirect_uri(self, row: IdentityProvider) -> str:
        return row.redirect_uri

    @display(description="Back-channel logout URI")
    def backchannel_logout_uri(self, row: IdentityProvider) -> str:
        return row.backchannel_logout_uri

    @display(description="Post-logout redirect URI")
    def post_logout_redirect_uri(self, row: IdentityProvider) -> str:
        return row.post_logout_redirect_uri

    def create(self, request: HttpRequest, values: JsonObject) -> IdentityProvider:
        return services.create_identity_provider(**_without_empty_secret(values))

    def change(self, request: HttpRequest, row: IdentityProvider, values: JsonObject) -> None:
        services.update_identity_provider(row, **_without_empty_secret(values))

    def destroy(self, request: HttpRequest, row: IdentityProvider) -> None:
        services.delete_identity_provider(row)

    def deletion_effects(self, row: IdentityProvider) -> list[str]:
        return [
            "Nobody can log in with it any more. Existing sessions go on.",
            "Users and their identities stay.",
        ]


def _without_empty_secret(values: JsonObject) -> JsonObject:
    return {name: value for name, value in values.items() if name != "client_secret" or value}


class IdentityForm(ServiceForm):
    form_names = {"user_id": "user"}

    class Meta:
        model = Identity
        fields = ["user", "issuer", "subject"]
        help_texts = {"subject": "The claim sub of the user's tokens, exactly as the provider shows it."}


@admin.register(Identity)
class IdentityAdmin(ServiceAdmin):
    """Which users the subjects of identity providers log in as."""

    viewset = IdentityViewSet
    form = IdentityForm
    empty_message = "There are no identities. A user's first login with an identity provider creates one."
    list_display = [link_column("user"), "issuer_link", "subject", "last_login"]
    list_display_links = ["subject"]
    search_fields = ["user__name_key", "issuer", "subject"]
    ordering = ["id"]
    autocomplete_fields = ["user"]
    list_select_related = ["user"]

    def get_readonly_fields(self, request: HttpRequest, obj: Identity | None = None) -> list[str]:
        return ["created_at", "last_login"] if obj else []

    def get_fields(self, request: HttpRequest, obj: Identity | None = None) -> list[str]:
        return ["user", "issuer", "subject", *(["created_at", "last_login"] if obj else [])]

    def has_change_permission(self, request: HttpRequest, obj: Identity | None = None) -> bool:
        return super().has_change_permission(request, obj) and obj is None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Identity]:
        provider = IdentityProvider.objects.filter(issuer=OuterRef("issuer")).values("pk")
        return super().get_queryset(request).select_related("user").annotate(provider_id=Subquery(provider))

    @display(description="Issuer", ordering="issuer")
    def issuer_link(self, row: Any) -> str:
        """A link to the identity provider; plain text if there is none of this issuer."""
        page = reverse("admin:accounts_identityprovider_change", args=[row.provider_id]) if row.provider_id else ""
        return link(row.issuer, page)

    def create(self, request: HttpRequest, values: JsonObject) -> Identity:
        return services.link_identity(user_id=values["user"].pk, issuer=values["issuer"], subject=values["subject"])

    def destroy(self, request: HttpRequest, row: Identity) -> None:
        services.unlink_identity(row)

    def deletion_effects(self, row: Identity) -> list[str]:
        return ["The subject can no longer log in as this user. The user and their sessions stay."]
