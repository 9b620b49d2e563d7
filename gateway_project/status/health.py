"""GET /healthz: whether this process answers. GET /readyz: whether its database and its cache answer."""

from wsgiref.types import WSGIEnvironment

import orjson
from django.http import HttpRequest, HttpResponseBase

from gateway_project.api.access import ANYBODY
from gateway_project.api.documents import JSON
from gateway_project.api.openapi.endpoints import Answer, Operation, endpoint
from gateway_project.server.http_delivery import Delivery, complete_response
from gateway_project.server.request_ids import new_request_id
from gateway_project.work.runtime import gateway

WORD = {"enum": ["ok", "unavailable"]}
ALIVE = {"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]}
READY = {
    "type": "object",
    "properties": {"status": WORD, "database": WORD, "cache": WORD},
    "required": ["status", "database", "cache"],
}


def check_liveness(environ: WSGIEnvironment) -> Delivery:
    """200 as long as the process answers."""
    return _answer({"status": "ok"}, 200)


def check_readiness(environ: WSGIEnvironment) -> Delivery:
    """200 while database and cache answer, else 503; the body says which of them does not."""
    # Background threads watch both: a store that hangs must not make this request hang.
    parts = {"database": gateway().follower.fresh, "cache": not gateway().state.degraded}
    words = {name: "ok" if is_available else "unavailable" for name, is_available in parts.items()}
    is_ready = all(parts.values())
    return _answer({"status": "ok" if is_ready else "unavailable", **words}, 200 if is_ready else 503)


@endpoint(
    get=Operation("Whether the process answers", {"200": Answer("It does.", {JSON: ALIVE})}, tag="health", who=ANYBODY)
)
def healthz(request: HttpRequest) -> HttpResponseBase:
    return check_liveness(request.META).to_django()


@endpoint(
    get=Operation(
        "Whether the database and the cache answer",
        {
            "200": Answer("Both do.", {JSON: READY}),
            "503": Answer("The database or the cache does not answer.", {JSON: READY}),
        },
        tag="health",
        who=ANYBODY,
    )
)
def readyz(request: HttpRequest) -> HttpResponseBase:
    return check_readiness(request.META).to_django()


def _answer(body: dict[str, str], status: int) -> Delivery:
    return complete_response(status, JSON, orjson.dumps(body), new_request_id())
