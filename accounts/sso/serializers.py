"""Attributes of identity providers and identities: in answers, and in requests that create or change them."""

from rest_framework import serializers

from accounts.sso.models import (
    DEFAULT_SCOPES,
    MAX_CLAIM_LENGTH,
    MAX_CLIENT_LENGTH,
    MAX_ISSUER_LENGTH,
    MAX_NAME_LENGTH,
    MAX_RULES_LENGTH,
    MAX_SCOPES_LENGTH,
    MAX_SECRET_LENGTH,
    MAX_SLUG_LENGTH,
    MAX_SUBJECT_LENGTH,
    Identity,
    IdentityProvider,
)
from gateway_project.api.fields import Attributes, Boolean, Id, Text


class IdentityProviderSerializer(serializers.ModelSerializer):
    """An identity provider. `clientSecret` is the mask of its secret; the addresses are to be entered there."""

    client_secret = serializers.CharField(source="masked_secret")
    redirect_uri = serializers.CharField()
    backchannel_logout_uri = serializers.CharField()
    post_logout_redirect_uri = serializers.CharField()

    class Meta:
        model = IdentityProvider
        fields = (
            *("id", "name", "slug", "issuer", "client_id", "client_secret", "scopes", "enabled"),
            *("user_name_claim", "display_name_claim", "email_claim", "create_users", "match_user_names", "rules"),
            *("redirect_uri", "backchannel_logout_uri", "post_logout_redirect_uri"),
        )


class IdentityProviderAttributes(Attributes):
    """The attributes of an identity provider that can be set."""

    example = {
        "name": "Example Corp",
        "slug": "corp",
        "issuer": "https://login.example.com/realms/main",
        "clientId": "gateway",
        "clientSecret": "a-secret-of-the-provider",
        "createUsers": True,
        "rules": "always → role user",
    }
    name = Text(max_length=MAX_NAME_LENGTH, help_text='The name on the login pages: "Continue with …".')
    slug = Text(max_length=MAX_SLUG_LENGTH, help_text="In the addresses of the flow: a-z, 0-9 and -.")
    issuer = Text(max_length=MAX_ISSUER_LENGTH, help_text="Exactly as in its discovery document.")
    client_id = Text(max_length=MAX_CLIENT_LENGTH)
    client_secret = Text(
        required=False,
        allow_blank=True,
        max_length=MAX_SECRET_LENGTH,
        help_text="Empty for a public client. Answers show a mask, which can be sent back unchanged.",
    )
    scopes = Text(required=False, max_length=MAX_SCOPES_LENGTH, help_text=f"By default `{DEFAULT_SCOPES}`.")
    enabled = Boolean(required=False)
    user_name_claim = Text(required=False, allow_blank=True, max_length=MAX_CLAIM_LENGTH)
    display_name_claim = Text(required=False, allow_blank=True, max_length=MAX_CLAIM_LENGTH)
    email_claim = Text(required=False, allow_blank=True, max_length=MAX_CLAIM_LENGTH)
    create_users = Boolean(required=False, help_text="Whether a first login creates a user.")
    match_user_names = Boolean(
        required=False,
        help_text="Whether a first login takes over the local user of the same name. Admins are never taken over.",
    )
    rules = Text(
        required=False,
        allow_blank=True,
        max_length=MAX_RULES_LENGTH,
        help_text="One rule per line, such as `groups contains llm-admins → role admin`.",
    )


class IdentitySerializer(serializers.ModelSerializer):
    """Which user a provider's subject logs in as."""

    user_id = serializers.IntegerField()

    class Meta:
        model = Identity
        fields = ("id", "user_id", "issuer", "subject", "created_at", "last_login")


class IdentityAttributes(Attributes):
    """The attributes of a new identity."""

    example = {"userId": 1, "issuer": "https://login.example.com/realms/main", "subject": "f0c2b1"}
    user_id = Id()
    issuer = Text(max_length=MAX_ISSUER_LENGTH)
    subject = Text(max_length=MAX_SUBJECT_LENGTH, help_text="The claim `sub` of the user's tokens.")


class KeyNumber(serializers.Serializer[IdentityProvider]):
    """How many keys a provider signs with."""

    keys = serializers.IntegerField()
