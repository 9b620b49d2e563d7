"""The WSGI application that gunicorn serves."""

import os
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
django_application: WSGIHandler = get_wsgi_application()

from django.conf import settings  # noqa: E402

from gateway_project.errors import GatewayError  # noqa: E402
from gateway_project.server.client_response import error_response  # noqa: E402
from gateway_project.server.http1 import has_arrived  # noqa: E402
from gateway_project.server.management_bodies import ManagementBodies  # noqa: E402
from gateway_project.server.proxies import TrustedProxies  # noqa: E402
from gateway_project.server.request_ids import request_id  # noqa: E402
from gateway_project.status import metrics  # noqa: E402
from gateway_project.status.health import alive, ready  # noqa: E402
from gateway_project.work.doors import is_ours  # noqa: E402
from gateway_project.work.runtime import gateway  # noqa: E402
from gateway_project.work.views import answer  # noqa: E402  needs the settings

PROXIES = TrustedProxies(settings.GATEWAY_TRUSTED_PROXIES)
BODIES = ManagementBodies(max(1, settings.GATEWAY_THREADS // 2), gateway, has_arrived)
# Answered without Django: load balancers send an IP address as Host, which ALLOWED_HOSTS does not list.
MONITORING = {"/healthz": alive, "/readyz": ready, "/metrics": metrics.answer}


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """The response; without its body for HEAD, since gunicorn discards it with a warning."""
    body = _respond(environ, start_response)
    if environ["REQUEST_METHOD"] != "HEAD":
        return body
    if close := getattr(body, "close", None):
        close()  # releases what the response holds
    return []


def _respond(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Work requests and monitoring bypass Django's middleware.

    Work requests use no session, form or database connection that middleware and signals would handle, and save a
    third of their CPU.
    """
    PROXIES.resolve_client(environ)
    if is_ours(environ["PATH_INFO"]):
        return answer(environ).to_wsgi(start_response)
    is_read = environ["REQUEST_METHOD"] in ("GET", "HEAD")
    if is_read and (view := MONITORING.get(environ["PATH_INFO"].removesuffix("/"))):
        return view(environ).to_wsgi(start_response)
    try:
        with BODIES.bounding(environ):
            return django_application(environ, start_response)
    except GatewayError as error:
        return error_response(error, request_id(environ)).to_wsgi(start_response)
