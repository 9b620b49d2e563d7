"""Passkeys: challenges for the browser, and its answers, checked by Yubico's fido2.

A passkey belongs to a host name. That is the one under which the browser has opened the page (ALLOWED_HOSTS); the
answer must come from a page of that host.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from fido2.cose import UnsupportedKey
from fido2.server import Fido2Server
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from accounts.cookies import own_origins
from accounts.models import Passkey, User
from accounts.second_factor.pending import CHALLENGE, LIFETIME_SECONDS
from accounts.second_factor.services import NewCredential
from accounts.second_factor.verification import RecordEvent
from accounts.sso.protocol.flow import spend_token
from gateway_project.errors import AuthenticationFailed, ValidationError
from gateway_project.json_types import JsonObject

MAX_ANSWER_LENGTH = 20_000
PREFERRED = UserVerificationRequirement.PREFERRED
NOT_ACCEPTED = "The passkey was not accepted. Try again."
# What fido2 raises for an answer that is not of the right form, or not right.
REFUSALS = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError, AssertionError),
    *(struct.error, NotImplementedError),
)


def usable_passkeys(user: User, request: HttpRequest) -> Sequence[Passkey]:
    """The user's passkeys that were made for this host."""
    return list(user.passkeys.filter(rp_id=_rp_id(request)))


def begin_registration(request: HttpRequest, user: User) -> JsonObject:
    """What the browser is asked to make a passkey with; its challenge is kept in the session."""
    entity = PublicKeyCredentialUserEntity(
        id=f"user {user.pk}".encode(), name=user.username, display_name=user.get_short_name()
    )
    options, state = _server(request).register_begin(
        entity,
        [_data_of(passkey) for passkey in usable_passkeys(user, request)],
        resident_key_requirement=ResidentKeyRequirement.DISCOURAGED,
        user_verification=PREFERRED,
    )
    request.session[CHALLENGE] = {"user": user.pk, "kind": "create", "state": state}
    return _as_json(options)


def finish_registration(request: HttpRequest, user: User, answer: str) -> NewCredential:
    """What the browser has made; raises ValidationError."""
    try:
        state, document = _state(request, user, "create"), json.loads(answer[:MAX_ANSWER_LENGTH])
        attested = _server(request).register_complete(state, document)
        data = attested.credential_data
        if data is None or isinstance(data.public_key, UnsupportedKey):
            raise ValueError("no credential that could be checked")
    except (*REFUSALS, AuthenticationFailed):
        raise ValidationError(NOT_ACCEPTED, field="credential") from None
    return NewCredential(
        rp_id=_rp_id(request),
        credential_id=websafe_encode(data.credential_id),
        credential_data=websafe_encode(bytes(data)),
        sign_count=attested.counter,
    )


def begin_authentication(request: HttpRequest, user: User) -> JsonObject | None:
    """What the browser is asked to sign; None if the user has no passkey for this host."""
    passkeys = usable_passkeys(user, request)
    if not passkeys:
        return None
    options, state = _server(request).authenticate_begin(list(map(_data_of, passkeys)), user_verification=PREFERRED)
    request.session[CHALLENGE] = {"user": user.pk, "kind": "get", "state": state}
    return _as_json(options)


def check_passkey(request: HttpRequest, user: User, answer: str, record_event: RecordEvent) -> None:
    """Accept what one of the user's passkeys has signed; raises AuthenticationFailed."""
    try:
        state, document = _state(request, user, "get"), json.loads(answer[:MAX_ANSWER_LENGTH])
        passkeys = {websafe_encode(data.credential_id): data for data in map(_data_of, usable_passkeys(user, request))}
        credential = _server(request).authenticate_complete(state, list(passkeys.values()), document)
        count = AuthenticationResponse.from_dict(document).response.authenticator_data.counter
    except (*REFUSALS, AuthenticationFailed):
        record_event(f"{user.username} entered a wrong second factor.", user=user, severity="warning")
        raise AuthenticationFailed(NOT_ACCEPTED) from None
    _count_use(user, websafe_encode(credential.credential_id), count, record_event)


def _count_use(user: User, credential_id: str, count: int, record_event: RecordEvent) -> None:
    """Store how often the device has signed; a number that does not rise is that of a copy."""
    # Devices without a counter send 0 each time.
    is_later = Q(sign_count__lt=count) | (Q(sign_count=0) if count == 0 else Q(pk=None))
    passkey = user.passkeys.filter(is_later, credential_id=credential_id)
    if not passkey.update(sign_count=count, last_used_at=timezone.now()):
        message = f"A passkey of {user.username} was refused: its count of uses did not rise, so it may be a copy."
        record_event(message, user=user, severity="error")
        raise AuthenticationFailed(NOT_ACCEPTED)


def _server(request: HttpRequest) -> Fido2Server:
    party = PublicKeyCredentialRpEntity(name="Gateway", id=_rp_id(request))
    return Fido2Server(party, verify_origin=lambda origin: _is_own(origin, request))


def _is_own(origin: str, request: HttpRequest) -> bool:
    return origin.lower() in own_origins(request) and urlsplit(origin).hostname == _rp_id(request)


def _rp_id(request: HttpRequest) -> str:
    return urlsplit(f"//{request.get_host()}").hostname or ""


def _data_of(passkey: Passkey) -> AttestedCredentialData:
    return AttestedCredentialData(websafe_decode(passkey.credential_data))


def _state(request: HttpRequest, user: User, kind: str) -> JsonObject:
    """The challenge that this session was given for this, which is used up; raises KeyError, AuthenticationFailed."""
    challenge = request.session.pop(CHALLENGE, None)
    if challenge is None or challenge["user"] != user.pk or challenge["kind"] != kind:
        raise KeyError("There is no challenge.")
    # Both of two concurrent requests have read the session.
    spend_token(f"passkey {challenge['state']['challenge']}", seconds=LIFETIME_SECONDS)
    return challenge["state"]


def _as_json(options: Mapping[str, object]) -> JsonObject:
    values: JsonObject = json.loads(json.dumps(dict(options)))["publicKey"]
    return values
