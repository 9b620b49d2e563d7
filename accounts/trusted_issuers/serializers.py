"""Attributes of trusted issuers: in answers, and in requests that create or change them."""

from rest_framework import serializers

from accounts.trusted_issuers.jwks import ALGORITHMS, MAX_KEYS
from accounts.trusted_issuers.models import (
    MAX_AGE_SECONDS,
    MAX_AUDIENCE_LENGTH,
    MAX_CLAIM_LENGTH,
    MAX_ISSUER_LENGTH,
    MAX_LEEWAY_SECONDS,
    MAX_NAME_LENGTH,
    MAX_PREFIX_LENGTH,
    MIN_AGE_SECONDS,
    TrustedIssuer,
)
from accounts.trusted_issuers.values import (
    MAX_SUBJECT_LENGTH,
    MAX_SUBJECTS,
    MAX_URL_LENGTH,
    MAX_USERNAME_LENGTH,
    read_algorithms,
    read_jwks,
    read_subjects,
)
from gateway_project.api.documents import with_camel_names
from gateway_project.api.fields import Attributes, Boolean, Integer, Read, Text
from gateway_project.json_types import JsonObject

ALGORITHM_LIST = {"type": "array", "minItems": 1, "items": {"type": "string", "enum": list(ALGORITHMS)}}
SUBJECTS = {
    "type": "object",
    "maxProperties": MAX_SUBJECTS,
    "propertyNames": {"minLength": 1, "maxLength": MAX_SUBJECT_LENGTH},
    "additionalProperties": {"type": "string", "minLength": 1, "maxLength": MAX_USERNAME_LENGTH},
}
KEY_SET = {
    "type": ["object", "null"],
    "properties": {"keys": {"type": "array", "maxItems": MAX_KEYS, "items": {"type": "object"}}},
    "required": ["keys"],
}


class TrustedIssuerSerializer(serializers.ModelSerializer):
    """A trusted issuer."""

    algorithms = serializers.ListField(child=serializers.CharField())
    jwks = serializers.DictField(allow_null=True)
    subjects = serializers.DictField()
    key_ids = serializers.ListField(child=serializers.CharField(), read_only=True)
    keys_fetched_at = serializers.DateTimeField(source="fetched_at", read_only=True, allow_null=True)
    keys_problem = serializers.CharField(source="fetch_problem", read_only=True)

    class Meta:
        model = TrustedIssuer
        fields = (
            *("id", "name", "enabled", "issuer", "audience", "algorithms", "jwks_url", "jwks", "user_claim"),
            *("user_prefix", "subjects", "leeway_seconds", "max_age_seconds"),
            *("key_ids", "keys_fetched_at", "keys_problem"),
        )


class TrustedIssuerAttributes(Attributes):
    """The attributes of a trusted issuer that can be set."""

    example = {
        "name": "cluster",
        "issuer": "https://kubernetes.default.svc",
        "audience": "llm-gateway",
        "subjects": {"system:serviceaccount:search:indexer": "admin"},
    }
    name = Text(max_length=MAX_NAME_LENGTH)
    enabled = Boolean(required=False)
    issuer = Text(max_length=MAX_ISSUER_LENGTH, help_text="The exact value of `iss` in its tokens.")
    audience = Text(max_length=MAX_AUDIENCE_LENGTH, help_text="The value that `aud` of its tokens must contain.")
    algorithms = Read(
        read_algorithms,
        ALGORITHM_LIST,
        required=False,
        help_text="The algorithms that may sign its tokens (default: RS256 and ES256).",
    )
    jwks_url = Text(
        required=False,
        allow_blank=True,
        max_length=MAX_URL_LENGTH,
        help_text="The https URL of its keys (default: the one in `{issuer}/.well-known/openid-configuration`).",
    )
    jwks = Read(
        read_jwks,
        KEY_SET,
        required=False,
        help_text="Its public keys as a JSON Web Key Set. If set, none are fetched.",
    )
    user_claim = Text(
        required=False,
        max_length=MAX_CLAIM_LENGTH,
        help_text="The claim that names the user who sends the request (default: `sub`).",
    )
    user_prefix = Text(
        required=False,
        allow_blank=True,
        max_length=MAX_PREFIX_LENGTH,
        help_text="Without `subjects`: the user name is this prefix followed by the value of the claim.",
    )
    subjects = Read(
        read_subjects,
        SUBJECTS,
        required=False,
        help_text="User names by values of the claim. If any are listed, all other values are refused.",
    )
    leeway_seconds = Integer(
        required=False,
        min_value=0,
        max_value=MAX_LEEWAY_SECONDS,
        help_text="The most seconds by which its clock may differ from the gateway's (default: 30).",
    )
    max_age_seconds = Integer(
        required=False,
        min_value=MIN_AGE_SECONDS,
        max_value=MAX_AGE_SECONDS,
        help_text="The most seconds after `iat` for which a token is accepted, whatever its `exp` says (default: "
        "86,400).",
    )


class FetchedKeys(serializers.Serializer[TrustedIssuer]):
    """The keys of an issuer, when they were fetched, and what is wrong with them or with the last try."""

    key_ids = serializers.ListField(child=serializers.CharField())
    keys_fetched_at = serializers.DateTimeField(source="fetched_at", allow_null=True)
    keys_problem = serializers.CharField(source="fetch_problem", allow_blank=True)


def keys_of(row: TrustedIssuer) -> JsonObject:
    """The same as answers and the log have it."""
    return with_camel_names(FetchedKeys(row).data)
