"""GET /v1/models: the models that the caller's rules allow, from the snapshot."""

from time import time

import orjson

from gateway_project.errors import AccessError, GatewayError, NotFound
from gateway_project.json_types import JsonObject
from gateway_project.server.http_delivery import Delivery, complete_response
from gateway_project.work.doors.base import ClientDoor, Model
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.entry import write_refusal
from gateway_project.work.runtime import gateway
from gateway_project.work.snapshot.records import Caller, KeySnapshot
from gateway_project.work.stages.authentication import authenticate
from gateway_project.work.stages.rules import allowed_targets
from gateway_project.work.streaming.delivery import add_headers
from providers.pricing.facts import bundled_facts


def deliver_models(exchange: Exchange, door: ClientDoor, model: str) -> Delivery:
    """The list of models, or the model of this name, in the shape of the caller's door."""
    try:
        authenticate(exchange, gateway())
        document = _document(exchange, door, model, gateway())
        delivery = complete_response(200, "application/json", orjson.dumps(document))
    except GatewayError as error:
        exchange.end(error)
        if isinstance(error, AccessError):
            write_refusal(exchange, gateway())
        delivery = door.refusal(error, exchange.request_id)
    add_headers(delivery.headers, exchange)
    return delivery


def allowed_models(caller: Caller, key: KeySnapshot | None, gateway: Gateway) -> list[Model]:
    """The models and aliases that a caller may use now, by name; a key with a provider has only what that serves."""
    snapshot = gateway.snapshot
    provider = snapshot.providers.get(key.provider_id) if key is not None and key.provider_id is not None else None
    names = snapshot.targets_by_model if key is None or key.provider_id is None else provider.models if provider else ()
    models = (_model(name, caller, key, gateway) for name in sorted({*names, *snapshot.aliases.names}))
    return [model for model in models if model is not None]


def _document(exchange: Exchange, door: ClientDoor, name: str, gateway: Gateway) -> JsonObject:
    caller, key = exchange.identity.caller, exchange.identity.key
    assert caller is not None, "authenticate() has set it"
    if not name:
        return door.list_models(
            allowed_models(caller, key, gateway), exchange.connection.environ.get("QUERY_STRING", "")
        )
    model = _model(name, caller, key, gateway)
    if model is None:
        raise NotFound(f"No model {name} that you may use.", reason="model_not_found")
    return door.model(model)


def _model(name: str, caller: Caller, key: KeySnapshot | None, gateway: Gateway) -> Model | None:
    targets = allowed_targets(name, caller, key, gateway.snapshot)
    if not targets:
        return None
    is_alias = gateway.snapshot.aliases.resolve(name) is not None  # whose targets are in order
    target = targets[0] if is_alias else min(targets, key=lambda target: target.provider.priority)
    provider = target.provider
    facts = provider.facts.get(target.model) or bundled_facts(provider.upstream_name(target.model))
    return Model(name, provider.name, facts, gateway.snapshot.price(target, time()))
