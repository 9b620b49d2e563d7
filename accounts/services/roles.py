"""Every change to features and roles."""

from collections.abc import Collection

from django.db import transaction

from accounts.builtin import ADMIN_ROLE, ROLES
from accounts.models import Feature, Role
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_row_for_change, rows_by_id, save_or_refuse
from gateway_project.errors import Conflict


@transaction.atomic
def create_feature(*, name: str) -> Feature:
    """Create a feature; raises Conflict if the name exists, and ValidationError."""
    feature = Feature(name=name)
    save_or_refuse(feature, conflict=f"A feature named {name!r} exists already.")
    return feature


@transaction.atomic
def create_role(*, name: str, feature_ids: Collection[int] = (), requires_second_factor: bool = False) -> Role:
    """Create a role that grants these features; raises Conflict if the name exists, and ValidationError."""
    role = Role(name=name, requires_second_factor=requires_second_factor)
    _save_role(role)
    role.features.set(rows_by_id(Feature.objects.all(), feature_ids, field="features"))
    return role


@guarded_change(Access.CALLERS)
def update_role(
    role: Role,
    *,
    name: str | None = None,
    feature_ids: Collection[int] | None = None,
    requires_second_factor: bool | None = None,
) -> None:
    """Store a new name and another set of features, where given; raises Conflict, NotFound and ValidationError.

    The built-in roles keep their names, which the code uses. The role admin keeps all features. Where a role begins to
    require a second factor, sessions go on: it is asked for at the next login.
    """
    lock_row_for_change(role, Role.objects.all())
    if name is not None and name != role.name:
        if role.name in ROLES:
            raise Conflict(f"The role {role.name!r} is built in and keeps its name.")
        role.name = name
        _save_role(role)
    if requires_second_factor is not None:
        role.requires_second_factor = requires_second_factor
        role.save(update_fields=["requires_second_factor"])
    if feature_ids is not None:
        features = rows_by_id(Feature.objects.all(), feature_ids, field="features")
        if role.name == ADMIN_ROLE and set(features) != set(role.granted):
            raise Conflict(f"the role {role.name!r} always has every feature.", field="features")
        role.features.set(features)


def _save_role(role: Role) -> None:
    save_or_refuse(role, conflict=f"A role named {role.name!r} exists already.")
