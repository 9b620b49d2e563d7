"""Errors of a provider or of the gateway itself."""

from typing import Any, ClassVar, Unpack

from gateway_project.errors.base import ErrorOptions, GatewayError
from gateway_project.errors.problem import Problem


class UpstreamError(GatewayError):
    """The provider did not give an answer; `usage` is what it counted nevertheless, if it reported that.

    `may_have_worked` is False if the provider certainly did nothing: it was not reached, or it refused the request.
    `is_transient` is False if the same request would fail in the same way a moment later.
    `refuses_account` is True if it was refused whatever the request is: its credential is wrong, or has no credit.
    `own_message` is the message without the provider's words, which may quote the request; '' if it has none of them.
    """

    code = 502
    usage: Any = None  # providers.formats.Usage, which this module may not import
    may_have_worked = True
    is_transient = True
    refuses_account = False

    def __init__(
        self, message: str = "", *, code: int | None = None, own_message: str = "", **options: Unpack[ErrorOptions]
    ) -> None:
        self.code, self.own_message = code or self.code, own_message
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
    `context_length_phrase` is how the message says that the conversation is too long for the model; '' if it does not.
    """

    code = 400
    may_have_worked = is_transient = False
    default_message = "The provider refused the request."
    context_length_phrase = ""
    PAYMENT_REQUIRED: ClassVar[int] = 402

    @property
    def allows_failover(self) -> bool:
        """Only without credit: another provider would refuse the same request too."""
        return self.code == self.PAYMENT_REQUIRED


class ProviderError(UpstreamError):
    """The provider failed, refused our credential, or answered in a wrong format."""

    default_message = "The provider failed."


class UnusableAnswer(UpstreamError):
    """The provider answered what was asked, but this cannot be passed on: it is too long, or an unexpected stream.

    It was bought, and other providers would answer the same: no failover, and no failure of the provider.
    """

    default_message = "The provider's answer cannot be passed on."
    is_transient = False

    @property
    def allows_failover(self) -> bool:
        return False


UnusableAnswer.exception = ProviderError.exception  # clients need not know the difference


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


class Outpaced(OwnError):
    """A call to a provider was ended because another provider answered first; no client gets this."""

    code = 499
    default_message = "Another provider answered first."

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
