"""GET /metrics: the metrics of all processes of this machine, for Prometheus."""

import hmac
from wsgiref.types import WSGIEnvironment

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.http.request import split_domain_port, validate_host

from gateway_project.api.access import MONITORING
from gateway_project.api.openapi.endpoints import Answer, Operation, endpoint
from gateway_project.errors import AuthenticationFailed, GatewayError
from gateway_project.server.http_delivery import Delivery, complete_response, error_response
from gateway_project.server.proxies import is_local, is_loopback
from gateway_project.server.request_ids import new_request_id
from gateway_project.status.version import version
from gateway_project.work.routing.provider_health import health_gauges, present_health
from gateway_project.work.runtime import gateway
from gateway_project.work.tasks.process_metrics import process_gauges

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NEEDS_TOKEN = "Metrics need GATEWAY_METRICS_TOKEN as bearer token."
NEEDS_TOKEN_ELSEWHERE = (
    "Metrics are available from this machine, and elsewhere with GATEWAY_METRICS_TOKEN as bearer token."
)
INFO = {"version": "productVersion", "git": "git", "branch": "branch"}


def scrape(environ: WSGIEnvironment) -> Delivery:
    """The metrics, for callers with the token and, unless this is production, for programs on this machine."""
    if not (_is_without_token(environ) or _has_token(environ)):
        raise AuthenticationFailed(NEEDS_TOKEN if settings.GATEWAY_MODE == "production" else NEEDS_TOKEN_ELSEWHERE)
    from telemetry.metrics import exposition  # imported here: only processes that are scraped need its library

    process = gateway()
    process.metrics.aggregate(process.snapshot.targets_by_model)
    info = {label: version()[name] for label, name in INFO.items()}
    health = health_gauges(present_health(process))
    content = exposition.render(*process.metrics.gather(process_gauges(process)), info, health)
    return complete_response(200, CONTENT_TYPE, content, new_request_id(), [("Cache-Control", "no-store")])


def answer(environ: WSGIEnvironment) -> Delivery:
    """The same, with an error as a document."""
    try:
        return scrape(environ)
    except GatewayError as error:
        return error_response(error, new_request_id())


@endpoint(
    get=Operation(
        "Metrics for Prometheus",
        {"200": Answer("The metrics.", {CONTENT_TYPE.partition(";")[0]: {"type": "string"}})},
        tag="health",
        who=MONITORING,
        description=(
            "Needs GATEWAY_METRICS_TOKEN as bearer token. Requests from this machine need none, unless "
            "GATEWAY_MODE=production."
        ),
        errors=(AuthenticationFailed,),
    )
)
def metrics(request: HttpRequest) -> HttpResponseBase:
    return scrape(request.META).to_django()


def _is_without_token(environ: WSGIEnvironment) -> bool:
    # A proxy on this machine that adds no forwarding header looks like a local program: production trusts neither.
    return settings.GATEWAY_MODE != "production" and is_local(environ) and _is_for_our_host(environ)


def _is_for_our_host(environ: WSGIEnvironment) -> bool:
    """Whether the header Host is one of ours: a malicious page in a local browser sends the name of its own site."""
    host = environ.get("HTTP_HOST", "")
    name, _ = split_domain_port(host)
    return (bool(name) and validate_host(name, ["localhost", *settings.ALLOWED_HOSTS])) or is_loopback(host)


def _has_token(environ: WSGIEnvironment) -> bool:
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    expected = settings.GATEWAY_METRICS_TOKEN
    is_equal = hmac.compare_digest(token.encode("utf-8", "replace"), expected.encode())
    return bool(expected) and scheme.lower() == "bearer" and is_equal
