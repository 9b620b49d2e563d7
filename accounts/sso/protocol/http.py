"""What is fetched from identity providers: small documents, within bounds, and Authlib's requests on the same way."""

import json
import logging
from collections.abc import Mapping
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings

from gateway_project.errors import ProviderError, ServiceUnavailable, UpstreamError
from gateway_project.json_types import JsonObject
from gateway_project.server.proxies import is_loopback
from providers.transport.fetching import Bounds, Fetched, fetch_url

if TYPE_CHECKING:
    from authlib.oauth2.auth import ClientAuth

log = logging.getLogger("gateway.sso")

MAX_BYTES = 512 * 1024
MAX_CALLS = 32  # at once, of a process: a slow provider must not take the threads of everybody else
OK = 200
CANNOT_BE_USED = "The identity provider cannot be used at the moment. Try again later, or tell an administrator."
_slots = BoundedSemaphore(MAX_CALLS)


def is_secure(url: str) -> bool:
    """Whether it is a URL with https, or with http on this machine, where nobody listens; with a host, and no user."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    on_this_machine = host == "localhost" or is_loopback(host)
    secure = parts.scheme == "https" or (parts.scheme == "http" and on_this_machine)
    plain = url.isascii() and url.isprintable() and " " not in url
    return bool(secure and host and plain and "@" not in parts.netloc and not parts.fragment)


def request(url: str, **options: Any) -> Fetched:
    """The answer to one request. Raises UpstreamError, whose message says nothing of the network: its cause does."""
    if not is_secure(url):
        raise unusable_error("An identity provider names an address that the gateway does not call: %.200r.", url)
    if not _slots.acquire(timeout=1):
        raise ServiceUnavailable("Too many logins are waiting for identity providers. Try again in a moment.")
    try:
        return fetch_url(url, _bounds(), **options)
    except UpstreamError as error:
        log.warning("The identity provider at %s: %s", urlsplit(url).netloc, error.message)
        raise type(error)(CANNOT_BE_USED) from error
    finally:
        _slots.release()


def unusable_error(reason: str, *arguments: object) -> ProviderError:
    """The error for those who log in; the log has the reason, and so has its cause, for admins."""
    log.warning(reason, *arguments)
    error = ProviderError(CANNOT_BE_USED)
    error.__cause__ = ProviderError(reason % arguments)
    return error


def _bounds() -> Bounds:
    return Bounds(settings.GATEWAY_OIDC_TIMEOUT, MAX_BYTES, settings.GATEWAY_PROVIDER_NETWORKS)


def get_json(url: str, headers: Mapping[str, str] | None = None) -> JsonObject:
    """The JSON object at a URL. Raises UpstreamError."""
    answer = request(url, headers={"Accept": "application/json", **(headers or {})})
    document = read_object(answer.body) if answer.status == OK else None
    if document is None:
        raise unusable_error("%.200s answered with status %d and without a JSON object.", url, answer.status)
    return document


def read_object(body: bytes) -> JsonObject | None:
    """The JSON object of a text; None for anything else."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


class Answer:
    """An answer, as Authlib reads one."""

    def __init__(self, fetched: Fetched) -> None:
        self.status_code, self._body = fetched.status, fetched.body

    def json(self) -> JsonObject:
        """The JSON object; raises ValueError for anything else."""
        document = read_object(self._body)
        if document is None:
            raise ValueError("The answer is not a JSON object.")
        return document

    def raise_for_status(self) -> None:
        """Raise ProviderError for the status of an error."""
        if self.status_code >= 400:
            raise unusable_error("A token endpoint answered with status %d.", self.status_code)


class AuthlibSession:
    """In the place of a session of requests: what Authlib posts takes the checked, bounded way."""

    def post(self, url: str, *, data: Mapping[str, str], headers: Mapping[str, str], auth: "ClientAuth") -> Answer:
        """Post a form, with the credential of the client that `auth` adds."""
        address, values, body = auth.prepare("POST", url, dict(headers), urlencode(data))
        return Answer(request(address, method="POST", headers=values, body=body.encode()))
