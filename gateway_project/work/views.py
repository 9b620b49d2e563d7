"""POST /work and the client APIs: parse, run, deliver."""

from wsgiref.types import WSGIEnvironment

from django.http import HttpRequest, HttpResponseBase

from gateway_project.api.openapi import endpoints
from gateway_project.api.openapi.endpoints import Operation, refuse_method
from gateway_project.errors import GatewayError, ServiceUnavailable
from gateway_project.server.connections.management import MANAGEMENT
from gateway_project.server.http_delivery import Delivery
from gateway_project.server.request_ids import decode_text, request_id
from gateway_project.server.threads import take_wait
from gateway_project.work.doors import MODELS, door_of, endpoint_at, model_list, nothing_at
from gateway_project.work.doors.base import ClientDoor, Door, Endpoint
from gateway_project.work.exchange import Exchange
from gateway_project.work.explain.api.view import ASKING, deliver_explanation
from gateway_project.work.gateway import Gateway
from gateway_project.work.openapi import WORK
from gateway_project.work.pipeline import serve_request
from gateway_project.work.runtime import gateway
from gateway_project.work.streaming.stream import ClientConnection
from providers.transport.calls import Call


@endpoints.endpoint(post=WORK)
def work(request: HttpRequest) -> HttpResponseBase:
    """Answer a work request with the provider's own body."""
    return answer(request.META).to_django()


class DoorView:
    """The view of a door's path, answered in the shape of its client; `operations` are its methods."""

    csrf_exempt = True  # no cookie is looked at here

    def __init__(self, **operations: Operation) -> None:
        self.operations = operations

    def __call__(self, request: HttpRequest, **kwargs: str) -> HttpResponseBase:
        return answer(request.META).to_django()


def answer(environ: WSGIEnvironment) -> Delivery:
    """The response to a work request, or to any request at a door; `environ` is WSGI's."""
    path = decode_text(environ["PATH_INFO"]).removesuffix("/")
    if endpoint := endpoint_at(path):
        return _work(environ, endpoint)
    door = door_of(environ)
    if not (models := MODELS.fullmatch(path)):
        return _refusal_response(nothing_at(decode_text(environ["PATH_INFO"])), environ, door)
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return _refusal_response(refuse_method(["GET", "HEAD"]), environ, door)
    return _list_models(environ, door, models["model"] or "")


def _list_models(environ: WSGIEnvironment, door: ClientDoor, model: str) -> Delivery:
    """No work, and unlimited by its limits: it has a share of the threads with the management requests."""
    try:
        with MANAGEMENT.place(environ.get("REMOTE_ADDR", "")):
            return model_list.deliver_models(_exchange(environ, Endpoint(door), gateway()), door, model)
    except ServiceUnavailable as error:
        return _refusal_response(error, environ, door)


def _work(environ: WSGIEnvironment, endpoint: Endpoint) -> Delivery:
    if environ["REQUEST_METHOD"] != "POST":
        return _refusal_response(refuse_method(["POST"]), environ, endpoint.door)
    parts = gateway()
    exchange = _exchange(environ, endpoint, parts, take_wait())
    if ASKING in (query := environ.get("QUERY_STRING", "")):
        return deliver_explanation(exchange, parts, query) or serve_request(exchange, parts)
    return serve_request(exchange, parts)


def _exchange(
    environ: WSGIEnvironment, endpoint: Endpoint, gateway: Gateway, wait: tuple[float, float] | None = None
) -> Exchange:
    client = environ.get("gunicorn.socket")
    connection = ClientConnection(environ, client, environ.get("REMOTE_ADDR", ""))
    timings = [("waiting", *wait)] if wait else []
    call = Call(client=client, total_seconds=gateway.total_seconds)
    exchange = Exchange(connection, request_id(environ), endpoint, call=call, timings=timings)
    call.owner = exchange.identity
    return exchange


def _refusal_response(error: GatewayError, environ: WSGIEnvironment, door: Door) -> Delivery:
    """The response to a request that does not reach the pipeline."""
    delivery = door.refusal(error, correlation_id := request_id(environ))
    delivery.headers += [(name, correlation_id) for name in ("X-Svc-Request-ID", door.request_id_header) if name]
    return delivery
