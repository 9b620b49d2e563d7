"""What the clients of one API expect on all of its paths: where the key is, what errors and lists look like."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple
from wsgiref.types import WSGIEnvironment

from gateway_project.errors import CacheMiss, GatewayError, LimitError, QuotaExceeded
from gateway_project.json_types import JsonObject
from gateway_project.server.http_delivery import Delivery, error_response
from providers.formats.dialect import Dialect
from providers.pricing.facts import NOTHING_KNOWN, ModelFacts
from providers.pricing.prices import Price

# Errors that a client cannot avoid by a retry.
NOT_RETRYABLE = (CacheMiss, QuotaExceeded)


class Model(NamedTuple):
    """A model that a caller may use, as lists of models show it."""

    name: str
    provider: str
    facts: ModelFacts = NOTHING_KNOWN
    price: Price | None = None  # now

    def describe_facts(self) -> JsonObject:
        """What is known of it, under names that no client API has for anything else."""
        facts, price = self.facts, self.price
        members: JsonObject = {
            "context_length": facts.context_length,
            "max_output_tokens": facts.max_output_tokens,
            "input_modalities": list(facts.input_modalities),
            "output_modalities": list(facts.output_modalities),
            "pricing": price and _described_price(price),
        }
        return {name: value for name, value in members.items() if value}


def _described_price(price: Price) -> JsonObject:
    """For a million tokens, and for each request if that costs something."""
    names = ("input", "output", "cache_read", "cache_write", "cache_write_hour", "reasoning")
    amounts = {name: getattr(price, name) for name in names}
    texts = {name: f"{amount.normalize():f}" for name, amount in amounts.items() if amount is not None}
    return {"currency": price.currency, **texts, **({"request": f"{price.request:f}"} if price.request else {})}


class Door:
    """The door of /work: a bearer token, the provider's own answers, and the usual error document."""

    in_shape = False  # whether answers have the client's shape; else the provider's own
    request_id_header = ""  # the header in which clients expect the request's id, besides X-Svc-Request-ID

    def credential(self, headers: WSGIEnvironment) -> str:
        """The key or token in the headers (in WSGI's spelling); '' if there is none."""
        authorization: str = headers.get("HTTP_AUTHORIZATION", "")
        scheme, _, credential = authorization.partition(" ")
        return credential.lstrip(" ") if scheme.lower() == "bearer" else ""

    def error_body(self, error: GatewayError, request_id: str) -> JsonObject:
        """The document of an error."""
        return error.document()

    def refusal(self, error: GatewayError, request_id: str, attempts: int = 0) -> Delivery:
        """The response to a request that failed; `attempts` is the number of providers that were asked."""
        return error_response(error, document=self.error_body(error, request_id))


class ClientDoor(Door, ABC):
    """A door for the SDKs of one API: everything is in their shape."""

    in_shape = True
    ecosystem: str  # the vendor of the client API
    api: str  # the name of the client API in documentation

    @abstractmethod
    def error_body(self, error: GatewayError, request_id: str) -> JsonObject:
        """The document of an error."""

    def refusal(self, error: GatewayError, request_id: str, attempts: int = 0) -> Delivery:
        delivery = super().refusal(error, request_id, attempts)
        # SDKs retry failed requests, and wait for as long as Retry-After says.
        if attempts > 1 or isinstance(error, NOT_RETRYABLE) or (isinstance(error, LimitError) and error.permanent):
            delivery.headers.append(("x-should-retry", "false"))
        return delivery

    @abstractmethod
    def list_models(self, models: Iterable[Model], query: str) -> JsonObject:
        """The document that lists models; `query` is the query string."""

    @abstractmethod
    def model(self, model: Model) -> JsonObject:
        """The document about one model."""


class Endpoint(NamedTuple):
    """A path for work requests: its door, its operation and the dialect of its requests.

    Without an operation the body says which it is, in one of OpenAI's shapes. A model in the path (`model`) takes
    precedence over the one in the body.
    """

    door: Door
    operation: str = ""
    dialect: Dialect | None = None
    summary: str = ""
    model: str = ""
