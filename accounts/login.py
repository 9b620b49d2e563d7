"""POST /auth/login and POST /auth/logout."""

from rest_framework.request import Request
from rest_framework.response import Response

from accounts import cookies, sessions
from accounts.authentication import AccessTokens, RefreshCookie, SessionCookies, caller_of
from accounts.serializers import LoginAttributes, LogoutAttributes, NewTokens
from accounts.tokens import read_access, read_refresh
from gateway_project.api.access import Caller
from gateway_project.api.documents import Plain
from gateway_project.api.response_specs import CodeAndMessage, ResponseSpec
from gateway_project.api.viewsets import ApiViewSet
from gateway_project.errors import (
    AuthenticationFailed,
    PermissionDenied,
    RateLimited,
    SecondFactorMissing,
    SecondFactorRequired,
    ValidationError,
)
from gateway_project.json_types import JsonObject

SETS_COOKIES = {"Set-Cookie": "SvcUserCookie, the access token, and SvcAuthCookie, the refresh token."}


class AuthViewSet(ApiViewSet):
    """Sessions: they begin, go on and end here."""

    resource_name = "auth"
    # Expired cookies or tokens must not prevent a login; logout authenticates by itself.
    authentication_classes = ()
    body_optional = ("logout",)
    login_attributes = LoginAttributes
    logout_attributes = LogoutAttributes
    response_specs = {
        "login": ResponseSpec(
            (CodeAndMessage, NewTokens),
            headers=SETS_COOKIES,
            errors=(AuthenticationFailed, PermissionDenied, RateLimited, SecondFactorRequired, SecondFactorMissing),
        ),
        "logout": ResponseSpec(None, headers={"Set-Cookie": "Makes a browser forget both cookies."}),
    }

    def login(self, request: Request) -> Response:
        """A session for a password, new tokens for a refresh token, or a word on an access token."""
        values = self.values(self.login_attributes)
        return GRANTS[values["grant_type"], values.get("token_type")](self, values)

    def logout(self, request: Request) -> Response:
        """End this session, the user's others, or all of them."""
        holder = self.holder()
        values = self.values(self.logout_attributes)
        caller = self.holder_of(values.get("access_token"), holder)
        self.end_sessions(caller, values["logout_device"])
        response = Response()
        if values["logout_device"] != "otherDevices" and request.COOKIES.keys() & cookies.PATHS.keys():
            cookies.clear_cookies(response)
        return response

    def end_sessions(self, caller: Caller, device: str) -> None:
        if device == "currentDevice":
            ended = sessions.end_session(caller.session) if caller.session else 0
        else:
            current_session = caller.session if device == "otherDevices" else None
            ended = sessions.end_sessions(user=caller.user, except_for=current_session)
        if ended:
            number = "1 session" if ended == 1 else f"{ended} sessions"
            self.record_session_event(
                f"{caller.user.username} logged out ({device}): {number} ended.", user=caller.user
            )

    # -- Logging in -------------------------------------------------------------------------------------

    def by_password(self, values: JsonObject) -> Response:
        _, _, tokens = sessions.log_in(
            username=values["user_name"],
            password=values["password"],
            otp=values.get("otp", ""),
            device=self.request.META.get("HTTP_USER_AGENT", ""),
            address=self.address,
            record_event=self.record_session_event,
        )
        response = Response(Plain(code=200, message="Logged in."))
        cookies.set_cookies(response, tokens)
        return response

    def by_access_token(self, values: JsonObject) -> Response:
        caller = caller_of(values["access_token"])
        return Response(Plain(code=200, message=f"The access token of {caller.user.username} is valid."))

    def by_refresh_token(self, values: JsonObject) -> Response:
        tokens = sessions.refresh_tokens(
            values.get("refresh_token") or self.refresh_cookie(), record_event=self.record_session_event
        )
        body = Plain(
            accessToken=tokens.access, refreshToken=tokens.refresh, grantType="Bearer", message="Tokens issued."
        )
        response = Response(body)
        # Also if the token came in the body: a browser that keeps the old one would use it a second time.
        cookies.set_cookies(response, tokens)
        return response

    def refresh_cookie(self) -> str:
        """The refresh token from the cookie, if the origin is ours and both cookies are of one session."""
        token = self.request.COOKIES.get(cookies.AUTH_COOKIE)
        if not token:
            raise ValidationError("is missing, and there is no cookie that holds one.", field="refresh_token")
        cookies.refuse_foreign_origin(self.request)
        access = read_access(self.request.COOKIES.get(cookies.USER_COOKIE, ""))
        claims = read_refresh(token)
        if access is not None and claims is not None and access.session != claims.session:
            raise AuthenticationFailed  # cookies of two sessions: one of them was planted
        return token

    # -- Logging out ------------------------------------------------------------------------------------

    def holder(self) -> Caller | None:
        """The caller by header or cookie; None if there is neither."""
        for kind in (AccessTokens, SessionCookies, RefreshCookie):
            if credentials := kind().authenticate(self.request):
                return credentials[1]
        return None

    def holder_of(self, token: str | None, holder: Caller | None) -> Caller:
        """The caller and session to log out: those of the token in the body if there is one, else of the holder."""
        caller = holder if token is None else caller_of(token)
        if caller is None or (holder is not None and holder.user.pk != caller.user.pk):
            raise AuthenticationFailed
        return caller


GRANTS = {
    ("password", None): AuthViewSet.by_password,
    ("Bearer", "accessToken"): AuthViewSet.by_access_token,
    ("Bearer", "refreshToken"): AuthViewSet.by_refresh_token,
}
