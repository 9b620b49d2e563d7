"""What the OpenAPI document says of the addresses of single sign-on."""

from gateway_project.api.access import ANYBODY
from gateway_project.api.documents import JSON
from gateway_project.api.openapi.endpoints import Answer, Operation
from gateway_project.errors import (
    AuthenticationFailed,
    NotFound,
    PermissionDenied,
    ProviderError,
    ProviderTimeout,
    ValidationError,
)

HTML = "text/html"
PAGE = {"type": "string"}
MESSAGE = {
    "type": "object",
    "properties": {"code": {"const": 200}, "message": {"type": "string"}},
    "required": ["code", "message"],
}


def _parameter(name: str, description: str, *, place: str = "query") -> dict[str, object]:
    schema = {"type": "string", **({"pattern": "^[a-z0-9-]{1,50}$"} if place == "path" else {})}
    return {"name": name, "in": place, "required": place == "path", "description": description, "schema": schema}


SLUG = _parameter("slug", "The slug of an enabled identity provider.", place="path")
SETS_COOKIE = {"Set-Cookie": {"schema": {"type": "string"}}}

START = Operation(
    "Log in with an identity provider",
    {"302": Answer("To the identity provider.", headers={"Location": {"schema": {"type": "string"}}, **SETS_COOKIE})},
    tag="auth",
    who=ANYBODY,
    description="For a browser. After the login, the browser goes to `next`. Without `next` it gets the cookies that "
    "`POST /auth/login` sets.",
    parameters=(SLUG, _parameter("next", "A path of the gateway to go to after the login.")),
    errors=(ValidationError, NotFound, ProviderError, ProviderTimeout),
)
CALLBACK = Operation(
    "The address to which an identity provider sends the browser back",
    {
        "200": Answer(
            "Logged in: a page that leads to `next`, or a message with the cookies that `POST /auth/login` sets.",
            {JSON: MESSAGE, HTML: PAGE},
            headers=SETS_COOKIE,
        )
    },
    tag="auth",
    who=ANYBODY,
    parameters=(
        SLUG,
        _parameter("code", "The authorisation code."),
        _parameter("state", "The state of the login that this browser began."),
        _parameter("iss", "The issuer (RFC 9207)."),
        _parameter("error", "Why there is no code."),
    ),
    errors=(ValidationError, AuthenticationFailed, PermissionDenied, NotFound, ProviderError, ProviderTimeout),
)
BACKCHANNEL = Operation(
    "Report that a user has logged out at the identity provider",
    {"200": Answer("The sessions that the token names have ended.")},
    tag="auth",
    who=ANYBODY,
    description="OpenID Connect Back-Channel Logout 1.0: a form with a signed `logout_token`.",
    parameters=(SLUG,),
    errors=(ValidationError, NotFound, ProviderError, ProviderTimeout),
)
