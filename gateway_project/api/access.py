"""Who may do what with the management API: one table, used by the code and printed in the documentation.

Every operation must be in the table: a route that is not stops the start (routes.py).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from gateway_project.errors import AuthenticationFailed, PermissionDenied
from gateway_project.hooks import Hook

ANYBODY = "anybody"
HOLDER = "the holder of the token"  # which may be in the body: the operation itself checks it
USER = "any user"
LOGIN = "any logged-in user"
OWNER = "its owner or an admin"
ADMIN = "admin"
MANAGER = "its owner, or users.manage"
OR = " / "  # between features of which one is enough
# The feature to manage users, admins excepted.
MANAGE_USERS = "users.manage"
AND = " and "  # between features that are all needed
GUARDRAIL_READERS = f"guardrails.modify{OR}rules.view"
MONITORING = "this machine, or anyone with the metrics token"
DIRECTORY = "the directory, with the SCIM token"
# What admins of a group may do for their groups: the words of the table, and the feature that all others need.
DELEGATED = {
    f"{needed}, or an admin of the group": needed
    for needed in ("groups.view", "groups.modify", ADMIN, "rules.view", "rules.modify", MANAGE_USERS)
}
GROUP_VIEWER, GROUP_EDITOR, GROUP_ADMIN, RULE_VIEWER, RULE_EDITOR, ACCOUNT_MANAGER = DELEGATED
# Every other value is the name of a feature, or several with OR or AND between them.
CALLER_KINDS = (ANYBODY, HOLDER, USER, LOGIN, OWNER, MANAGER, ADMIN, *DELEGATED)

TABLE: dict[str, dict[str, str]] = {
    "auth": {"login": ANYBODY, "logout": HOLDER},
    "users": {
        "list": ACCOUNT_MANAGER,
        "current": USER,
        "retrieve": ACCOUNT_MANAGER,
        "create": ACCOUNT_MANAGER,
        "update": MANAGER,
        "destroy": ACCOUNT_MANAGER,
    },
    "second-factor": {"destroy": ADMIN},
    "identity-providers": dict.fromkeys(("list", "retrieve", "create", "update", "destroy", "fetch"), ADMIN),
    "identities": dict.fromkeys(("list", "retrieve", "create", "destroy"), ADMIN),
    "roles": {"list": USER, "retrieve": USER, "create": ADMIN, "update": ADMIN},
    "features": {"list": USER, "retrieve": USER, "create": ADMIN},
    "groups": {
        "list": GROUP_VIEWER,
        "retrieve": GROUP_VIEWER,
        "create": "groups.create",
        "update": "groups.modify",
        "destroy": "groups.modify",
    },
    "members": {"list": GROUP_VIEWER, "create": GROUP_EDITOR, "destroy": GROUP_EDITOR},
    "providers": {
        "list": USER,
        "retrieve": USER,
        "create": "providers.modify",
        "update": "providers.modify",
        "destroy": "providers.modify",
    },
    "models": {
        "list": USER,
        "retrieve": USER,
        "create": "models.create",
        "update": "models.create",
        "destroy": "providers.modify",
    },
    "credentials": dict.fromkeys(("list", "retrieve", "create", "update", "destroy"), "providers.modify"),
    "formats": {"list": USER, "retrieve": USER},
    "prices": {"list": ADMIN, "retrieve": ADMIN, "create": ADMIN, "update": ADMIN, "destroy": ADMIN},
    "keys": {"list": USER, "retrieve": USER, "create": LOGIN, "update": OWNER, "destroy": OWNER, "rotate": OWNER},
    "rules": {
        "list": RULE_VIEWER,
        "retrieve": RULE_VIEWER,
        "create": RULE_EDITOR,
        "update": RULE_EDITOR,
        "destroy": RULE_EDITOR,
        "restore": "rules.modify",
    },
    # Which requests somebody sees and decides about: gateway_project/access_requests/permissions.py.
    "access-requests": {
        **dict.fromkeys(("list", "retrieve"), USER),
        "create": LOGIN,
        **dict.fromkeys(("grant", "refuse"), USER),
        "withdraw": LOGIN,
        "end": USER,
    },
    "access-tests": {
        "list": "rules.view",
        "retrieve": "rules.view",
        "create": "rules.modify",
        "update": "rules.modify",
        "destroy": "rules.modify",
        "import_file": "rules.modify",
    },
    "versions": {"list": "rules.view"},
    "lint": {"list": "rules.view"},
    "aliases": {
        "list": "providers.modify",
        "retrieve": "providers.modify",
        "create": "providers.modify",
        "update": "providers.modify",
        "destroy": "providers.modify",
    },
    "guardrails": {
        "list": GUARDRAIL_READERS,
        "retrieve": GUARDRAIL_READERS,
        "create": "guardrails.modify",
        "update": "guardrails.modify",
        "destroy": "guardrails.modify",
    },
    "samples": {"list": f"logs.view_all{AND}guardrails.modify"},
    "trusted-issuers": dict.fromkeys(("list", "retrieve", "create", "update", "destroy", "fetch"), ADMIN),
    "what-if": dict.fromkeys(("list", "retrieve", "create", "destroy"), f"rules.modify{AND}logs.view_all"),
    "limits": {
        "list": USER,
        "retrieve": USER,
        "create": GROUP_ADMIN,
        "update": GROUP_ADMIN,
        "destroy": GROUP_ADMIN,
    },
    "cache": {"list": USER, "retrieve": USER, "destroy": ADMIN},
    "logs": {"list": USER, "retrieve": USER},
    "explanation": {"retrieve": USER},
    "comparison": {"retrieve": USER},
    "audit": {"list": "audit.view", "retrieve": "audit.view"},
    "licence": {"list": USER, "create": "licence.manage"},
    "stats": {"list": "stats.view"},
    "usage": {"list": USER},
    "unpriced": {"list": "stats.view"},
    "guardrail-counts": {"list": f"stats.view{OR}guardrails.modify"},
    "version": {"list": ANYBODY},
}
# Django's own sites, by namespace or name. Other views outside the management API declare who may use them
# (`Operation.who` in openapi/endpoints.py).
SITES = {"admin": ADMIN, "me": LOGIN}
# The resources that are served while the installed licence is expired or invalid. Of the other routes, those for work
# are not served then.
WITHOUT_LICENCE = frozenset({"access-tests", "auth", "licence", "lint", "rules", "version", "versions"})
# Raises LicenceInvalid if the installed licence is expired or invalid.
require_licence: Hook[[], None] = Hook("require_licence")
# The ids of the groups that a caller administers; the operation itself checks which group it is about.
administered_groups: "Hook[[Caller], frozenset[int]]" = Hook("administered_groups")
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
        """Whether the feature is granted, or those of several that OR and AND ask for; an admin has every one."""
        return self.is_admin or is_granted(feature, self.features)

    def owns(self, user_id: int | None) -> bool:
        return user_id is not None and self.user.pk == user_id


def is_granted(who: str, features: Collection[str]) -> bool:
    """Whether these features are those that a value of the table asks for."""
    return any(all(name in features for name in alternative.split(AND)) for alternative in who.split(OR))


def require_access(caller: Caller | None, who: str, *, owner_id: int | None = None) -> None:
    """Raise AuthenticationFailed or PermissionDenied unless `who` includes the caller.

    `owner_id` is the owner of the object; None if it has none yet.
    """
    if who in (ANYBODY, HOLDER):
        return
    if caller is None:
        raise AuthenticationFailed(AuthenticationFailed.NO_CREDENTIAL)
    if not _may_call(caller, who, owner_id):
        raise PermissionDenied(_requirement(who))


def _may_call(caller: Caller, who: str, owner_id: int | None) -> bool:
    if who in DELEGATED:
        return _may_call(caller, DELEGATED[who], owner_id) or bool(administered_groups(caller))
    if who == USER:
        # A leaked key for work alone must not show its owner's log: management needs a key with another permission.
        return caller.is_login or bool(caller.features - {WORK})
    if who == LOGIN:
        return caller.is_login
    if who == OWNER:
        return caller.is_login and (owner_id is None or caller.is_admin or caller.owns(owner_id))
    if who == MANAGER:
        return caller.has(MANAGE_USERS) or (caller.is_login and (owner_id is None or caller.owns(owner_id)))
    return caller.is_admin if who == ADMIN else caller.has(who)


def _requirement(who: str) -> str:
    if who in DELEGATED:
        needed = "the role admin" if DELEGATED[who] == ADMIN else f"the permission {DELEGATED[who]}"
        return f"This needs {needed}, or to be an admin of the group, using a login."
    if who == ADMIN:
        return "Only users with the role admin may do this, using their own login."
    if who == OWNER:
        return "Only the owner and admins may do this, using their own login."
    if who == MANAGER:
        return "Only the owner, using their own login, and users with the permission users.manage may do this."
    if who == LOGIN:
        return "This needs a user's own login; an API key is not enough."
    if who == USER:
        return "This API key may only send work requests."
    return f"This needs the permission{'s' if AND in who else ''} {who}."


class TablePermission(BasePermission):
    """Applies the table to the view's operation."""

    def has_permission(self, request: Request, view: Any) -> bool:
        who = TABLE[view.resource_name][view.operation]
        caller: Caller | None = view.caller
        needs_owner = who in (OWNER, MANAGER) and caller is not None
        require_access(caller, who, owner_id=view.owner_id() if needs_owner else None)
        return True


def require_licence_for(resource: str) -> None:
    """Raise LicenceInvalid if the resource needs a licence and the installed one is expired or invalid."""
    if resource not in WITHOUT_LICENCE:
        require_licence()
