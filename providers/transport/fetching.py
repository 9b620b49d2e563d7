"""One small document from a server that administrators named, within bounds of time and size; redirects are refused."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from gateway_project.errors import ProviderError, ProviderTimeout, UpstreamError
from providers.transport.calls import Call, End, Interrupted
from providers.transport.http_response import HTTPResponse, InvalidResponse
from providers.transport.provider_response import explain_failure
from providers.transport.transport import CheckedAdapter, RefusedAddress


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long the whole exchange may take, how large the body may be, and which networks may be called."""

    seconds: float
    max_bytes: int
    networks: str = "any"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole answer; the names of headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def fetch_url(
    url: str, bounds: Bounds, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes = b""
) -> Fetched:
    """The answer to one request, whatever its status; raises ProviderError and ProviderTimeout.

    It uses a connection of its own. A redirect is an answer like any other: nothing is followed.
    """
    call = Call(client=None, total_seconds=bounds.seconds)
    data = _request_head(method, urlsplit(url), headers or {}, len(body)) + body
    alarm = threading.Timer(bounds.seconds, call.interrupt, [End.TOTAL])
    alarm.daemon = True
    alarm.start()
    try:
        return _exchange(url, data, bounds, call)
    except Interrupted as error:
        raise ProviderTimeout(f"It {error.end.value}.") from error
    finally:
        alarm.cancel()


def _exchange(url: str, data: bytes, bounds: Bounds, call: Call) -> Fetched:
    try:
        connection = CheckedAdapter(bounds.networks).connect(url, bounds.seconds)
    except RefusedAddress as refused:
        raise ProviderError(f"The gateway does not call it: {refused}.") from None
    except TimeoutError:
        raise ProviderTimeout("It did not accept a connection in time.") from None
    except (OSError, UnicodeError) as error:  # urllib3's errors among them
        raise ProviderError(f"It cannot be reached: {explain_failure(_first_cause(error))}.") from None
    sock = connection.sock
    try:
        sock.settimeout(bounds.seconds)
        call.attach(sock)
        sock.sendall(data)
        response = HTTPResponse(sock, limit=bounds.max_bytes)
        response.read_head()
        answer = Fetched(response.status, response.read(), dict(response.headers))
        response.end()
        call.check()  # a shutdown looks like the end of a body without framing
        return answer
    except (InvalidResponse, OSError) as error:
        raise _failure(call, error) from error
    finally:
        call.detach()
        connection.close()


def _failure(call: Call, error: Exception) -> UpstreamError:
    if call.end is not None:
        return ProviderTimeout(f"It {call.end.value}.")
    return ProviderError(f"It failed: {explain_failure(error)}.")


def _first_cause(error: BaseException) -> BaseException:
    """The first of the errors that libraries wrap several times over."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _request_head(method: str, url: SplitResult, headers: Mapping[str, str], length: int) -> bytes:
    """The request line and headers; values that could inject a header are refused."""
    target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    lines = {
        "Host": url.netloc.rpartition("@")[2],
        "Accept-Encoding": "identity",
        "User-Agent": "language-model-gateway",
        "Connection": "close",
        **headers,
        **({"Content-Length": str(length)} if method == "POST" else {}),
    }
    texts = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items())]
    if " " in target or any("\r" in text or "\n" in text or "\0" in text or not text.isascii() for text in texts):
        raise ProviderError("Its URL or the credential contains a character that cannot be sent.")
    return ("\r\n".join(texts) + "\r\n\r\n").encode()
