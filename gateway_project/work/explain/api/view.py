"""POST /work?explain=true, and the same at the client APIs: what would happen to the request."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import orjson
from django.db import DatabaseError, close_old_connections

from gateway_project.api import audit
from gateway_project.api.write_limit import count_write
from gateway_project.errors import AccessError, GatewayError, ServiceUnavailable
from gateway_project.server.http_delivery import Delivery, complete_response
from gateway_project.work.exchange import Exchange
from gateway_project.work.explain.document import describe_decision
from gateway_project.work.explain.options import OWN, Options, read_options
from gateway_project.work.explain.subjects import Subject, authentication_of, sees_all, subject_of, viewer_of
from gateway_project.work.explain.walk import Walk, walk_request
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.entry import write_refusal
from gateway_project.work.stages.authentication import identify_caller

ASKING = "explain="  # in the query string
MAX_MODEL_LENGTH = 200  # as in the log


def deliver_explanation(exchange: Exchange, gateway: Gateway, query: str) -> Delivery | None:
    """The explanation of a request that is not sent, if the query asks for one; errors in the shape of the door."""
    try:
        if (options := read_options(query)) is None:
            return None
        with _database():
            document = orjson.dumps({"data": _explain(exchange, gateway, options)}, default=str)
        delivery = complete_response(200, "application/json", document)
    except GatewayError as error:
        exchange.end(error)
        if isinstance(error, AccessError):
            write_refusal(exchange, gateway)
        delivery = exchange.endpoint.door.refusal(error, exchange.request_id)
    names = ("X-Svc-Request-ID", exchange.endpoint.door.request_id_header)
    delivery.headers += [(name, exchange.request_id) for name in names if name]
    return delivery


def _explain(exchange: Exchange, gateway: Gateway, options: Options) -> dict[str, object]:
    own = Subject(*identify_caller(exchange, gateway))
    is_external = bool(exchange.identity.trusted_issuer)
    viewer = viewer_of(own, is_external=is_external)
    count_write(viewer, "POST")
    actor = audit.Actor(viewer, exchange.request_id, exchange.connection.address)
    is_login = own.key is None and not is_external
    subject = subject_of(options, own, viewer, gateway, is_login=is_login)
    if options != OWN:
        exchange = replace(exchange, connection=replace(exchange.connection, address=options.address))
    result = walk_request(exchange, gateway, authentication_of(options, subject))
    document = describe_decision(result, subject, with_all=sees_all(viewer))
    record_explanation(actor, result, subject, viewer.user.username)
    return document


def record_explanation(actor: audit.Actor, result: Walk, subject: Subject, name: str) -> None:
    """Write to the log who had a request explained, and the result."""
    key = f" with key {subject.key.name}" if subject.key is not None else ""
    error, model = result.exchange.error, result.exchange.model or "?"
    verdict = "served" if error is None else f"refused ({error.exception})"
    message = (
        f"{name} had a request of {subject.caller.name}{key} for the model {model} explained: it would be {verdict}."
    )
    after = {
        "userId": subject.caller.id,
        "keyName": subject.key.name if subject.key is not None else None,
        "model": model[:MAX_MODEL_LENGTH],
        "allowed": error is None,
    }
    audit.record(actor, "explain", "work", after=after, message=message)


@contextmanager
def _database() -> Iterator[None]:
    """Requests for work come without Django's own care for connections. Raises ServiceUnavailable."""
    close_old_connections()
    try:
        yield
    except DatabaseError as error:
        raise ServiceUnavailable("The database does not answer, which an explanation needs.") from error
    finally:
        close_old_connections()
