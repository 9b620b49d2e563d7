"""What the clients of one ecosystem expect of a door, whichever of its paths they come by."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gateway_project.errors import CacheMiss, GatewayError, LimitError, QuotaExceeded
from gateway_project.server.client_response import Delivery, error_response
from providers.formats.base import Dialect

# What is no better a moment later.
NOT_RETRYABLE = (CacheMiss, QuotaExceeded)


class Model(NamedTuple):
    """A model that a caller may ask, as the listings show it."""

    name: str
    provider: str


class Door:
    """The manners of /work: a bearer's key, the provider's own answers, and the usual document of every error."""

    in_shape = False  # whether answers go back in the client's shape; else in the provider's own
    request_id_header = ""  # under which its clients look for the request's id, beside our own

    def credential(self, headers: Mapping[str, Any]) -> str:
        """The key or token in the headers (WSGI's spelling), '' where there is none."""
        scheme, _, credential = headers.get("HTTP_AUTHORIZATION", "").partition(" ")
        return credential.lstrip(" ") if scheme.lower() == "bearer" else ""

    def error_body(self, error: GatewayError, request_id: str) -> dict[str, Any]:
        """The document that an error is told by."""
        return error.document()

    def refusal(self, error: GatewayError, request_id: str, tried: int = 0) -> Delivery:
        """A whole answer that tells an error; `tried`: how many providers were asked."""
        return error_response(error, document=self.error_body(error, request_id))


class ClientDoor(Door, ABC):
    """A door for the SDKs of one ecosystem: everything in their shape."""

    in_shape = True
    ecosystem: str  # whose SDKs they are

    @abstractmethod
    def error_body(self, error: GatewayError, request_id: str) -> dict[str, Any]:
        """The document that an error is told by."""

    def refusal(self, error: GatewayError, request_id: str, tried: int = 0) -> Delivery:
        delivery = super().refusal(error, request_id, tried)
        # The SDKs of both ecosystems repeat what failed, and wait for as long as Retry-After says.
        if tried > 1 or isinstance(error, NOT_RETRYABLE) or (isinstance(error, LimitError) and error.permanent):
            delivery.headers.append(("x-should-retry", "false"))
        return delivery

    @abstractmethod
    def listing(self, models: Iterable[Model], query: str) -> dict[str, Any]:
        """The document that lists models; `query` is the query string."""

    @abstractmethod
    def model(self, model: Model) -> dict[str, Any]:
        """The document about one model."""


class Endpoint(NamedTuple):
    """A path on which work arrives: whose clients come by it, what they ask, and how they write it.

    Without an operation the body says which it is, in one of OpenAI's shapes. A path that names the model
    (`model`) decides, whatever the body says.
    """

    door: Door
    operation: str = ""
    dialect: Dialect | None = None
    summary: str = ""
    model: str = ""
