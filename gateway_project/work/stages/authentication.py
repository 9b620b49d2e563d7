"""Stage 1: whose request is this?"""

import time

from accounts import tokens
from accounts.trusted_issuers.book import IssuerBook
from gateway_project.errors import AuthenticationFailed, LicenceInvalid, PermissionDenied, ServiceUnavailable
from gateway_project.server import overload
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot.records import Caller, KeySnapshot
from keys import secrets
from keys.restrictions import WRONG_NETWORK

FEATURE = "work"


def authenticate(exchange: Exchange, gateway: Gateway) -> None:
    """Set caller and key. Raises AuthenticationFailed, PermissionDenied and LicenceInvalid."""
    if overload.is_overloaded():
        raise ServiceUnavailable("The gateway is overloaded: it is serving as many requests as it can.")
    credential = exchange.endpoint.door.credential(exchange.connection.environ)
    if not credential:
        raise AuthenticationFailed(AuthenticationFailed.NO_CREDENTIAL)
    if credential.startswith(secrets.PREFIX):
        _use_key(_key(credential, gateway), exchange.connection.address, exchange, gateway)
    else:
        exchange.identity.caller = _token_user(credential, exchange, gateway)
    _authorize(exchange, gateway)


def authenticate_as(user_id: int, key: KeySnapshot | None, exchange: Exchange, gateway: Gateway) -> None:
    """As authenticate() does, for a request with this key, or without one with this user's login.

    An empty address is unknown. Raises AuthenticationFailed, PermissionDenied and LicenceInvalid.
    """
    if key is not None:
        _use_key(key, exchange.connection.address or None, exchange, gateway)
    else:
        exchange.identity.caller = _usable_caller(user_id, gateway)
    _authorize(exchange, gateway)


def identify_caller(exchange: Exchange, gateway: Gateway) -> tuple[Caller, KeySnapshot | None]:
    """The caller and the key of the request, whether they may send work or not; afterwards the exchange has neither.

    Raises AuthenticationFailed.
    """
    try:
        authenticate(exchange, gateway)
    except (PermissionDenied, LicenceInvalid):
        pass
    identity = exchange.identity
    assert identity.caller is not None, "who is not known is refused"
    caller, key = identity.caller, identity.key
    identity.caller = identity.key = None
    return caller, key


def _use_key(key: KeySnapshot | None, address: str | None, exchange: Exchange, gateway: Gateway) -> None:
    """Set the key and its owner as caller; an address of None is unknown, and is not judged.

    Raises AuthenticationFailed and PermissionDenied.
    """
    exchange.identity.key = key = require_usable(key)
    exchange.identity.caller = _usable_caller(key.owner_id, gateway)
    if key.restrictions is not None and address is not None and not key.restrictions.allow_address(address):
        raise PermissionDenied(WRONG_NETWORK.format(address=address))


def _authorize(exchange: Exchange, gateway: Gateway) -> None:
    """Raise PermissionDenied unless caller and key may send work, and LicenceInvalid."""
    caller, key = exchange.identity.caller, exchange.identity.key
    assert caller is not None
    if not may_work(caller, key):
        raise PermissionDenied("The credential does not have the permission to send work.")
    require_licence(gateway)


def may_work(caller: Caller, key: KeySnapshot | None) -> bool:
    """Whether caller and key have the permission to send work."""
    return FEATURE in caller.features and (key is None or FEATURE in key.permissions)


def require_usable(key: KeySnapshot | None) -> KeySnapshot:
    """The key, if it is not locked and its time has begun and not ended. Raises AuthenticationFailed."""
    if key is None or not is_usable(key):
        raise AuthenticationFailed
    return key


def is_usable(key: KeySnapshot) -> bool:
    """Whether the key is not locked, and its time has begun and not ended."""
    now = time.time()
    return not key.locked and now < key.expires and (key.restrictions is None or key.restrictions.not_before <= now)


def _usable_caller(user_id: int, gateway: Gateway) -> Caller:
    """The user. Raises AuthenticationFailed for one who is unknown, inactive or deleted."""
    caller = gateway.snapshot.callers.get(user_id)
    if caller is None or not caller.usable:
        raise AuthenticationFailed
    return caller


def require_licence(gateway: Gateway) -> None:
    """Raise LicenceInvalid while the licence in the snapshot is expired or invalid."""
    if problem := gateway.snapshot.terms.problem(time.time()):
        raise LicenceInvalid(problem)


def _key(text: str, gateway: Gateway) -> KeySnapshot | None:
    """The key of this text, which may be locked or expired. Raises AuthenticationFailed for one that is unknown."""
    parsed = secrets.parse_key(text)
    if parsed is None:
        raise AuthenticationFailed
    public_id, digest = parsed
    key = gateway.follower.find_key(public_id)
    if not secrets.digests_match(key.digest if key else None, digest):
        raise AuthenticationFailed
    return key


def _token_user(text: str, exchange: Exchange, gateway: Gateway) -> Caller:
    """The user of a trusted issuer's token, or of an access token."""
    issuers = gateway.snapshot.issuers
    if issuers is not None and (token := issuers.verify(text, time.time())) is not None:
        exchange.identity.trusted_issuer = token.issuer
        return _named_caller(token.username, issuers, gateway)
    return _login_user(text, exchange, gateway)


def _named_caller(username: str, issuers: IssuerBook, gateway: Gateway) -> Caller:
    """The user of this name. Raises AuthenticationFailed for one who is unknown, inactive or deleted."""
    caller = gateway.snapshot.callers.get(issuers.user_ids.get(username, 0))
    if caller is None or not caller.usable or caller.name != username:
        raise AuthenticationFailed("The token is valid, but does not name an active user of this gateway.")
    return caller


def _login_user(text: str, exchange: Exchange, gateway: Gateway) -> Caller:
    """The user of an access token, which may name one of the user's keys to be used.

    The database is asked whether its session is live.
    """
    token = tokens.read_access(text)
    if token is None:
        raise AuthenticationFailed
    if gateway.follower.session_owner(token.session) != token.user_id:
        raise AuthenticationFailed
    if token.key:
        _use_key(_key_of(token, gateway), exchange.connection.address, exchange, gateway)
    return _usable_caller(token.user_id, gateway)


def _key_of(token: tokens.AccessToken, gateway: Gateway) -> KeySnapshot:
    """The key that a token names. Raises AuthenticationFailed for one that is not its user's."""
    key = gateway.follower.find_key(token.key)
    if key is None or key.owner_id != token.user_id:
        raise AuthenticationFailed
    return key
