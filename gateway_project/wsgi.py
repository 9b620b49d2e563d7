"""The WSGI application that gunicorn serves."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from wsgiref.types import StartResponse, WSGIEnvironment

from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
django_application: WSGIHandler = get_wsgi_application()

from django.conf import settings  # noqa: E402
from django.urls import get_resolver  # noqa: E402

from accounts.guessing.hashing import MAX_WAITING, THREADS  # noqa: E402
from gateway_project.errors import GatewayError, ServiceUnavailable  # noqa: E402
from gateway_project.server import overload  # noqa: E402
from gateway_project.server.connections.addresses import Places  # noqa: E402
from gateway_project.server.connections.logins import (  # noqa: E402
    LOGIN_PATHS,
    TOO_MANY_LOGINS,
    has_no_password,
)
from gateway_project.server.connections.management import MANAGEMENT, TURNS  # noqa: E402
from gateway_project.server.connections.turns import END_TURN  # noqa: E402
from gateway_project.server.connections.unlisted_proxies import UnlistedProxies  # noqa: E402
from gateway_project.server.http1.messages import has_arrived  # noqa: E402
from gateway_project.server.http_delivery import error_response  # noqa: E402
from gateway_project.server.management_bodies import (  # noqa: E402
    SLOW_SHARE,
    ManagementBodies,
    refuse_other_charsets,
)
from gateway_project.server.paths import LOGIN_API  # noqa: E402
from gateway_project.server.proxies import PEER, TrustedProxies  # noqa: E402
from gateway_project.server.request_ids import request_id  # noqa: E402
from gateway_project.status.monitoring import MONITORING_PATHS  # noqa: E402
from gateway_project.work.doors import is_work_path  # noqa: E402
from gateway_project.work.runtime import gateway  # noqa: E402
from gateway_project.work.views import answer  # noqa: E402  needs the settings

get_resolver().reverse_dict  # noqa: B018  # read now: each of many first requests at once would read all URLs
PROXIES = TrustedProxies(settings.GATEWAY_TRUSTED_PROXIES, UnlistedProxies().report)
BODIES = ManagementBodies(max(1, settings.GATEWAY_THREADS // SLOW_SHARE), gateway, has_arrived)
# No more logins are admitted than may wait for a hash: in Django a refusal would be dear.
LOGINS = Places(THREADS + MAX_WAITING, 6, TOO_MANY_LOGINS)
# Of an address that a trusted proxy reports: its connections are the proxy's.
FORWARDED = Places(
    settings.GATEWAY_THREADS,
    settings.GATEWAY_CONNECTIONS_PER_ADDRESS or max(settings.GATEWAY_THREADS // 2, 1),
    "Too many requests of this address are in progress.",
)
# Answered without Django: load balancers send an IP address as Host, which ALLOWED_HOSTS does not list.
METRICS = "/metrics"  # takes long: the reserve's threads refuse it
MONITORING = {f"/{name}": path.respond for name, path in MONITORING_PATHS.items()}


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """The response; without its body for HEAD, since gunicorn discards it with a warning."""
    body = _respond(environ, start_response)
    if environ["REQUEST_METHOD"] != "HEAD":
        return body
    if close := getattr(body, "close", None):
        close()  # releases what the response holds
    return []


def _respond(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    PROXIES.resolve_client(environ)
    return _answer_forwarded(environ, start_response) if PEER in environ else _route(environ, start_response)


def _answer_forwarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """The response to a request of a trusted proxy, within the share of the address that it reports."""
    try:
        return _in_place(FORWARDED, environ, partial(_route, environ, start_response))
    except GatewayError as error:
        return error_response(error, request_id(environ)).to_wsgi(start_response)


def _in_place(places: Places, environ: WSGIEnvironment, respond: Callable[[], Iterable[bytes]]) -> Iterable[bytes]:
    """The response, which keeps a place until it is sent. Raises ServiceUnavailable if there is none."""
    address = environ["REMOTE_ADDR"]
    places.take(address)
    release = partial(places.release, address)
    try:
        return ReleasingBody(respond(), release)
    except BaseException:
        release()
        raise


class ReleasingBody:
    """A response's body that calls `release` when it is closed."""

    def __init__(self, body: Iterable[bytes], release: Callable[[], None]) -> None:
        self._body, self._release = body, release

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        try:
            if close := getattr(self._body, "close", None):
                close()
        finally:
            self._release()


def _route(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Work requests and monitoring bypass Django's middleware.

    Work requests use no session, form or database connection, which middleware and signals handle: without these they
    need a third less CPU time.
    """
    if is_work_path(environ["PATH_INFO"]):
        return answer(environ).to_wsgi(start_response)
    path, is_read = environ["PATH_INFO"].removesuffix("/"), environ["REQUEST_METHOD"] in ("GET", "HEAD")
    if is_read and (respond := MONITORING.get(path)) and not (path == METRICS and overload.is_overloaded()):
        return respond(environ).to_wsgi(start_response)
    try:
        if overload.is_overloaded():  # the threads of the reserve answer health checks, and refuse all else at once
            raise ServiceUnavailable("The gateway is overloaded: it is serving as many requests as it can.")
        is_login = not is_read and path in LOGIN_PATHS
        return _in_place(MANAGEMENT, environ, partial(_manage, environ, start_response, is_login))
    except GatewayError as error:
        return error_response(error, request_id(environ)).to_wsgi(start_response)


def _manage(environ: WSGIEnvironment, start_response: StartResponse, is_login: bool) -> Iterable[bytes]:
    """Django's response, within the bounds of its resources. Raises ServiceUnavailable and UnsupportedMediaType."""
    refuse_other_charsets(environ.get("CONTENT_TYPE", ""))
    # A login's body is read before it takes its place, which slow bodies would keep from others.
    with BODIES.bound_body(environ, at_once=is_login):
        if is_login:  # needs no turn: it waits for its hash
            with _login_place(environ):
                return django_application(environ, start_response)
        with TURNS.turn() as environ[END_TURN]:
            return django_application(environ, start_response)


def _login_place(environ: WSGIEnvironment) -> AbstractContextManager[None]:
    """The place of a login whose body has been read; who renews a session by its token needs none."""
    is_api = environ["PATH_INFO"].removesuffix("/") == LOGIN_API
    if is_api and has_no_password(environ["wsgi.input"].getvalue()):
        return nullcontext()
    return LOGINS.place(environ["REMOTE_ADDR"])
