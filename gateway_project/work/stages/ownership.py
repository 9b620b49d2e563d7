"""State that a provider keeps belongs to the user who created it, and no other user's request may refer to it.

Ids are random, and users do not learn each other's ids from the gateway. Conversations, files, vector stores, stored
prompts and cached content are created outside of the gateway. Each belongs to the first user who names its id.
GATEWAY_SHARED_PROVIDER_FILES lets everybody use all of these except conversations.
"""

import time
from collections.abc import Sequence

from django.conf import settings

from gateway_project.errors import NotFound, ServiceUnavailable, ValidationError
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.timestamps import timestamp
from gateway_project.work.ownership.owners import digest_of
from providers.formats.kept_state import Access, Reference
from telemetry.journal.records import to_record

MAX_REFERENCES = 2000
CLAIMABLE = (Access.FIRST, Access.ACCOUNT)
# The last ids of a stream are published after its last event was sent.
SECOND_LOOK_SECONDS = 0.25


def check_references(exchange: Exchange, gateway: Gateway) -> None:
    """Raise NotFound for references to another user's state, ServiceUnavailable if the owner is not known now."""
    references = _references(exchange)
    if not references:
        return
    if len(references) > MAX_REFERENCES:
        raise ValidationError(f"A request must refer to at most {MAX_REFERENCES} stored items.", field="input")
    assert exchange.identity.caller is not None
    user_id = exchange.identity.caller.id
    owners = _find_owners(references, gateway)
    for reference in references:
        owner = owners.get(digest_of(reference.id))
        if owner != user_id and (owner is not None or reference.kind.access is Access.OWNER):
            raise _not_found(reference, gateway, is_known=owner is not None)
    first = [reference for reference in references if reference.kind.access in CLAIMABLE]
    _claim(exchange, gateway, [reference for reference in first if digest_of(reference.id) not in owners], user_id)
    exchange.ownership.claims = tuple(dict.fromkeys(digest_of(reference.id) for reference in first))


def _references(exchange: Exchange) -> Sequence[Reference]:
    """What the request refers to of the state that its candidates may keep."""
    request, candidates = exchange.request, exchange.candidates
    assert request is not None
    only = candidates[0].provider.format
    formats = dict.fromkeys(target.provider.format for target in candidates) if len(candidates) > 1 else (only,)
    references = [reference for format_ in formats if format_ is not None for reference in format_.references(request)]
    if not references:
        return references
    references = list(dict.fromkeys(references))
    if not settings.GATEWAY_SHARED_PROVIDER_FILES:
        return references
    return [reference for reference in references if reference.kind.access is not Access.ACCOUNT]


def _find_owners(references: Sequence[Reference], gateway: Gateway) -> dict[str, int]:
    """The owners by digest. Those that must have an owner but have none are looked up again after a moment."""
    digests = list(dict.fromkeys(digest_of(reference.id) for reference in references))
    try:
        owners = gateway.owners.find(digests)
    except ServiceUnavailable as error:
        raise _unknown(references[0]) from error
    needed = (digest_of(reference.id) for reference in references if reference.kind.access is Access.OWNER)
    if missing := [digest for digest in needed if digest not in owners]:
        time.sleep(SECOND_LOOK_SECONDS)
        owners |= gateway.owners.find_recent(missing)
    return owners


def _claim(exchange: Exchange, gateway: Gateway, references: Sequence[Reference], user_id: int) -> None:
    """Make the user the owner of state that has no owner. Of two requests that do so at once, one is refused."""
    if not references:
        return
    owners = gateway.owners.claim([digest_of(reference.id) for reference in references], user_id)
    if owners is None:
        raise _unknown(references[0])
    for reference in references:
        if owners.get(digest_of(reference.id)) != user_id:
            raise _not_found(reference, gateway, is_known=True)


def _not_found(reference: Reference, gateway: Gateway, *, is_known: bool) -> NotFound | ServiceUnavailable:
    """The error says the same about another user's state and about state that does not exist."""
    if not is_known and gateway.owners.may_lack_recent:
        return _unknown(reference)
    kind = reference.kind
    text = f"{kind.noun} with id '{reference.id}' not found."
    return NotFound(text, field=reference.field, reason=kind.reason)


def _unknown(reference: Reference) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"{reference.field} refers to something that a provider stores. At the moment the gateway cannot check whose "
        "it is. Send the request again, or send the whole conversation instead."
    )


def record_kept(exchange: Exchange, gateway: Gateway) -> None:
    """Note the owner of the ids in the answer so far: before the client reads them, and when a stream ends."""
    stream, answer, ownership = exchange.attempts.stream, exchange.attempts.answer, exchange.ownership
    if stream is None and answer is None:
        return
    if ownership.claims:
        claims, ownership.claims = ownership.claims, ()
        _note(exchange, gateway, claims, is_lasting=True)
    state_ids = stream.reader.state_ids if stream is not None else answer.state_ids if answer is not None else ()
    if len(state_ids) > ownership.record_count:
        new_ids = list(state_ids)[ownership.record_count :]
        ownership.record_count = len(state_ids)
        _note(exchange, gateway, tuple(map(digest_of, new_ids)), is_lasting=False)


def _note(exchange: Exchange, gateway: Gateway, digests: tuple[str, ...], *, is_lasting: bool) -> None:
    assert exchange.identity.caller is not None
    user_id, now = exchange.identity.caller.id, timestamp(time.time())
    gateway.owners.note(digests, user_id)
    for digest in digests:
        row = {"digest": digest, "user_id": user_id, "created_at": now, "is_lasting": is_lasting}
        gateway.note_owner(to_record(row))
