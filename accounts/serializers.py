"""What users, roles, features and groups look like on the wire, and what may be sent about them."""

from collections.abc import Mapping

from django.conf import settings
from django.core.validators import EmailValidator
from rest_framework import serializers

from accounts.models import (
    LONGEST_USERNAME,
    MAX_ACCESS_NAME_LENGTH,
    MAX_GROUP_NAME_LENGTH,
    MAX_PASSWORD_LENGTH,
    Role,
    User,
    UserKind,
    access_name,
    check_name,
    check_text,
)
from accounts.second_factor.verification import has_second_factor
from gateway_project.api.fields import Attributes, Boolean, Choice, Id, Named, References, Text
from gateway_project.json_types import JsonObject

MAX_TOKEN_LENGTH = 8192
MAX_OTP_LENGTH = 64


def _password(*, required: bool = True, min_length: int | None = None, help_text: str | None = None) -> Text:
    return Text(
        min_length=min_length,
        max_length=MAX_PASSWORD_LENGTH,
        validators=[check_text],
        write_only=True,
        required=required,
        help_text=help_text,
    )


def _new_password(*, required: bool = True, help_text: str | None = None) -> Text:
    return _password(required=required, min_length=settings.MIN_PASSWORD_LENGTH, help_text=help_text)


class FeatureSerializer(Named):
    """A feature as lists show it."""


class FeatureAttributes(Attributes):
    """What may be sent about a feature. An id is accepted, as the specification has it, and means nothing."""

    example = {"name": "reports.view"}
    id = Id(required=False, write_only=True)
    name = Text(max_length=MAX_ACCESS_NAME_LENGTH, validators=[access_name])


class RoleSerializer(Named):
    """A role as lists show it, with the features that it grants."""

    features = Named(many=True, source="granted")
    requires_second_factor = serializers.BooleanField()


class RoleAttributes(Attributes):
    """What may be sent about a role; the id as above."""

    example = {"name": "auditor", "features": [{"id": 1}]}
    id = Id(required=False, write_only=True)
    # The service checks its characters: an older name, which an update may send back unchanged, may have others.
    name = Text(
        max_length=Role._meta.get_field("name").max_length,
        help_text="1 to 64 characters: A-Z a-z 0-9 . _ - : and spaces, but no space at either end. Unique in any case.",
    )
    features = References(required=False, help_text="The complete list of permissions that the role grants.")
    requires_second_factor = Boolean(
        required=False,
        help_text="Whether users with this role need a second factor besides their password (default: false).",
    )


class UserSerializer(serializers.Serializer):
    """A user as lists show them."""

    id = serializers.IntegerField()
    user_name = serializers.CharField(source="username")
    display_name = serializers.CharField()
    email = serializers.CharField()
    active = serializers.BooleanField(source="is_active")
    is_deleted = serializers.BooleanField()
    kind = serializers.ChoiceField(UserKind.values)
    group_id = serializers.IntegerField(source="owning_group_id", allow_null=True)
    roles = Named(many=True)
    groups = Named(many=True)
    second_factor = serializers.SerializerMethodField(
        help_text="Whether the user needs a second factor to log in with the password."
    )

    def get_second_factor(self, user: User) -> bool:
        if hasattr(user, "app_exists") and hasattr(user, "passkey_exists"):  # in lists, which ask once for all
            return bool(user.app_exists or user.passkey_exists)
        return has_second_factor(user)


class _UserAttributes(Attributes):
    display_name = Text(max_length=User._meta.get_field("display_name").max_length, allow_blank=True, required=False)
    email = Text(
        max_length=User._meta.get_field("email").max_length,
        validators=[EmailValidator()],
        allow_blank=True,
        required=False,
    )
    active = Boolean(required=False, source="is_active")
    roles = References(
        required=False,
        source="role_ids",
        help_text="The complete list. With users.manage: only roles that grant no more than the caller has. Admins: "
        "any roles.",
    )


class NewUserAttributes(_UserAttributes):
    """What may be sent about a user who is to be."""

    example = {
        "userName": "alice",
        "password": "a long pass phrase",
        "displayName": "Alice",
        "email": "alice@example.org",
        "roles": [{"id": 2}],
    }
    user_name = Text(max_length=LONGEST_USERNAME, validators=[check_name], source="username")
    kind = Choice(
        UserKind.values, required=False, help_text="A service account has a group and no password (default: person)."
    )
    group_id = Id(required=False, help_text="The group that owns the service account, which is a member of it.")
    password = _new_password(required=False, help_text="Required for a person.")
    is_deleted = Boolean(required=False)

    def to_internal_value(self, data: Mapping[str, object]) -> JsonObject:
        is_service = data.get("kind") == UserKind.SERVICE
        superfluous, required = ("password", "group_id") if is_service else ("group_id", "password")
        if data.get(superfluous) is not None:
            whom = "a service account" if is_service else "a person"
            raise serializers.ValidationError({superfluous: f"Must not be sent for {whom}."})
        self.fields[required].required = True
        return super().to_internal_value({name: value for name, value in data.items() if name != superfluous})


class UserAttributes(_UserAttributes):
    """What may be changed in a user."""

    example = {"displayName": "Alice", "email": "alice@example.org"}
    group_id = Id(required=False, allow_null=True, help_text="The new group of a service account.")
    new_password = _new_password(required=False, help_text="The new password. It ends the other sessions of the user.")
    current_password = _password(required=False, help_text="Required with newPassword to change your own password.")

    def validate(self, values: JsonObject) -> JsonObject:
        if "current_password" in values and "new_password" not in values:
            raise serializers.ValidationError({"new_password": "Is missing: send it together with currentPassword."})
        return values


class MemberSerializer(serializers.Serializer):
    """A user as groups show them."""

    name = serializers.CharField(source="username")
    id = serializers.IntegerField()


class MembershipSerializer(MemberSerializer):
    """A member of a group."""

    admin = serializers.SerializerMethodField()

    def get_admin(self, user: User) -> bool:
        return user.pk in self.context["admin_ids"]


class MembersAnswer(serializers.Serializer):
    """The members of a group."""

    data = MembershipSerializer(many=True)  # type: ignore[assignment]  # the wire's name; only the schema reads this class


class GroupSerializer(Named):
    """A group as lists show it."""

    members = MemberSerializer(many=True)
    parent_id = serializers.IntegerField(allow_null=True)


class GroupAttributes(Attributes):
    """What may be sent about a group."""

    example = {"name": "search", "members": [{"id": 1}]}
    name = Text(max_length=MAX_GROUP_NAME_LENGTH, validators=[check_name])
    members = References(required=False, source="member_ids", help_text="The complete list.")
    parent_id = Id(
        required=False, allow_null=True, help_text="The group above, or null for none. Only an admin can change this."
    )


class MemberAttributes(Attributes):
    """Which user is to be a member, and whether as an admin of the group."""

    example = {"id": 1, "admin": False}
    id = Id(help_text="The user's.")
    admin = Boolean(
        required=False,
        help_text="Whether the user is an admin of the group (default: false for a new member, otherwise unchanged).",
    )


class LoginAttributes(Attributes):
    """A way to prove who one is: a password, or one of two sorts of tokens."""

    example = {"grantType": "password", "userName": "alice", "password": "a long pass phrase"}
    REQUIRED = {
        ("password", None): ("user_name", "password"),
        ("Bearer", "accessToken"): ("access_token",),
        ("Bearer", "refreshToken"): (),  # the cookie may hold it
    }

    grant_type = Choice(["password", "Bearer"])
    token_type = Choice(
        ["accessToken", "refreshToken"],
        required=False,
        help_text="Required with grantType Bearer, and only allowed there.",
    )
    user_name = Text(max_length=1000, required=False)
    password = _password(required=False)
    otp = Text(
        max_length=MAX_OTP_LENGTH,
        write_only=True,
        required=False,
        help_text="A code of the user's authenticator app, or a recovery code, for a user with a second factor.",
    )
    access_token = Text(max_length=MAX_TOKEN_LENGTH, required=False)
    refresh_token = Text(
        max_length=MAX_TOKEN_LENGTH, required=False, help_text="The token (default: the one in the cookie)."
    )

    def validate(self, values: JsonObject) -> JsonObject:
        required = self.REQUIRED.get((values["grant_type"], values.get("token_type")))
        if required is None:
            raise serializers.ValidationError(
                {"token_type": "accessToken or refreshToken with grantType Bearer; omit it with grantType password."}
            )
        if missing := [name for name in required if name not in values]:
            raise serializers.ValidationError(dict.fromkeys(missing, "This field is required."))
        return values


class LogoutAttributes(Attributes):
    """Whose session ends, and which."""

    example = {"logoutDevice": "otherDevices"}
    grant_type = Choice(["Bearer"], required=False)
    token_type = Choice(["accessToken"], required=False)
    access_token = Text(max_length=MAX_TOKEN_LENGTH, required=False)
    logout_device = Choice(["currentDevice", "otherDevices", "allDevices"], default="currentDevice")


class NewTokens(serializers.Serializer):
    """What a refresh token is exchanged for."""

    access_token = serializers.CharField()
    refresh_token = serializers.CharField()
    grant_type = serializers.ChoiceField(["Bearer"])
    message = serializers.CharField()
