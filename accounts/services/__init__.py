"""Every change to users, roles, features and groups."""

from accounts.services.groups import (
    add_member,
    create_group,
    delete_group,
    remove_member,
    update_group,
)
from accounts.services.roles import (
    create_feature,
    create_role,
    update_role,
)
from accounts.services.users import (
    NAME_EXISTS,
    create_federated_user,
    create_service_account,
    create_user,
    delete_user,
    lock_user,
    update_user,
    validated_password,
)

__all__ = [
    "NAME_EXISTS",
    "add_member",
    "create_feature",
    "create_federated_user",
    "create_group",
    "create_role",
    "create_service_account",
    "create_user",
    "delete_group",
    "delete_user",
    "lock_user",
    "remove_member",
    "update_group",
    "update_role",
    "update_user",
    "validated_password",
]
