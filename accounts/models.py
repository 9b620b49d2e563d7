"""People and what they may do: features, roles, users, groups and sessions."""

import uuid
from collections.abc import Collection, Iterable
from datetime import datetime

from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models.deletion import Collector
from django.db.models.functions import Lower
from django.utils import timezone

from accounts.access_requests.models import AccessRequest
from accounts.builtin import ADMIN_ROLE, RISKS
from accounts.querysets import FeatureQuerySet, GroupQuerySet, RoleQuerySet, SessionQuerySet, UserQuerySet
from accounts.second_factor.models import AuthenticatorApp, Passkey, RecoveryCode
from accounts.sso.models import FederatedLogin, Identity, IdentityProvider, SpentToken
from gateway_project.database.names import LONGEST_FOLD, NameField, NameKeyField, SearchedField, require_clear

__all__ = [
    "AccessRequest",
    "AuthenticatorApp",
    "Feature",
    "FederatedLogin",
    "Group",
    "Identity",
    "IdentityProvider",
    "Passkey",
    "RecoveryCode",
    "Role",
    "Session",
    "SpentToken",
    "User",
    "UserKind",
    "access_name",
    "check_name",
    "check_text",
]
LONGEST_USERNAME = 150
MAX_PASSWORD_LENGTH = 4096
MAX_GROUP_NAME_LENGTH = 100
MAX_ACCESS_NAME_LENGTH = 64
MAX_EXTERNAL_ID_LENGTH = 255
# Letters and digits of ASCII only: none of them looks like another letter, and every database knows their case.
access_name = RegexValidator(
    r"^[A-Za-z0-9._:-]([A-Za-z0-9._: -]{0,62}[A-Za-z0-9._:-])?\Z",
    "Must have 1 to 64 characters: A-Z a-z 0-9 . _ - : and spaces, but no space at either end.",
)


def unique_in_any_case(name: str, message: str) -> models.UniqueConstraint:
    """The constraint that no two rows have the same name in any case."""
    return models.UniqueConstraint(
        Lower("name"), name=name, violation_error_code="unique", violation_error_message=message
    )


def unique_external_id(name: str) -> models.UniqueConstraint:
    """The constraint that no two rows have the same id of the directory; most have none."""
    return models.UniqueConstraint(
        fields=["external_id"],
        condition=~models.Q(external_id=""),
        name=name,
        violation_error_code="unique",
        violation_error_message="Another row has this external id.",
    )


def check_name(value: str) -> None:
    require_clear(value)


def check_text(value: str) -> None:
    """Refuse what PostgreSQL cannot store: the character NUL, and halves of characters."""
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ValidationError("A text must not contain NUL or half a character.")


class Feature(models.Model):
    """A thing that can be allowed; its name is the permission it gives."""

    name = models.CharField(max_length=MAX_ACCESS_NAME_LENGTH, validators=[access_name])

    objects = FeatureQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [unique_in_any_case("one_feature_of_a_name", "A feature of this name exists already.")]

    def __str__(self) -> str:
        return self.name

    @property
    def risk(self) -> str:
        """What an admin should know before granting it."""
        return RISKS.get(self.name, "Allows nothing in the gateway itself.")

    @property
    def label(self) -> str:
        """Its name and its risk, where it is offered."""
        return f"{self.name}: {self.risk}"


class Role(models.Model):
    """A set of features to give to users; the role named admin stands for every feature there is."""

    # Longer than a new name may be: names that are older than this limit stay.
    name = NameField(max_length=100, validators=[access_name])
    features = models.ManyToManyField(Feature, related_name="roles", blank=True)
    # Whether its users log in with a password only together with a second factor.
    requires_second_factor = models.BooleanField(default=False, db_default=False)

    objects = RoleQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [unique_in_any_case("one_role_of_a_name", "A role of this name exists already.")]

    def __str__(self) -> str:
        return self.name

    @property
    def granted(self) -> Iterable[Feature]:
        """The features that its users may use; the role admin has all, also those that are created later."""
        return Feature.objects.order_by("id") if self.name == ADMIN_ROLE else self.features.all()


class UserKind(models.TextChoices):
    """Who uses the credentials of a user."""

    PERSON = "person"
    SERVICE = "service"  # a program: it has no password and never logs in; a group owns it


def protect_live_accounts(
    collector: Collector, field: models.ForeignKey, users: models.QuerySet["User"], using: str
) -> None:
    """Protect a group while it owns a service account that is not deleted; deleted ones lose their group."""
    if live := users.filter(is_deleted=False):
        models.PROTECT(collector, field, live, using)
    models.SET_NULL(collector, field, users, using)


class User(AbstractBaseUser):
    """A person who can log in, or a service account; both own keys. A deleted row stays; a person keeps the name."""

    username = models.CharField(max_length=LONGEST_USERNAME, validators=[check_name])
    # The name as it is compared. There is room for an id at its end, which sets users with equal names apart.
    name_key = NameKeyField(of="username", max_length=LONGEST_USERNAME * LONGEST_FOLD + 20, editable=False)
    display_name = SearchedField(max_length=200, blank=True, default="", validators=[check_text])
    email = models.EmailField(blank=True, default="")
    is_active = models.BooleanField(default=True)
    is_deleted = models.BooleanField(default=False)
    kind = models.CharField(max_length=8, choices=UserKind.choices, default=UserKind.PERSON)
    # The group that owns the service account, which is a member of it.
    owning_group = models.ForeignKey(
        "Group", on_delete=protect_live_accounts, null=True, blank=True, related_name="service_accounts"
    )
    roles = models.ManyToManyField(Role, related_name="users", blank=True)
    # The id that the directory has given it, for users that SCIM creates or takes over.
    external_id = models.CharField(
        max_length=MAX_EXTERNAL_ID_LENGTH,
        blank=True,
        default="",
        db_default="",
        editable=False,
        validators=[check_text],
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = UserQuerySet.as_manager()

    USERNAME_FIELD = "username"

    class Meta:
        ordering = ["id"]
        constraints = [
            # The second follows from the first, but Django's check of USERNAME_FIELD wants it.
            models.UniqueConstraint(
                fields=["name_key"],
                name="one_user_of_a_name_in_any_case",
                violation_error_message="A user of this name exists already.",
                violation_error_code="unique",
            ),
            models.UniqueConstraint(fields=["username"], name="one_user_of_a_name"),
            unique_external_id("one_user_of_an_external_id"),
            models.CheckConstraint(
                condition=models.Q(kind=UserKind.PERSON, owning_group=None)
                | models.Q(kind=UserKind.SERVICE, owning_group__isnull=False)
                | models.Q(kind=UserKind.SERVICE, is_deleted=True),
                name="service_accounts_have_a_group",
            ),
        ]

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """As Django does; the key of a name that was refused is not asked for: it may hold what no database takes."""
        refused = set(exclude or ())
        super().validate_constraints(refused | {"name_key"} if "username" in refused else refused)

    @property
    def is_usable(self) -> bool:
        return self.is_active and not self.is_deleted

    @property
    def is_service(self) -> bool:
        """Whether this is a service account."""
        return self.kind == UserKind.SERVICE

    @property
    def may_log_in(self) -> bool:
        """Whether a password or a session of theirs counts."""
        return self.is_usable and not self.is_service

    @property
    def is_admin(self) -> bool:
        """Whether the user holds the role admin; asks no query where roles are prefetched."""
        return self.pk is not None and any(role.name == ADMIN_ROLE for role in self.roles.all())

    @property
    def must_have_second_factor(self) -> bool:
        """Whether one of the user's roles requires a second factor."""
        return any(role.requires_second_factor for role in self.roles.all())

    @property
    def is_staff(self) -> bool:
        """Whether the console lets them in."""
        return self.may_log_in and self.is_admin

    @property
    def is_superuser(self) -> bool:
        return self.is_staff

    def feature_names(self) -> set[str]:
        """The names of all features that the user's roles grant; an admin has every feature."""
        features = Feature.objects.all() if self.is_admin else Feature.objects.granted_by_roles_of(self.pk)
        return set(features.values_list("name", flat=True))

    def has_perm(self, perm: str, obj: object = None) -> bool:
        """What the console asks before each page: a usable admin may do all, anybody else nothing."""
        return self.is_staff

    def has_perms(self, perm_list: list[str], obj: object = None) -> bool:
        return self.is_staff

    def has_module_perms(self, app_label: str) -> bool:
        return self.is_staff

    def get_short_name(self) -> str:
        return self.display_name or self.username


class Group(models.Model):
    """Users under one name, for rules and limits."""

    name = NameField(max_length=MAX_GROUP_NAME_LENGTH, validators=[check_name])
    members = models.ManyToManyField(User, related_name="groups", blank=True)
    # The members who administer it and the groups below it.
    admins = models.ManyToManyField(User, related_name="administered_groups", blank=True)
    # The group above: its rules, limits and admins are for this one, too.
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="children")
    # The id that the directory has given it, as of users.
    external_id = models.CharField(
        max_length=MAX_EXTERNAL_ID_LENGTH,
        blank=True,
        default="",
        db_default="",
        editable=False,
        validators=[check_text],
    )
    size: int  # the number of members, in rows of with_size()

    objects = GroupQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["name"], name="one_group_of_a_name"),
            unique_external_id("one_group_of_an_external_id"),
            models.CheckConstraint(condition=~models.Q(parent=models.F("id")), name="group_is_not_its_own_parent"),
        ]

    def __str__(self) -> str:
        return self.name

    def has_admin(self, user: User) -> bool:
        """Whether the user is one of the group's own admins."""
        return Group.objects.administered_by(user).filter(pk=self.pk).exists()


class Session(models.Model):
    """One login on one device; its tokens count until it ends or expires."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sessions", db_index=False)
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    # Hash of the id of the only refresh token still good: one that was used before does not match.
    refresh_digest = models.CharField(max_length=128, blank=True, default="")
    device = models.CharField(max_length=256, blank=True, default="")
    address = models.GenericIPAddressField(null=True, blank=True)

    objects = SessionQuerySet.as_manager()

    class Meta:
        verbose_name = "session"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["user", "ended_at"], name="sessions_of_a_user"),
            models.Index(fields=["expires_at"], name="sessions_by_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} on {self.device or 'an unknown device'}"

    def is_live(self, at: datetime) -> bool:
        """Whether its tokens count at a moment."""
        return self.ended_at is None and self.expires_at > at
