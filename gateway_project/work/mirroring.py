"""A share of an alias's requests goes to another target too, once it is answered; nobody gets that answer."""

import os

from gateway_project.work.exchange import Decision, Exchange, Guarding, RequestLimits, RequestOptions, Selection
from gateway_project.work.failover.candidates import ask_candidate
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.admission import admit_to_provider, refuse_unaccountable
from gateway_project.work.pipeline import Stage, finish_request, run_stages
from gateway_project.work.reading.body import bound_for_unknown_shapes
from gateway_project.work.routing.credentials import with_credentials
from gateway_project.work.routing.mirrors import MirroredRequest
from gateway_project.work.routing.readiness import account_state
from gateway_project.work.snapshot.records import Target
from gateway_project.work.stages.authentication import is_usable, may_work
from gateway_project.work.stages.guardrails import guard_answer
from gateway_project.work.stages.ownership import check_references, record_kept
from gateway_project.work.streaming.stream import ClientConnection
from providers.catalogue import servable_targets
from providers.transport.calls import Call
from rules.aliases.models import FallbackCause


def serve_mirrored(mirrored: MirroredRequest, gateway: Gateway) -> None:
    """Send the request to the mirror, if its caller may ask that target, and log what it answers."""
    targets = [target for target in with_credentials((mirrored.target,), os.urandom(16)) if _may_serve(target, gateway)]
    if not targets or not _is_allowed(mirrored, gateway):
        return
    exchange = _exchange(mirrored, targets[0], gateway)
    run_stages(exchange, gateway, STAGES)
    body = finish_request(exchange, gateway).body
    if not isinstance(body, bytes):
        for _ in body:
            pass


def _exchange(mirrored: MirroredRequest, target: Target, gateway: Gateway) -> Exchange:
    """The request once more, as one that has been admitted: only the limits of its provider count it."""
    connection = ClientConnection({}, None, mirrored.address)
    call = Call(client=None, total_seconds=gateway.total_seconds)
    call.owner = mirrored.identity
    return Exchange(
        connection,
        mirrored.request_id,
        mirrored.endpoint,
        call=call,
        is_mirror=True,
        identity=mirrored.identity,
        request=mirrored.request,
        options=RequestOptions(cache_control="bypass", tags=mirrored.tags),
        decision=Decision(mirrored.alias, offers=(target,), allowed=(target,)),
        guarding=None if mirrored.guardrails is None else Guarding(mirrored.guardrails),
        selection=Selection((target,)),
        limits=RequestLimits(statuses=[]),
    )


def _ask_mirror(exchange: Exchange, gateway: Gateway) -> None:
    target = exchange.candidates[0]
    gateway.watcher.add(exchange.call)
    bound_for_unknown_shapes(exchange, (target,))
    refuse_unaccountable(exchange, gateway, target)
    admit_to_provider(exchange, gateway, target)
    ask_candidate(exchange, gateway, target)


# The mirror's format may keep more than that of the target that has answered.
STAGES = Stage(check_references), Stage(_ask_mirror), Stage(record_kept), Stage(guard_answer)


def _may_serve(target: Target, gateway: Gateway) -> bool:
    return bool(servable_targets((target,))) and account_state(target, gateway) in (None, FallbackCause.BUDGET)


def _is_allowed(mirrored: MirroredRequest, gateway: Gateway) -> bool:
    """Whether the rules and the key let the caller ask the mirror, as all of them are now: a copy may have waited."""
    identity, target, snapshot = mirrored.identity, mirrored.target, gateway.snapshot
    assert identity.caller is not None
    caller = snapshot.callers.get(identity.caller.id)
    key = None if identity.key is None else snapshot.key(identity.key.id)
    has_lost_key = identity.key is not None and (key is None or not is_usable(key))
    if caller is None or not caller.usable or has_lost_key or not may_work(caller, key):
        return False
    if key is not None and key.provider_id not in (None, target.provider.id):
        return False
    if key is not None and key.restrictions is not None and not key.restrictions.allow_model(target.model):
        return False
    model = mirrored.request.model  # the name of the alias, or one that fits its stars
    _, allowed = snapshot.rules.judge_alias(model, (target,), user_id=caller.id, group_ids=caller.group_ids)
    return bool(allowed)
