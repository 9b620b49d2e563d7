"""Errors that the client can avoid: by another request, another credential, or later."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, Self, Unpack

from gateway_project.errors.base import ErrorOptions, GatewayError, sentence_of
from gateway_project.errors.problem import Problem


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
            (problem,) = problems
            return cls(problem.detail, field=problem.field, parameter=problem.parameter, header=problem.header)
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
    default_message = "There is nothing at this address."


class MethodNotAllowed(RequestError):
    """The path exists, the method does not; the caller of this names the others in the header Allow."""

    code = 405
    default_message = "This path does not support this method."


class Conflict(RequestError):
    """The name is taken, or the change would contradict what is stored."""

    code = 409
    default_message = "This conflicts with existing data."
    row: object = None  # the stored row that is in the way, where it is known

    def with_row(self, row: object) -> Self:
        """The error with the row that is in the way; None where none is known."""
        self.row = row
        return self


class BrokenTest(NamedTuple):
    """An access test that held before a change and would fail after it; `reason` is a sentence."""

    id: int
    name: str
    reason: str

    @property
    def problem(self) -> Problem:
        """The same with the id and the name as `meta`."""
        sentence = f"The access test {self.name} would fail. {self.reason}".strip()
        return Problem(sentence, meta=(("accessTestId", self.id), ("name", self.name)))


class AccessTestFailed(RequestError):
    """Access tests that held before this change would fail after it; nothing was written."""

    code = 409
    default_message = "The change breaks access tests."
    tests: tuple[BrokenTest, ...] = ()

    @classmethod
    def of(cls, tests: Sequence[BrokenTest]) -> Self:
        """The error that names these tests."""
        error = cls(sentence_of([test.problem for test in tests]))
        error.tests = tuple(tests)
        return error

    @property
    def problems(self) -> tuple[Problem, ...]:
        """One for each test, with its id and name as `meta`."""
        return tuple(test.problem for test in self.tests) or super().problems


class PayloadTooLarge(RequestError):
    """The body is over the limit."""

    code = 413
    default_message = "The body is too large."


class UnsupportedMediaType(RequestError):
    """The body is sent as something that is not JSON."""

    code = 415
    default_message = "Send the body as application/vnd.api+json or application/json."


class GuardrailBlocked(RequestError):
    """A guardrail blocks the request or its answer; the message never repeats what it has found."""

    default_message = "A guardrail blocks this request."


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


class SecondFactorRequired(AccessError):
    """The password is right, and the user has a second factor, which is asked for; `user` is whose password it is."""

    code = 401
    default_message = (
        "A second factor is needed. Send the same request with otp: the code of the authenticator app, or a recovery "
        "code."
    )
    default_headers = {"WWW-Authenticate": "Bearer"}
    user: Any = None


class SecondFactorMissing(AccessError):
    """The password is right, but a role of this `user` requires a second factor, and they have none."""

    code = 403
    default_message = (
        "A role of this user requires a second factor, and the user has none. "
        "Log in on the pages of the gateway in a browser to set one up."
    )
    user: Any = None


class CredentialRevoked(AccessError):
    """The request was ended while it ran, because its credential was revoked or changed with `cut=true`."""

    code = 401
    default_message = "The request was ended: its credential was revoked or changed."
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
    """The caller may do this, but later; `permanent` if the request is larger than the limit itself.

    `limit` describes the limit and whose it is, `resets_at` is when it resets; both may be None.
    """

    code = 429
    default_retry_after = 1

    def __init__(
        self,
        message: str = "",
        *,
        permanent: bool = False,
        limit: object = None,
        resets_at: datetime | None = None,
        **options: Unpack[ErrorOptions],
    ) -> None:
        super().__init__(message, **options)
        self.permanent, self.limit, self.resets_at = permanent, limit, resets_at


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
