"""Stage 1: whose request is this, and within which limits?"""

import time

from accounts import tokens
from gateway_project.errors import AuthenticationFailed, LicenceInvalid, PermissionDenied, ServiceUnavailable
from gateway_project.server import overload
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot.records import Caller, KeySnapshot
from keys import secrets

FEATURE = "work"


def authenticate(exchange: Exchange, gateway: Gateway) -> None:
    """Set caller, key and limits. The limits are counted later, in the round trip that looks up the cache."""
    if overload.is_overloaded():
        raise ServiceUnavailable("The gateway is overloaded: it is serving as many requests as it can.")
    credential = exchange.endpoint.door.credential(exchange.connection.environ)
    if not credential:
        raise AuthenticationFailed(AuthenticationFailed.NO_CREDENTIAL)
    if credential.startswith(secrets.PREFIX):
        exchange.key = key = _key(credential, gateway)
        exchange.caller = caller = _key_owner(key, gateway)
        allowed = FEATURE in key.permissions and FEATURE in caller.features
    else:
        exchange.caller = caller = _token_user(credential, gateway)
        allowed = FEATURE in caller.features
    exchange.limit_book = gateway.snapshot.limits
    exchange.limits = exchange.limit_book.for_caller(exchange.key, caller)
    if not allowed:
        raise PermissionDenied("The credential does not have the permission to send work.")
    require_licence(gateway)


def require_licence(gateway: Gateway) -> None:
    """Raise LicenceInvalid while the licence in the snapshot is expired or invalid."""
    if problem := gateway.snapshot.terms.problem(time.time()):
        raise LicenceInvalid(problem)


def _key(text: str, gateway: Gateway) -> KeySnapshot:
    parsed = secrets.parse(text)
    if parsed is None:
        raise AuthenticationFailed
    public_id, digest = parsed
    key = gateway.follower.find_key(public_id)
    if not secrets.matches(key.digest if key else None, digest):
        raise AuthenticationFailed
    if key is None or key.locked or key.expires <= time.time():
        raise AuthenticationFailed
    return key


def _key_owner(key: KeySnapshot, gateway: Gateway) -> Caller:
    caller = gateway.snapshot.callers.get(key.owner_id)
    if caller is None or not caller.usable:
        raise AuthenticationFailed
    return caller


def _token_user(text: str, gateway: Gateway) -> Caller:
    """The user of an access token; the database is asked whether its session is live."""
    token = tokens.read_access(text)
    if token is None:
        raise AuthenticationFailed
    if gateway.follower.session_owner(token.session) != token.user_id:
        raise AuthenticationFailed
    caller = gateway.snapshot.callers.get(token.user_id)
    if caller is None or not caller.usable:
        raise AuthenticationFailed
    return caller
