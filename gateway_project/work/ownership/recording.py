"""What a provider keeps of an answer belongs to the user whose request it answers."""

import time

from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.timestamps import timestamp
from gateway_project.work.ownership.owners import digest_of
from telemetry.journal.records import to_record


def record_kept(exchange: Exchange, gateway: Gateway) -> None:
    """Note whose the ids are that the answer has named so far: before the client reads them, and at a stream's end."""
    stream, answer, ownership = exchange.attempts.stream, exchange.attempts.answer, exchange.ownership
    if stream is None and answer is None:
        return
    if ownership.claims:
        claims, ownership.claims = ownership.claims, ()
        _note(exchange, gateway, claims, is_lasting=True)
    state_ids = stream.reader.state_ids if stream is not None else answer.state_ids if answer is not None else ()
    if len(state_ids) > ownership.recorded:
        new_ids = list(state_ids)[ownership.recorded :]
        ownership.recorded = len(state_ids)
        _note(exchange, gateway, tuple(map(digest_of, new_ids)), is_lasting=False)


def _note(exchange: Exchange, gateway: Gateway, digests: tuple[str, ...], *, is_lasting: bool) -> None:
    assert exchange.identity.caller is not None
    user_id, now = exchange.identity.caller.id, timestamp(time.time())
    gateway.owners.note(digests, user_id)
    for digest in digests:
        row = {"digest": digest, "user_id": user_id, "created_at": now, "is_lasting": is_lasting}
        gateway.note_owner(to_record(row))
