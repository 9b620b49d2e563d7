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
from typing import Any, ClassVar, Self, TypedDict, Unpack

from gateway_project.json_types import JsonObject
from gateway_project.problem import Problem

# In characters: texts may repeat what a client or a provider said, and go into responses and the log.
MAX_MESSAGE_LENGTH, MAX_FIELD_LENGTH = 2048, 256
MAX_PROBLEMS = 100  # in the document of one error


class Place(TypedDict, total=False):
    """The part of a request that is wrong: one of these."""

    field: str
    parameter: str
    header: str


class ErrorOptions(Place, total=False):
    """The keyword arguments of GatewayError."""

    retry_after: float | None
    headers: Mapping[str, str] | None
    reason: str


class GatewayError(Exception):
    """The base of all errors: code (HTTP status), exception (its name), message, headers, severity.

    `field` is the request field that is wrong, `reason` a code that clients know, perhaps the provider's; both may be
    ''. So may `parameter` and `header`, which are wrong in the place of a field. The message of a service or a filter
    does not repeat the name of the field: who shows it does, or shows it beside the field.
    Texts are truncated, but only when they are read: until then redact() finds secrets whole.
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
        parameter: str = "",
        header: str = "",
        reason: str = "",
    ) -> None:
        self._texts: tuple[str, ...] = (message or self.default_message, field, reason)
        self.parameter, self.header = parameter, header
        self.retry_after = self.default_retry_after if retry_after is None else retry_after
        self.headers: dict[str, str] = {**self.default_headers, **(headers or {})}
        if self.retry_after is not None:
            # Whole seconds, rounded up: a client that comes back too early is refused again.
            self.headers["Retry-After"] = str(max(0, math.ceil(self.retry_after)))
        super().__init__(self.message)

    def redact(self, redact: Callable[[str], str]) -> None:
        """Apply a function that removes secrets to all texts."""
        self._texts = tuple(map(redact, self._texts))
        self.args = (self.message,)

    @property
    def message(self) -> str:
        return _truncated(self._texts[0], MAX_MESSAGE_LENGTH)

    @property
    def field(self) -> str:
        return _truncated(self._texts[1], MAX_FIELD_LENGTH)

    @property
    def reason(self) -> str:
        return _truncated(self._texts[2], MAX_FIELD_LENGTH)

    @property
    def severity(self) -> str:
        """The severity in the log: "warning" below 500, else "error"."""
        return "warning" if self.code < 500 else "error"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong, each with its place."""
        return (Problem(self.message, self.field, self.parameter, self.header),)

    @property
    def sentence(self) -> str:
        """The message for people who do not see which field it is about."""
        return sentence_of(self.problems)

    def body(self) -> dict[str, int | str]:
        """The three members that every error has."""
        return {"code": self.code, "exception": self.exception, "message": self.message}

    def document(self) -> JsonObject:
        """The document that an error is sent as, for a request whose body is not JSON:API."""
        return {**self.body(), "errors": self.error_objects(self.problems)}

    def error_objects(self, problems: Sequence[Problem], root: str = "") -> list[JsonObject]:
        """JSON:API's `errors`; `root` is the pointer to the fields in the request's body."""
        title = self.default_message.partition(". ")[0].rstrip(".")
        return [
            problem.error_object(root, status=self.code, code=self.exception, title=title)
            for problem in problems[:MAX_PROBLEMS]
        ]


def sentence_of(problems: Sequence[Problem]) -> str:
    """All problems with the names of their places, as a message."""
    return _truncated(" ".join(problem.sentence for problem in problems), MAX_MESSAGE_LENGTH)


def _truncated(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


class RequestError(GatewayError):
    """The request cannot be served as it was sent."""

    code = 400


class ValidationError(RequestError):
    """The body or a parameter is not of the right form."""

    default_message = "The request is not valid."
    _problems: tuple[Problem, ...] = ()

    @classmethod
    def from_problems(cls, problems: Sequence[Problem]) -> Self:
        """One error for all problems; the message of several has the names of their places."""
        if len(problems) == 1:
            (one,) = problems
            return cls(one.detail, field=one.field, parameter=one.parameter, header=one.header)
        error = cls(sentence_of(problems))
        error._problems = tuple(problems)
        return error

    @classmethod
    def from_fields(cls, problems: Mapping[str, Sequence[str]]) -> Self:
        """One error with the problems of each field; those of no single field are under "__all__"."""
        fields = {field: "" if field == "__all__" else field for field in problems}
        return cls.from_problems([Problem(" ".join(problems[name]), field) for name, field in fields.items()])

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._problems or super().problems


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
    default_message = "This conflicts with existing data."


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
    NO_CREDENTIAL: ClassVar[str] = "No credential was sent: send Authorization: Bearer with an API key or access token."
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
    """The caller may do this, but later; `permanent` if the request is larger than the limit itself."""

    code = 429
    default_retry_after = 1

    def __init__(self, message: str = "", *, permanent: bool = False, **options: Unpack[ErrorOptions]) -> None:
        super().__init__(message, **options)
        self.permanent = permanent


class RateLimited(LimitError):
    """Too many requests, tokens or concurrent requests in this minute."""

    default_message = "The rate limit is reached."


class QuotaExceeded(LimitError):
    """The quota of this day or month is used up."""

    default_message = "The quota is used up."


class ActiveUseLimitReached(LimitError):
    """As many users are active as the licence allows."""

    default_message = "All active uses of the licence are taken."


# The names in the log and in metrics.
LIMIT_ERROR_NAMES = tuple(kind.exception for kind in LimitError.__subclasses__())


class UpstreamError(GatewayError):
    """The provider did not give an answer; `usage` is what it counted nevertheless, if it reported that.

    `may_have_worked` is False if the provider certainly did nothing: it was not reached, or it refused the request.
    """

    code = 502
    usage: Any = None  # providers.formats.Usage, which this module may not import
    may_have_worked = True

    def __init__(self, message: str = "", *, code: int | None = None, **options: Unpack[ErrorOptions]) -> None:
        self.code = code or self.code
        super().__init__(message, **options)

    @property
    def allows_failover(self) -> bool:
        """Whether another provider may serve the request."""
        return True

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Without a place: the provider's names are those of the request that the gateway wrote."""
        return (Problem(self.message),)


class ProviderRejected(UpstreamError):
    """The provider refused the request itself; status, message, reason and field are the provider's.

    402 is about the gateway's account there, which has no credit left, and not about the request.
    """

    code = 400
    may_have_worked = False
    default_message = "The provider refused the request."
    PAYMENT_REQUIRED: ClassVar[int] = 402

    @property
    def allows_failover(self) -> bool:
        """Only without credit: another provider would refuse the same request too."""
        return self.code == self.PAYMENT_REQUIRED


class ProviderError(UpstreamError):
    """The provider failed, refused our credential, or answered in a wrong format."""

    default_message = "The provider failed."


class ProviderOverloaded(UpstreamError):
    """The provider is overloaded (503) or limits us (429), and no other candidate served the request."""

    code = 503
    may_have_worked = False
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
    default_message = "The client disconnected before it was answered."

    @property
    def severity(self) -> str:
        return "info"


class InternalError(OwnError):
    """A fault of ours; what happened is in the log, never in the message."""

    default_message = "Internal error. Look up the request id in the gateway's log for details."


class ServiceUnavailable(OwnError):
    """A store that the answer depends on is down, or the gateway is full."""

    code = 503
    default_message = "The gateway cannot serve this request right now."
    default_retry_after = 1
