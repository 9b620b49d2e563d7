"""Who may do what with the management API: one table, used by the code and printed in the documentation.

Every operation must be in the table: a route that is not stops the start (routes.py).
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from gateway_project.errors import AuthenticationFailed, PermissionDenied

ANYBODY = "anybody"
HOLDER = "the holder of the token"  # which may be in the body: the operation itself checks it
USER = "any user"
LOGIN = "any logged-in user"
OWNER = "its owner or an admin"
ADMIN = "admin"
MONITORING = "this machine, or anyone with the metrics token"
# Every other value is the name of a feature.
CALLER_KINDS = (ANYBODY, HOLDER, USER, LOGIN, OWNER, ADMIN)

TABLE: dict[str, dict[str, str]] = {
    "auth": {"login": ANYBODY, "logout": HOLDER},
    "users": {
        "list": ADMIN,
        "current": USER,
        "retrieve": ADMIN,
        "create": ADMIN,
        "update": OWNER,
        "destroy": ADMIN,
    },
    "roles": {"list": USER, "retrieve": USER, "create": ADMIN, "update": ADMIN},
    "features": {"list": USER, "retrieve": USER, "create": ADMIN},
    "groups": {
        "list": "groups.view",
        "retrieve": "groups.view",
        "create": "groups.create",
        "update": "groups.modify",
        "destroy": "groups.modify",
    },
    "members": {"list": "groups.view", "create": "groups.modify", "destroy": "groups.modify"},
    "providers": {"list": USER, "retrieve": USER, "create": ADMIN, "update": ADMIN, "destroy": ADMIN},
    "models": {
        "list": USER,
        "retrieve": USER,
        "create": "models.create",
        "update": "models.create",
        "destroy": ADMIN,
    },
    "formats": {"list": USER, "retrieve": USER},
    "prices": {"list": ADMIN, "retrieve": ADMIN, "create": ADMIN, "update": ADMIN, "destroy": ADMIN},
    "keys": {"list": USER, "retrieve": USER, "create": LOGIN, "update": OWNER, "destroy": OWNER, "rotate": OWNER},
    "rules": {
        "list": "rules.view",
        "retrieve": "rules.view",
        "create": "rules.modify",
        "update": "rules.modify",
        "destroy": "rules.modify",
    },
    "limits": {"list": USER, "retrieve": USER, "create": ADMIN, "update": ADMIN, "destroy": ADMIN},
    "cache": {"list": USER, "retrieve": USER, "destroy": ADMIN},
    "logs": {"list": USER, "retrieve": USER},
    "licence": {"list": USER, "create": ADMIN},
    "stats": {"list": "stats.view"},
    "usage": {"list": USER},
    "unpriced": {"list": "stats.view"},
    "version": {"list": ANYBODY},
}
# Routes outside the management API, by name; their views check access themselves.
OTHER_ROUTES = {
    "work": "work",
    "v1/chat/completions": "work",
    "v1/responses": "work",
    "v1/completions": "work",
    "v1/embeddings": "work",
    "v1/messages": "work",
    "v1/messages/count_tokens": "work",
    "openai/deployments/chat/completions": "work",
    "openai/deployments/completions": "work",
    "openai/deployments/embeddings": "work",
    "openai/responses": "work",
    "v1/models": "work",
    "v1/models/item": "work",
    "openai/models": "work",
    "openai/models/item": "work",
    "healthz": ANYBODY,
    "readyz": ANYBODY,
    "metrics": MONITORING,
    "schema": ANYBODY,
    "docs": ANYBODY,
    "admin": ADMIN,
}
# What is served while the installed licence is expired or invalid, by resource or by name of the route.
WITHOUT_LICENCE = frozenset({"auth", "licence", "rules", "version", "healthz", "readyz", "metrics", "schema", "docs"})
# The feature to send work requests: an API key with no other cannot use the management API.
WORK = "work"


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated user, and what the credential currently allows; without a session it is an API key."""

    user: Any
    features: frozenset[str] = frozenset()
    is_admin: bool = False
    session: UUID | None = None
    key_id: int | None = None
    key_name: str = ""

    @property
    def is_login(self) -> bool:
        """Whether the credential is a login, and not an API key."""
        return self.session is not None

    def has(self, feature: str) -> bool:
        """Whether the feature is granted; an admin has every one."""
        return self.is_admin or feature in self.features

    def owns(self, user_id: int | None) -> bool:
        return user_id is not None and self.user.pk == user_id


def require_access(caller: Caller | None, who: str, *, owner_id: int | None = None) -> None:
    """Raise AuthenticationFailed or PermissionDenied unless `who` includes the caller.

    `owner_id` is the owner of the object; None if it has none yet.
    """
    if who in (ANYBODY, HOLDER):
        return
    if caller is None:
        raise AuthenticationFailed(AuthenticationFailed.NO_CREDENTIAL)
    if not _allowed(caller, who, owner_id):
        raise PermissionDenied(_requirement(who))


def _allowed(caller: Caller, who: str, owner_id: int | None) -> bool:
    if who == USER:
        # A leaked key for work alone must not show its owner's log: management needs a key with another permission.
        return caller.is_login or bool(caller.features - {WORK})
    if who == LOGIN:
        return caller.is_login
    if who == OWNER:
        return caller.is_login and (owner_id is None or caller.is_admin or caller.owns(owner_id))
    return caller.is_admin if who == ADMIN else caller.has(who)


def _requirement(who: str) -> str:
    if who == ADMIN:
        return "Only users with the role admin may do this, using their own login."
    if who == OWNER:
        return "Only the owner and admins may do this, using their own login."
    if who == LOGIN:
        return "This needs a user's own login; an API key is not enough."
    if who == USER:
        return "This API key may only send work requests."
    return f"This needs the permission {who}."


class TablePermission(BasePermission):
    """Applies the table to the view's operation."""

    def has_permission(self, request: Request, view: Any) -> bool:
        who = TABLE[view.resource_name][view.operation]
        caller: Caller | None = view.caller
        needs_owner = who == OWNER and caller is not None
        require_access(caller, who, owner_id=view.owner_id() if needs_owner else None)
        return True


def as_markdown() -> str:
    """The table as documentation prints it."""
    lines = ["| Resource | Operation | Who |", "|---|---|---|"]
    for resource, operations in TABLE.items():
        for operation, who in operations.items():
            lines.append(f"| {resource} | {operation} | {who if who in CALLER_KINDS else f'`{who}`'} |")
    return "\n".join(lines)
