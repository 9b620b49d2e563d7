"""What API keys look like on the wire, and what may be sent about them."""

from typing import NoReturn

from rest_framework import serializers

from accounts.models import MAX_ACCESS_NAME_LENGTH
from gateway_project.api.fields import Attributes, Boolean, DateTime, Id, Integer, Text
from gateway_project.api.response_specs import Message
from keys.models import ApiKey

MAX_PERMISSIONS = 1000
MAX_OVERLAP_HOURS = 30 * 24
MAX_NAME_LENGTH = ApiKey._meta.get_field("name").max_length


class KeySerializer(serializers.ModelSerializer):
    """A key as lists show it, with its public id and without its secret."""

    user_id = serializers.IntegerField(source="owner_id")
    user_name = serializers.CharField(source="owner.username")
    created_by = serializers.IntegerField(source="created_by_id", allow_null=True)
    creator_name = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    provider = serializers.IntegerField(source="provider_id", allow_null=True)
    provider_name = serializers.CharField(source="provider.name", default=None, allow_null=True)
    permissions = serializers.SerializerMethodField()
    is_expired = serializers.BooleanField()

    class Meta:
        model = ApiKey
        fields = (
            *("id", "name", "public_id", "user_id", "user_name", "created_by", "creator_name", "expiry"),
            *("provider", "provider_name", "permissions", "locked_time", "last_used", "is_expired", "is_deleted"),
        )

    def get_permissions(self, key: ApiKey) -> list[dict[str, str]]:
        return [{"name": name} for name in key.permissions]


class IssuedKey(Message):
    """A new key. This response is the only place that shows its text."""

    key = serializers.CharField()


class PermissionNames(serializers.Field):
    """[{"name": "work"}, …] as a list of names."""

    max_length = MAX_ACCESS_NAME_LENGTH
    schema = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": max_length}},
            "required": ["name"],
        },
        "maxItems": MAX_PERMISSIONS,
    }

    def to_internal_value(self, data: object) -> list[str]:
        if not isinstance(data, list) or len(data) > MAX_PERMISSIONS:
            self._refuse()
        return [self._name(element) for element in data]

    def _name(self, element: object) -> str:
        name = element.get("name") if isinstance(element, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= self.max_length:
            self._refuse()
        return name

    def _refuse(self) -> NoReturn:
        raise serializers.ValidationError(f'Must be a list of {{"name": …}}, at most {MAX_PERMISSIONS} long.')


class BooleanText(Boolean):
    """true or false, also as a text: the specification sends "true"."""

    schema = {"enum": [True, False, "true", "false"]}

    def to_internal_value(self, data: object) -> bool:
        texts = {"true": True, "false": False}
        return super().to_internal_value(texts.get(data, data) if isinstance(data, str) else data)


class KeySelector(Attributes):
    """The owner of the keys, and the name of one of them."""

    example = {"name": "nightly"}
    user = Id(required=False, help_text="The owner; defaults to the caller.")
    name = Text(required=False, max_length=MAX_NAME_LENGTH, help_text="The name of the key.")


class NewKeyAttributes(Attributes):
    """What may be sent about a new key."""

    example = {"name": "nightly", "expiry": "2100-01-01T00:00:00Z", "permissions": [{"name": "work"}]}
    name = Text(max_length=MAX_NAME_LENGTH)
    expiry = DateTime(
        required=False,
        allow_null=True,
        help_text="When it expires: null for never; defaults to one year from now. GATEWAY_KEY_MAX_DAYS may bound it.",
    )
    permissions = PermissionNames(required=False, help_text="A subset of the owner's features; defaults to `work`.")
    provider = Id(required=False, allow_null=True, help_text="The only provider that the key may use, with any model.")
    user = Id(required=False, help_text="The owner; defaults to the caller.")


class RotationAttributes(Attributes):
    """What may be sent to rotate a key."""

    example = {"overlapHours": 1}
    overlap_hours = Integer(
        required=False,
        min_value=0,
        max_value=MAX_OVERLAP_HOURS,
        help_text="Hours for which the previous secret stays valid; defaults to 24. Send 0 if the key has leaked.",
    )


class KeyAttributes(KeySelector):
    """What may be sent to change a key; `name` and `user` say which one."""

    example = {"name": "nightly", "newName": "weekly"}
    new_name = Text(required=False, max_length=MAX_NAME_LENGTH)
    expire = BooleanText(required=False, help_text="true lets the key expire now.")
    provider = Id(
        required=False, allow_null=True, help_text="The only provider that the key may use; 0 or null for any."
    )
    locked = Boolean(required=False, help_text="A locked key is refused. Only admins can change this.")
