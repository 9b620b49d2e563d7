"""Who asks for an explanation, and whose request it is about."""

from functools import partial
from typing import NamedTuple

from accounts.models import User
from gateway_project.api.access import WORK
from gateway_project.api.access import Caller as Viewer
from gateway_project.errors import PermissionDenied, ValidationError
from gateway_project.work.explain.options import OWN, Options
from gateway_project.work.gateway import Gateway
from gateway_project.work.pipeline import STAGES, Stage
from gateway_project.work.snapshot.records import Caller, KeySnapshot
from gateway_project.work.stages.authentication import authenticate_as
from keys.models import ApiKey

# Whoever may see everybody's log and all rules may ask about everybody's requests.
SEES_ALL = ("logs.view_all", "rules.view")


class Subject(NamedTuple):
    """Whose request is explained: a user's, with a key or, without one, with a login or a token."""

    caller: Caller
    key: KeySnapshot | None = None


def sees_all(viewer: Viewer) -> bool:
    """Whether the viewer may ask about everybody's requests, and sees the rules for others."""
    return all(map(viewer.has, SEES_ALL))


def viewer_of(subject: Subject, *, is_external: bool) -> Viewer:
    """Who asks, with what the credential grants; the token of a trusted issuer (`is_external`) grants work alone."""
    user = User.objects.prefetch_related("roles").get(pk=subject.caller.id)
    features, key = frozenset(user.feature_names()), subject.key
    if is_external:
        return Viewer(user=user, features=features & {WORK})
    if key is None:
        return Viewer(user=user, features=features, is_admin=user.is_admin)
    return Viewer(user=user, features=features & key.permissions, key_id=key.id, key_name=key.name)


def subject_of(options: Options, own: Subject, viewer: Viewer, gateway: Gateway, *, is_login: bool) -> Subject:
    """Whose request is explained; only a login may name other credentials of its user without seeing all.

    Raises PermissionDenied and ValidationError.
    """
    if not options.names_credential:
        return own
    user_id = own.caller.id if options.user_id is None else options.user_id
    if not sees_all(viewer):
        _require_own(user_id, options.key_name, own, is_login=is_login)
    return find_subject(user_id, options.key_name, gateway)


def _require_own(user_id: int, key_name: str, own: Subject, *, is_login: bool) -> None:
    """Raise PermissionDenied unless this is the request's own credential, or a key of the user who is logged in."""
    if user_id != own.caller.id:
        raise PermissionDenied("Explaining the requests of others needs the permissions logs.view_all and rules.view.")
    if not is_login and key_name != (own.key.name if own.key is not None else ""):
        raise PermissionDenied(
            "Explaining the requests of another credential needs a login, or the permissions logs.view_all and "
            "rules.view."
        )


def find_subject(user_id: int, key_name: str, gateway: Gateway) -> Subject:
    """A user, with the key of this name if there is a name. Raises ValidationError."""
    caller = gateway.snapshot.callers.get(user_id)
    if caller is None:
        raise ValidationError(f"No user with id {user_id}.", parameter="asUser")
    return Subject(caller, _key(caller, key_name, gateway) if key_name else None)


def authentication_as(subject: Subject) -> Stage:
    """The stage that sets this subject as caller, as if the request had come with their credential."""
    return Stage(partial(authenticate_as, subject.caller.id, subject.key))


def authentication_of(options: Options, subject: Subject) -> Stage:
    """The stage that says whose request it is; for the request's own credential it is the pipeline's."""
    return STAGES[0] if options == OWN else authentication_as(subject)


def _key(caller: Caller, name: str, gateway: Gateway) -> KeySnapshot:
    row = ApiKey.objects.live().filter(owner_id=caller.id, name=name).first()
    key = gateway.follower.find_key(row.public_id) if row is not None else None
    if key is None:
        raise ValidationError(f"User {caller.name} has no key named {name}.", parameter="asKey")
    return key
