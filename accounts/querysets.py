"""Every question to the database about people, their rights and their sessions."""

from datetime import datetime
from typing import Self, TypeVar

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models
from django.db.models import Case, Count, Q, When
from django.utils import timezone

from accounts.builtin import ADMIN_ROLE
from accounts.group_tree import with_ancestors
from gateway_project.env import is_utf8

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)


class FeatureQuerySet(models.QuerySet[Row]):
    def granted_by_roles_of(self, user_id: int) -> Self:
        """Features of the user's roles; the role admin counts like any other here."""
        return self.filter(roles__users=user_id).distinct()


class RoleQuerySet(models.QuerySet[Row]):
    def named(self, *names: str) -> Self:
        """Roles with one of these names."""
        return self.filter(name__in=names)


class UserQuerySet(models.QuerySet[Row]):
    def live(self) -> Self:
        """Users that are not deleted, whether they are active or not."""
        return self.filter(is_deleted=False)

    def usable(self) -> Self:
        """Users whose credentials count: active and not deleted."""
        return self.filter(is_active=True, is_deleted=False)

    def service_accounts(self) -> Self:
        """Users that are programs and never log in."""
        return self.filter(kind="service")

    def able_to_log_in(self) -> Self:
        """Users whose passwords and sessions count."""
        return self.usable().filter(kind="person")

    def administering(self, group_id: int) -> Self:
        """Users who are admins and still members of this group."""
        return self.filter(administered_groups=group_id, groups=group_id)

    def admins(self) -> Self:
        """Users who hold the role admin, usable or not."""
        return self.filter(roles__name=ADMIN_ROLE)

    def with_username(self, username: str) -> Self:
        """The user of this name in any case, if there is one.

        Two exist only if their names were distinct under earlier comparison rules; the exact spelling comes first.
        """
        if not is_utf8(username):
            return self.none()
        exactly = Q(username=AbstractBaseUser.normalize_username(username))
        return self.filter(Q(name_key=username) | exactly).order_by(Case(When(exactly, then=0), default=1), "id")


class GroupQuerySet(models.QuerySet[Row]):
    def with_size(self) -> Self:
        """Groups with their number of members as `size`."""
        return self.annotate(size=Count("members", distinct=True))

    def administered_by(self, user: AbstractBaseUser) -> Self:
        """Groups that the user is an admin and still a member of; those below them are not among them."""
        return self.filter(admins=user).filter(members=user)

    def parents(self) -> dict[int, int]:
        """The id of the group above, by the id of each group that has one."""
        return dict(self.model._default_manager.exclude(parent_id=None).values_list("pk", "parent_id"))

    def applying_to(self, user: AbstractBaseUser) -> Self:
        """The groups of a user and all above them: their rules and limits are for the user."""
        own = self.model._default_manager.filter(members=user).values_list("pk", flat=True)
        return self.filter(pk__in=with_ancestors(own, self.parents()))


class SessionQuerySet(models.QuerySet[Row]):
    def live(self, at: datetime | None = None) -> Self:
        """Sessions whose tokens count at a moment (default: now)."""
        return self.filter(ended_at=None, expires_at__gt=at or timezone.now())

    def expired(self, at: datetime) -> Self:
        """Sessions, ended or not, of which every token had expired at a moment."""
        return self.filter(expires_at__lt=at)

    def addresses(self) -> list[str]:
        """The addresses that sessions began at, at most a hundred, the latest first."""
        with_address = self.exclude(address=None).order_by("-created_at")
        return list(dict.fromkeys(with_address.values_list("address", flat=True)[:100]))

    def with_user(self) -> Self:
        """Sessions with their user and the user's roles, in two queries."""
        return self.select_related("user").prefetch_related("user__roles")

    def of(self, user: AbstractBaseUser) -> Self:
        """Sessions of one user."""
        return self.filter(user=user)
