"""Every way a request can end badly; each error knows its status, its name and its headers.

    GatewayError
    ├── RequestError                  the request cannot be served as it was sent
    │   ├── ValidationError           400
    │   ├── ProviderNotSelected       400
    │   ├── NotFound                  404
    │   ├── MethodNotAllowed          405
    │   ├── Conflict                  409
    │   ├── PayloadTooLarge           413
    │   ├── UnsupportedMediaType      415
    │   └── CacheMiss                 504  only a stored response was wanted
    ├── AccessError                   the caller may not do this
    │   ├── AuthenticationFailed      401
    │   ├── PermissionDenied          403
    │   ├── RuleDenied                403
    │   └── LicenceInvalid            403
    ├── LimitError                    the caller may, but later
    │   ├── RateLimited               429
    │   ├── QuotaExceeded             429
    │   └── ActiveUseLimitReached     429
    ├── UpstreamError                 the provider did not give an answer
    │   ├── ProviderRejected          the provider's own 4xx
    │   ├── ProviderError             502
    │   ├── ProviderOverloaded        429 or 503
    │   └── ProviderTimeout           504
    └── OwnError                      the gateway could not
        ├── ClientClosed              499  nobody is left to read it
        ├── InternalError             500
        └── ServiceUnavailable        503

Raising one is all that a stage or a service does; one place turns it into a response.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

# Of a message, in characters: it may repeat what a client or a provider said, and goes into answers and the log.
LONGEST_MESSAGE, LONGEST_WORD = 2048, 256


class GatewayError(Exception):
    """What every error can say: code (HTTP status), exception (its name), message, headers, severity.

    `field` is which of the request's is to blame, `reason` a word for it that clients know, a provider's maybe;
    both may be ''. All three are cut where they are long, and only when they are read: what hide() is to take out
    of them is still whole until then.
    """

    code: int = 500
    exception: ClassVar[str] = "GatewayError"
    default_message: ClassVar[str] = "The request could not be served."
    default_headers: ClassVar[Mapping[str, str]] = {}
    default_retry_after: ClassVar[float | None] = None

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.exception = cls.__name__

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        field: str = "",
        reason: str = "",
    ) -> None:
        self._said = (message or self.default_message, field, reason)
        self.retry_after = self.default_retry_after if retry_after is None else retry_after
        self.headers: dict[str, str] = {**self.default_headers, **(headers or {})}
        if self.retry_after is not None:
            # Whole seconds, rounded up: a client that comes back too early is refused again.
            self.headers["Retry-After"] = str(max(0, math.ceil(self.retry_after)))
        super().__init__(self.message)

    def hide(self, hidden: Callable[[str], str]) -> None:
        """Pass all that it says through a function that takes out what nobody may read."""
        self._said = tuple(map(hidden, self._said))
        self.args = (self.message,)

    @property
    def message(self) -> str:
        return _cut(self._said[0], LONGEST_MESSAGE)

    @property
    def field(self) -> str:
        return _cut(self._said[1], LONGEST_WORD)

    @property
    def reason(self) -> str:
        return _cut(self._said[2], LONGEST_WORD)

    @property
    def severity(self) -> str:
        """How loudly the log tells it: "warning" below 500, else "error"."""
        return "warning" if self.code < 500 else "error"

    def body(self) -> dict[str, int | str]:
        """The document every error is sent as."""
        return {"code": self.code, "exception": self.exception, "message": self.message}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


class RequestError(GatewayError):
    """The request cannot be served as it was sent."""

    code = 400


class ValidationError(RequestError):
    """The body or a parameter is not of the right form."""

    default_message = "The request is not of the right form."
    problems: tuple[str, ...] = ()  # one for each field, where several were looked at; the message has all of them

    @classmethod
    def from_fields(cls, problems: Mapping[str, Sequence[str]]) -> Self:
        """One error that tells the problems of each field; those of no single field stand under "__all__"."""
        told = tuple(_told(field, texts) for field, texts in problems.items())
        error = cls(" ".join(told))
        error.problems = told
        return error


def _told(field: str, texts: Sequence[str]) -> str:
    told = " ".join(texts)
    return told if field == "__all__" else f"{field}: {told}"


class ProviderNotSelected(RequestError):
    """Neither the key nor the model name leads to a provider."""

    default_message = "No provider can be selected for this request."


class NotFound(RequestError):
    """Nothing has this id, or this path."""

    code = 404
    default_message = "There is nothing here."


class MethodNotAllowed(RequestError):
    """The path exists, the method does not; the caller of this names the others in the header Allow."""

    code = 405
    default_message = "This path does not support this method."


class Conflict(RequestError):
    """The name is taken, or the change would contradict what is stored."""

    code = 409
    default_message = "This contradicts what exists already."


class PayloadTooLarge(RequestError):
    """The body is over the limit."""

    code = 413
    default_message = "The body is too large."


class UnsupportedMediaType(RequestError):
    """The body is sent as something that is not JSON."""

    code = 415
    default_message = "Send the body as application/vnd.api+json or application/json."


class CacheMiss(RequestError):
    """The client wanted a stored response or none, and there is none."""

    code = 504
    default_message = "No stored response exists for this request."

    @property
    def severity(self) -> str:
        """A warning: the client asked for exactly this."""
        return "warning"


class AccessError(GatewayError):
    """The caller may not do this."""

    code = 403


class AuthenticationFailed(AccessError):
    """The caller is nobody; one message for whatever was sent, so that no reason can be told from another."""

    code = 401
    NOTHING_SENT: ClassVar[str] = "No credential was sent: send Authorization: Bearer with an API key or access token."
    default_message = "The credential is missing or not valid."
    # A 401 without a challenge is malformed: RFC 9110, 15.5.2.
    default_headers = {"WWW-Authenticate": "Bearer"}


class PermissionDenied(AccessError):
    """The credential is good and lacks the permission."""

    default_message = "The credential does not have the permission for this."


class RuleDenied(AccessError):
    """No enabled rule allows the request."""

    default_message = "No rule allows this request."


class LicenceInvalid(AccessError):
    """The installed licence is expired or does not verify."""

    default_message = "The installed licence is expired or invalid."


class LimitError(GatewayError):
    """The caller may do this, but later; `for_good` where no later is late enough for so large a request."""

    code = 429
    default_retry_after = 1

    def __init__(self, message: str = "", *, for_good: bool = False, **options: Any) -> None:
        super().__init__(message, **options)
        self.for_good = for_good


class RateLimited(LimitError):
    """Too many requests, tokens or concurrent requests in this minute."""

    default_message = "The rate limit is reached."


class QuotaExceeded(LimitError):
    """The quota of this day or month is used up."""

    default_message = "The quota is used up."


class ActiveUseLimitReached(LimitError):
    """As many users are active as the licence allows."""

    default_message = "All active uses of the licence are taken."


# As log and metrics know them.
LIMIT_ERRORS = tuple(kind.exception for kind in LimitError.__subclasses__())


class UpstreamError(GatewayError):
    """The provider did not give an answer; `usage` is what it counted nevertheless, where it said so at the end.

    `worked` is False where it is certain that it did nothing for the request: it was not reached, or refused it.
    """

    code = 502
    usage: Any = None  # providers.formats.Usage, which stands above
    worked = True

    def __init__(self, message: str = "", *, code: int | None = None, **options: Any) -> None:
        self.code = code or self.code
        super().__init__(message, **options)

    @property
    def next_may_serve(self) -> bool:
        """Whether another provider may do better."""
        return True


class ProviderRejected(UpstreamError):
    """The provider refused the request itself; status, message, reason and field are the provider's.

    402 says that it is not the request but the gateway's account there, which has no credit left.
    """

    code = 400
    worked = False
    default_message = "The provider refused the request."
    UNPAID: ClassVar[int] = 402

    @property
    def next_may_serve(self) -> bool:
        """Not where it is the request that is rejected."""
        return self.code == self.UNPAID


class ProviderError(UpstreamError):
    """The provider failed, refused our credential, or answered in a wrong format."""

    default_message = "The provider failed."


class ProviderOverloaded(UpstreamError):
    """The provider is overloaded (503) or limits us (429), and no other candidate served the request."""

    code = 503
    worked = False
    default_message = "The provider is overloaded."


class ProviderTimeout(UpstreamError):
    """The provider did not answer in time."""

    code = 504
    default_message = "The provider did not answer in time."


class OwnError(GatewayError):
    """The gateway could not do what it should."""


class ClientClosed(OwnError):
    """The client went away before it was answered: no fault of anybody; 499 is nginx's number for it."""

    code = 499
    default_message = "The client went away before it was answered."

    @property
    def severity(self) -> str:
        return "info"


class InternalError(OwnError):
    """A fault of ours; what happened is in the log, never in the message."""

    default_message = "The gateway failed; the request id leads to the details in its log."


class ServiceUnavailable(OwnError):
    """A store that the answer depends on is down, or the gateway is full."""

    code = 503
    default_message = "The gateway cannot serve this now."
    default_retry_after = 1
