"""An API key as a credential of the management API: it acts with its own permissions, not with its owner's role."""

from ipaddress import ip_network

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from accounts.models import User
from gateway_project.api.access import Caller
from gateway_project.errors import AuthenticationFailed, PermissionDenied
from keys import secrets, services
from keys.models import ApiKey
from keys.restrictions import WRONG_NETWORK, is_inside


class ApiKeys(BaseAuthentication):
    """Bearer credentials with the prefix of API keys; others are left to the next authentication class."""

    def authenticate(self, request: Request) -> tuple[User, Caller] | None:
        scheme, _, text = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not text.startswith(secrets.PREFIX):
            return None
        key = _usable_key(text)
        _check_address(key, request.META.get("REMOTE_ADDR", ""))
        services.note_use(key)
        return key.owner, _caller(key)


def _usable_key(text: str) -> ApiKey:
    parsed = secrets.parse_key(text)
    if parsed is None:
        raise AuthenticationFailed
    public_id, digest = parsed
    key = ApiKey.objects.usable().with_owner().with_public_id(public_id).first()
    matches = secrets.digests_match(key.digest_of(public_id) if key else None, digest)
    if key is None or not matches:
        raise AuthenticationFailed
    return key


def _check_address(key: ApiKey, address: str) -> None:
    """Raise PermissionDenied unless one of the key's networks has the client's address."""
    if key.networks and not is_inside(address, map(ip_network, key.networks)):
        raise PermissionDenied(WRONG_NETWORK.format(address=address))


def _caller(key: ApiKey) -> Caller:
    features = frozenset(key.permissions) & key.owner.feature_names()
    return Caller(user=key.owner, features=features, key_id=key.pk, key_name=key.name)
