"""The features and roles that every instance has, written after each migrate where they are missing."""

from typing import TypeVar

from django.apps import apps as current
from django.apps.registry import Apps
from django.db import router, transaction
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)

ADMIN_ROLE = "admin"
USER_ROLE = "user"
FEATURES = (
    "work",
    "models.create",
    "groups.view",
    "groups.create",
    "groups.modify",
    "rules.view",
    "rules.modify",
    "logs.view_all",
    "cache.view_all",
    "keys.view_all",
    "stats.view",
)
ROLES = {ADMIN_ROLE: FEATURES, USER_ROLE: ("work", "models.create")}


def write_builtin(using: str, apps: Apps = current, **signal: object) -> None:
    """Create missing built-in features and roles; a role that exists keeps the features it has."""
    try:
        Feature, Role = apps.get_model("accounts", "Feature"), apps.get_model("accounts", "Role")
    except LookupError:  # the app was migrated back to nothing
        return
    if not router.allow_migrate_model(using, Feature):
        return
    with transaction.atomic(using=using):
        for name in FEATURES:
            _get_or_create(Feature.objects.using(using), name)
        for name, features in ROLES.items():
            role, created = _get_or_create(Role.objects.using(using), name)
            if created:
                role.features.set(Feature.objects.using(using).filter(name__in=features))


def _get_or_create(rows: QuerySet[Row], name: str) -> tuple[Row, bool]:
    """The row of this name, and whether it is new; one that somebody named so in another case gets this spelling."""
    if not rows.filter(name=name).exists():
        rows.filter(name__iexact=name).update(name=name)
    return rows.get_or_create(name=name)
