"""Every question to the database about people, their rights and their sessions."""

from datetime import datetime
from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import Case, Q, When
from django.utils import timezone

from accounts.builtin import ADMIN_ROLE

if TYPE_CHECKING:
    from accounts.models import User


class FeatureQuerySet(models.QuerySet["Feature"]):
    def granted_to(self, user: "User") -> Self:
        """Features that the user's roles grant; an admin has every feature."""
        if user.is_admin:
            return self.all()
        return self.filter(roles__users=user).distinct()


class RoleQuerySet(models.QuerySet["Role"]):
    def named(self, *names: str) -> Self:
        """Roles with one of these names."""
        return self.filter(name__in=names)


class UserQuerySet(models.QuerySet["User"]):
    def live(self) -> Self:
        """Users that are not deleted, whether they are active or not."""
        return self.filter(is_deleted=False)

    def usable(self) -> Self:
        """Users whose credentials count: active and not deleted."""
        return self.filter(is_active=True, is_deleted=False)

    def admins(self) -> Self:
        """Users who hold the role admin, usable or not."""
        return self.filter(roles__name=ADMIN_ROLE)

    def with_username(self, username: str) -> Self:
        """The user of this name in any case, if there is one.

        Two exist only if their names were distinct under earlier comparison rules; the exact spelling comes first.
        """
        exactly = Q(username=self.model.normalize_username(username))
        return self.filter(Q(name_key=username) | exactly).order_by(Case(When(exactly, then=0), default=1), "id")


class SessionQuerySet(models.QuerySet["Session"]):
    def live(self, at: datetime | None = None) -> Self:
        """Sessions whose tokens count at the given moment (now, unless told)."""
        return self.filter(ended_at=None, expires_at__gt=at or timezone.now())

    def expired(self, at: datetime) -> Self:
        """Sessions, ended or not, of which every token had expired at the given moment."""
        return self.filter(expires_at__lt=at)

    def with_user(self) -> Self:
        """Sessions with their user and the user's roles, in two queries."""
        return self.select_related("user").prefetch_related("user__roles")

    def of(self, user: "User") -> Self:
        """Sessions of one user."""
        return self.filter(user=user)
