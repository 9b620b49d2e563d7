"""What any Django gateway pays at least: an empty view, and a bare pass-through with one `requests` call.

One file, no middleware, no apps, no database; gunicorn runs `bench.baseline:application`.
"""

import os
from functools import partial

import requests
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from requests.adapters import HTTPAdapter

STANDIN = os.environ.get("BENCH_STANDIN", "http://127.0.0.1:8002")
HEADERS = {"Authorization": "Bearer bench", "Content-Type": "application/json"}
HELLO = b"hello"


def tuned_session() -> requests.Session:
    """A session without the work that a gateway does not need."""
    session = requests.Session()
    session.trust_env = False
    session.headers.clear()
    session.mount("http://", HTTPAdapter(pool_connections=10, pool_maxsize=4000))
    return session


SESSION = tuned_session()


def ask(request: HttpRequest, behaviour: str, *, stream: bool) -> requests.Response:
    """The one call of the provider."""
    return SESSION.post(
        f"{STANDIN}/{behaviour}/v1/chat/completions",
        data=request.body,
        headers=HEADERS,
        timeout=(5, 120),
        allow_redirects=False,
        stream=stream,
    )


def with_length(body: bytes, content_type: str) -> HttpResponse:
    # Without a length gunicorn would send chunks, in two writes more: the baseline is to be the best there is.
    return HttpResponse(body, content_type=content_type, headers={"Content-Length": str(len(body))})


def hello(request: HttpRequest) -> HttpResponse:
    """The empty view."""
    return with_length(HELLO, "text/plain")


def whole(request: HttpRequest, behaviour: str) -> HttpResponse:
    """The bare pass-through."""
    response = ask(request, behaviour, stream=False)
    return with_length(response.content, response.headers["Content-Type"])


def chunks(request: HttpRequest, behaviour: str) -> StreamingHttpResponse:
    """The bare pass-through of a stream."""
    response = ask(request, behaviour, stream=True)
    return StreamingHttpResponse(response.iter_content(chunk_size=None), content_type=response.headers["Content-Type"])


urlpatterns = [
    path("hello", hello),
    path("pass", partial(whole, behaviour="fast")),
    path("pass-slow", partial(whole, behaviour="slow")),
    path("pass-stream", partial(chunks, behaviour="paced")),
    path("pass-long", partial(chunks, behaviour="long")),
    path("pass-brief", partial(chunks, behaviour="brief")),
]

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="not-a-secret-" * 4,
    # What the gateway's worker class reads.
    GATEWAY_CLIENT_TIMEOUT=20,
    GATEWAY_MIN_BODY_RATE=64 * 1024,
    GATEWAY_TRUSTED_PROXIES=[],
    GATEWAY_CONNECTIONS_PER_ADDRESS=0,
    GATEWAY_GRACEFUL_TIMEOUT=30,
)
application = get_wsgi_application()
