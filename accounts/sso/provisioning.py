"""From a provider's claims to a user: the identity, the first login, and the roles and groups that rules give."""

import logging
from collections.abc import Collection

from django.core.exceptions import ValidationError as FieldRefused
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from accounts import services
from accounts.builtin import ADMIN_ROLE, USER_ROLE
from accounts.models import Group, Role, User
from accounts.second_factor.verification import has_second_factor
from accounts.sso.claim_rules import ClaimRule, Grant, GrantKind, claim_text, grants_of, read_rules
from accounts.sso.models import Identity, IdentityProvider
from accounts.viewsets import UserViewSet
from gateway_project.api import audit
from gateway_project.api.access import MANAGE_USERS
from gateway_project.database.guarding import override_access_tests
from gateway_project.database.names import compose_name, is_clear
from gateway_project.database.saving import save_or_refuse
from gateway_project.errors import Conflict, NotFound, PermissionDenied
from gateway_project.json_types import JsonObject

log = logging.getLogger("gateway.sso")

MAX_DISPLAY_NAME = 200


class LoginRefused(PermissionDenied):
    """The provider has authenticated somebody who may not log in here; `event` is the message for the log."""

    def __init__(self, message: str, event: str, user: User | None = None) -> None:
        super().__init__(message)
        self.event, self.user = event, user


@transaction.atomic
def user_of(provider: IdentityProvider, claims: JsonObject, actor: audit.Actor) -> User:
    """The user of these claims, updated by them. Raises LoginRefused and GatewayError.

    The user is created, or an existing one linked, where the provider's settings permit it.
    """
    rules = read_rules(provider.rules)
    grants = grants_of(rules, claims, provider.email_claim)
    identity = _identity(provider, str(claims["sub"]))
    before = UserViewSet.serialize_row(identity.user) if identity is not None else None
    if identity is None:
        identity = _first_login(provider, claims, rules, grants)
    user = identity.user
    if not user.may_log_in:
        raise LoginRefused(
            "Your account is inactive or deleted.",
            f"{user.username}, who is inactive or deleted, tried to log in with {provider.name}.",
            user,
        )
    _refresh(provider, claims, identity, rules, grants)
    _record(actor, user, before)
    return user


def _identity(provider: IdentityProvider, subject: str) -> Identity | None:
    rows = Identity.objects.select_for_update(of=("self",)).select_related("user")
    return rows.filter(issuer=provider.issuer, subject=subject).first()


def _record(actor: audit.Actor, user: User, before: object) -> None:
    after = UserViewSet.serialize_row(user)
    if before != after:
        operation = "create" if before is None else "update"
        audit.record(actor, operation, "users", user.pk, before=before, after=after, attributes=["identity"])


# -- The first login ------------------------------------------------------------------------------------


def _first_login(
    provider: IdentityProvider, claims: JsonObject, rules: list[ClaimRule], grants: set[Grant]
) -> Identity:
    """The new identity of a new user, or of the user of this name."""
    name = User.normalize_username(compose_name(claim_text(claims, provider.user_name_claim)))
    if not name or not is_clear(name):  # PostgreSQL raises an error for some characters
        raise LoginRefused(
            "The identity provider did not send your user name. Tell an administrator.",
            f"{provider.name} sends no user name in the claim {provider.user_name_claim!r}: the login was refused.",
        )
    existing = User.objects.with_username(name).first()
    if existing is not None:
        user = _find_local_user(provider, existing)
    elif provider.create_users and (grants or not rules):
        user = services.create_federated_user(username=name, roles=() if rules else (USER_ROLE,))
    else:
        reason = "no claim rule matches" if provider.create_users else "there is no such user"
        raise LoginRefused(
            "You have no account here. Ask an administrator for one.",
            f"{name!r:.160} tried to log in with {provider.name}, and {reason}.",
        )
    identity = Identity(user=user, issuer=provider.issuer, subject=str(claims["sub"]))
    save_or_refuse(identity, conflict="Somebody else logged in for the first time at the same moment. Log in again.")
    return identity


def _find_local_user(provider: IdentityProvider, user: User) -> User:
    """The local user whom the login takes over. Raises LoginRefused unless the settings permit it.

    Nobody takes over users with power over others, nor users with a second factor, which the login would not ask for.
    """
    is_powerful = user.is_admin or MANAGE_USERS in user.feature_names() or Group.objects.administered_by(user).exists()
    is_protected = user.must_have_second_factor or has_second_factor(user)
    is_linked = user.identities.filter(issuer=provider.issuer).exists()
    if not provider.match_user_names or is_powerful or is_protected or is_linked or not user.may_log_in:
        raise LoginRefused(
            "An account with your user name exists here already, and is not linked to you. Tell an administrator.",
            f"Somebody tried to log in with {provider.name} as {user.username}, but is not linked to this user.",
            user,
        )
    return user


# -- Each login -----------------------------------------------------------------------------------------


def _refresh(
    provider: IdentityProvider, claims: JsonObject, identity: Identity, rules: list[ClaimRule], grants: set[Grant]
) -> None:
    """Store the roles, groups, name and address that the claims give."""
    roles = _ids_of(GrantKind.ROLE, [rule.grant for rule in rules])
    groups = _ids_of(GrantKind.GROUP, [rule.grant for rule in rules])
    granted_role_ids = {id_ for grant, id_ in roles.items() if grant in grants}
    granted_group_ids = {id_ for grant, id_ in groups.items() if grant in grants}
    with override_access_tests(f"The claims of {provider.name} say so."):
        _update_user(
            identity,
            granted_role_ids,
            managed={*roles.values(), *identity.granted_roles},
            display_name=_display_name(claims, provider),
            email=_email(claims, provider),
        )
        _update_groups(identity, granted_group_ids, managed={*groups.values(), *identity.granted_groups})
    identity.last_login = timezone.now()
    identity.save(update_fields=["granted_roles", "granted_groups", "last_login"])


def _ids_of(kind: GrantKind, grants: Collection[Grant]) -> dict[Grant, int]:
    """The ids of the roles or groups that grants name; those that do not exist are left out."""
    ids: dict[Grant, int] = {}
    for grant in {grant for grant in grants if grant.kind is kind}:
        if kind is GrantKind.ROLE:
            row_id = Role.objects.filter(name__iexact=grant.name).values_list("pk", flat=True).first()
        else:
            row_id = Group.objects.filter(name=compose_name(grant.name)).values_list("pk", flat=True).first()
        if row_id is None:
            log.warning("A rule of an identity provider names the %s %r, which does not exist.", kind, grant.name)
        else:
            ids[grant] = row_id
    return ids


def _update_user(
    identity: Identity, granted: set[int], *, managed: set[int], display_name: str | None, email: str | None
) -> None:
    user = identity.user
    services.lock_user(user)  # an admin may change the roles at this moment
    current = set(user.roles.values_list("pk", flat=True))
    roles = (current - managed) | granted
    if roles == current and display_name in (None, user.display_name) and email in (None, user.email):
        role_ids = None
    else:
        role_ids = _store_user(user, roles, current, display_name=display_name, email=email)
    role_ids_now = current if role_ids is None else role_ids
    identity.granted_roles = sorted(_own_grants(granted & role_ids_now, current, identity.granted_roles))


def _store_user(
    user: User, roles: set[int], current: set[int], *, display_name: str | None, email: str | None
) -> set[int]:
    """Store roles and attributes, and return the ids of the roles. The last admin stays one, whatever rules say."""
    try:
        services.update_user(user, role_ids=sorted(roles), display_name=display_name, email=email)
    except Conflict:
        log.warning("%s stays an admin, although no rule says so: there is no other admin.", user.username)
        admin_ids = Role.objects.named(ADMIN_ROLE).values_list("pk", flat=True)
        roles = roles | (current & set(admin_ids))
        services.update_user(user, role_ids=sorted(roles), display_name=display_name, email=email)
    return roles


def _update_groups(identity: Identity, granted: set[int], *, managed: set[int]) -> None:
    user = identity.user
    current = set(user.groups.values_list("pk", flat=True))
    for group in Group.objects.filter(pk__in=(managed - granted) & current).order_by("pk"):
        services.remove_member(group, user_id=user.pk)
    for group in Group.objects.filter(pk__in=granted - current).order_by("pk"):
        try:
            services.add_member(group, user_id=user.pk)
        except NotFound:  # deleted at this moment
            granted = granted - {group.pk}
    identity.granted_groups = sorted(_own_grants(granted, current, identity.granted_groups))


def _own_grants(granted: set[int], current: set[int], earlier_grants: Collection[int]) -> set[int]:
    """The ids that rules gave and still give, without those that an administrator gave before."""
    return {row_id for row_id in granted if row_id not in current or row_id in earlier_grants}


def _display_name(claims: JsonObject, provider: IdentityProvider) -> str | None:
    """The name to show; None without one that can be stored."""
    name = claim_text(claims, provider.display_name_claim)[:MAX_DISPLAY_NAME]
    return name if name and name.isprintable() else None


def _email(claims: JsonObject, provider: IdentityProvider) -> str | None:
    """The e-mail address; None without one that can be stored."""
    address = claim_text(claims, provider.email_claim)
    try:
        validate_email(address)
    except FieldRefused:
        return None
    return address if len(address) <= 254 and address.isprintable() else None
