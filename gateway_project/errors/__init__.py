"""Every way a request can end badly; each error knows its status, its name and its headers.

    GatewayError
    ├── RequestError                  the request cannot be served as it was sent
    │   ├── ValidationError           400
    │   ├── ProviderNotSelected       400
    │   ├── NotFound                  404
    │   ├── MethodNotAllowed          405
    │   ├── Conflict                  409
    │   ├── AccessTestFailed          409  a change would break access tests
    │   ├── PayloadTooLarge           413
    │   ├── UnsupportedMediaType      415
    │   ├── GuardrailBlocked          400  a guardrail blocks the request or its answer
    │   └── CacheMiss                 504  only a stored response was wanted
    ├── AccessError                   the caller may not do this
    │   ├── AuthenticationFailed      401
    │   ├── SecondFactorRequired      401  of a login with a right password
    │   ├── SecondFactorMissing       403  and the user has none, but needs one
    │   ├── CredentialRevoked         401  while the request ran
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
    │   ├── UnusableAnswer            502  the provider's cannot be passed on; clients read ProviderError
    │   ├── ProviderOverloaded        429 or 503
    │   └── ProviderTimeout           504
    └── OwnError                      the gateway could not
        ├── ClientClosed              499  nobody is left to read it
        ├── Outpaced                  499  another provider answered first
        ├── InternalError             500
        └── ServiceUnavailable        503

Raising one is all that a stage or a service does; one place turns it into a response.
"""

from gateway_project.errors.base import MAX_MESSAGE_LENGTH, MAX_PROBLEMS, GatewayError, Place, drop_frames, sentence_of
from gateway_project.errors.client_errors import (
    LIMIT_ERROR_NAMES,
    AccessError,
    AccessTestFailed,
    ActiveUseLimitReached,
    AuthenticationFailed,
    BrokenTest,
    CacheMiss,
    Conflict,
    CredentialRevoked,
    GuardrailBlocked,
    LicenceInvalid,
    LimitError,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    ProviderNotSelected,
    QuotaExceeded,
    RateLimited,
    RequestError,
    RuleDenied,
    SecondFactorMissing,
    SecondFactorRequired,
    UnsupportedMediaType,
    ValidationError,
)
from gateway_project.errors.server_errors import (
    ClientClosed,
    InternalError,
    Outpaced,
    OwnError,
    ProviderError,
    ProviderOverloaded,
    ProviderRejected,
    ProviderTimeout,
    ServiceUnavailable,
    UnusableAnswer,
    UpstreamError,
)

__all__ = [
    "LIMIT_ERROR_NAMES",
    "MAX_MESSAGE_LENGTH",
    "MAX_PROBLEMS",
    "AccessError",
    "AccessTestFailed",
    "ActiveUseLimitReached",
    "AuthenticationFailed",
    "BrokenTest",
    "CacheMiss",
    "ClientClosed",
    "Conflict",
    "CredentialRevoked",
    "GatewayError",
    "GuardrailBlocked",
    "InternalError",
    "LicenceInvalid",
    "LimitError",
    "MethodNotAllowed",
    "NotFound",
    "Outpaced",
    "OwnError",
    "PayloadTooLarge",
    "PermissionDenied",
    "Place",
    "ProviderError",
    "ProviderNotSelected",
    "ProviderOverloaded",
    "ProviderRejected",
    "ProviderTimeout",
    "QuotaExceeded",
    "RateLimited",
    "RequestError",
    "RuleDenied",
    "SecondFactorMissing",
    "SecondFactorRequired",
    "ServiceUnavailable",
    "UnsupportedMediaType",
    "UnusableAnswer",
    "UpstreamError",
    "ValidationError",
    "drop_frames",
    "sentence_of",
]
