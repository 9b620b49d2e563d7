"""The attacks of the OAuth security best current practice (RFC 9700) and of JSON web tokens on logins."""

import threading
import time

import pytest
from django.test import Client

from accounts.models import Session, User
from accounts.sso.models import FederatedLogin
from accounts.sso.protocol import flow, http, metadata
from telemetry.audit.models import AuditEntry
from telemetry.models import LogEntry
from tests.accounts.sso.conftest import SignOn, is_logged_in, registered
from tests.support.oidc import DISCOVERY, KEYS, TOKEN, USER_INFO, Answer, HostileIssuer, key, signed_with_public_key
from tests.support.oidc import unsigned as without_signature
from tests.support.promises import promise

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def refused(response, status: int = 401) -> None:
    assert response.status_code == status, response.content
    assert "Login not possible" in response.content.decode()
    assert not Session.objects.exists()
    assert not FederatedLogin.objects.exists()
    assert len(refusals()) == 1, "it is in the audit, once for each kind and address"


def refusals(**filters: object) -> list[str]:
    """What the audit says of refused logins with a provider."""
    entries = AuditEntry.objects.filter(action="login", message__contains=" was refused: ", **filters)
    return list(entries.order_by("pk").values_list("message", flat=True))


def hour(offset: float) -> int:
    return int(time.time() + 3600 * offset)


@promise("A forged, foreign or expired ID token logs nobody in", target="401, no session", suite="attack")
@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another-client"},
        {"aud": ["another-client"]},
        {"aud": ["gateway", "another-client"]},
        {"aud": ["gateway", "another-client"], "azp": "another-client"},
        {"azp": "another-client"},
        {"aud": None},
        {"iss": "https://login.example.com"},
        {"iss": None},
        {"exp": hour(-1)},
        {"exp": None},
        {"exp": "never"},
        {"iat": hour(1)},
        {"iat": None},
        {"nbf": hour(1)},
        {"nonce": "another"},
        {"nonce": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"sub": "x" * 256},
        {"sub": "a\x00b"},
        {"at_hash": "AAAA"},
    ],
)
def test_claims_that_are_not_for_this_login_are_refused(sign_on, claims):
    refused(sign_on.log_in(claims))
    assert not User.objects.exists()


@promise("A forged, foreign or expired ID token logs nobody in", target="401, no session", suite="attack")
@pytest.mark.parametrize(
    "kind", ["none", "None", "unsigned", "confused", "other key", "altered", "crit", "typ", "text"]
)
def test_tokens_that_the_provider_has_not_signed_are_refused(sign_on, issuer, kind):
    forgeries = {
        "none": without_signature,
        "None": lambda claims: without_signature(claims, "None"),
        "unsigned": lambda claims: issuer.sign(claims).rpartition(".")[0] + ".",
        "confused": lambda claims: signed_with_public_key(claims, key()),
        "other key": lambda claims: _signed_by(issuer, claims, key("other")),
        "altered": lambda claims: _altered(issuer.sign(claims), issuer.sign({**claims, "sub": "somebody else"})),
        "crit": lambda claims: issuer.sign(claims, crit=["b64"], b64=True),
        "typ": lambda claims: issuer.sign(claims, typ="logout+jwt"),
        "text": lambda claims: "no token",
    }
    issuer.token = forgeries[kind]
    refused(sign_on.log_in())


def _signed_by(issuer: HostileIssuer, claims: dict, other) -> str:
    issuer.signing_key = other
    issuer.header = {"kid": key().kid}
    return issuer.sign(claims)


def _altered(token: str, other: str) -> str:
    header, _, signature = token.split(".")
    return f"{header}.{other.split('.')[1]}.{signature}"


@promise("A code or a state is good once, in the browser that began the login", target="401", suite="attack")
class TestCallback:
    def test_a_replay_of_the_callback(self, sign_on, client):
        login = sign_on.begin()
        cookie = client.cookies["SvcSignOn"].value
        code = sign_on.issuer.code(login)
        assert sign_on.come_back(code=code, state=login["state"]).status_code == 200
        Session.objects.all().delete()
        client.cookies["SvcSignOn"] = cookie  # a browser that kept it
        refused(sign_on.come_back(code=sign_on.issuer.code(login), state=login["state"]))
        assert sign_on.issuer.requests_to(TOKEN) == 1

    def test_a_code_that_the_provider_knows_as_used(self, sign_on):
        login = sign_on.begin()
        code = sign_on.issuer.code(login)
        assert sign_on.come_back(code=code, state=login["state"]).status_code == 200
        Session.objects.all().delete()
        login = sign_on.begin()
        refused(sign_on.come_back(code=code, state=login["state"]))

    def test_the_state_of_another_browser(self, sign_on, issuer):
        """CSRF: the attacker's code and state in the victim's browser."""
        attacker = SignOn(Client(), issuer)
        login = attacker.begin()
        answer = {"code": issuer.code(login), "state": login["state"]}
        refused(sign_on.come_back(**answer))
        sign_on.begin()  # also while the victim has a login of their own in progress
        refused(sign_on.come_back(**answer))
        assert issuer.requests_to(TOKEN) == 0

    @pytest.mark.parametrize("has_pkce", [True, False])
    def test_the_code_of_another_browser_with_the_own_state(self, sign_on, issuer, has_pkce):
        """Code injection (RFC 9700 4.5): PKCE refuses it, and the nonce alone does, if the provider ignores PKCE."""
        issuer.checks_verifier = has_pkce
        victim = SignOn(Client(), issuer)
        stolen = issuer.code(victim.begin())
        own = sign_on.begin()
        refused(sign_on.come_back(code=stolen, state=own["state"]))
        assert issuer.requests_to(TOKEN) == 1
        reason = "its ID token was not accepted" if not has_pkce else "provider"
        assert [reason in text for text in refusals()] == [True], refusals()

    @pytest.mark.parametrize("cookie", ["", "nonsense", "gAAAAA==", "ü", "x" * 5000])
    def test_a_cookie_that_is_not_ours(self, sign_on, client, cookie):
        login = sign_on.begin()
        client.cookies["SvcSignOn"] = cookie
        refused(sign_on.come_back(code=sign_on.issuer.code(login), state=login["state"]))

    def test_a_login_that_took_too_long(self, sign_on, monkeypatch):
        login = sign_on.begin()
        monkeypatch.setattr(flow, "LOGIN_SECONDS", -1)
        refused(sign_on.come_back(code=sign_on.issuer.code(login), state=login["state"]))

    @pytest.mark.parametrize("parameters", [{}, {"code": ""}, {"code": "x" * 9000}, {"code": "unknown\r\nX: y"}])
    def test_a_code_that_is_none(self, sign_on, parameters):
        login = sign_on.begin()
        refused(sign_on.come_back(state=login["state"], **parameters))

    def test_a_parameter_that_is_there_twice(self, sign_on, client):
        login = sign_on.begin()
        state, code = login["state"], sign_on.issuer.code(login)
        path = f"/auth/sso/corp/callback/?state={state}&code={code}&code={code}"
        refused(client.get(path, HTTP_ACCEPT="text/html"), 400)

    def test_an_error_of_the_provider_is_not_repeated(self, sign_on):
        login = sign_on.begin()
        response = sign_on.come_back(state=login["state"], error="<script>alert(1)</script>")
        refused(response, 403)
        assert b"script" not in response.content

    def test_the_address_that_the_code_goes_to_cannot_be_chosen(self, client, sign_on):
        query = {"next": "/me/", "redirect_uri": "https://evil.example"}
        location = client.get("/auth/sso/corp/", query).headers["Location"]
        assert "evil" not in location

    def test_the_header_host_does_not_choose_it(self, client, sign_on, settings):
        settings.ALLOWED_HOSTS = ["*"]
        response = client.get("/auth/sso/corp/", HTTP_HOST="evil.example")
        assert "evil" not in response.headers["Location"]


class TestAudit:
    """A refused login is an entry, but whoever calls the callback again and again does not fill the audit."""

    def test_a_flood_of_callbacks_makes_few_entries(self, sign_on, client):
        for number in range(30):
            address = f"192.0.2.{number % 2}"
            path = f"/auth/sso/corp/callback/?state=forged-{number}&code=code-{number}"
            client.get(path, HTTP_ACCEPT="text/html", REMOTE_ADDR=address)
        refusal = "A login with Corp was refused: it began in another browser, or is too old."
        assert refusals() == [refusal] * 2
        assert [refusals(address=f"192.0.2.{number}") for number in (0, 1)] == [[refusal]] * 2

    def test_noise_does_not_hide_a_forged_token(self, sign_on, issuer):
        sign_on.come_back(code="noise", state="noise")
        issuer.token = without_signature
        assert sign_on.log_in().status_code == 401
        assert [text.partition(", as ")[0] for text in refusals()] == [
            "A login with Corp was refused: it began in another browser, or is too old.",
            "A login with Corp was refused: its ID token was not accepted",
        ]

    def test_no_token_code_or_state_is_in_it(self, sign_on, issuer):
        tokens = []
        issuer.token = lambda claims: tokens.append(issuer.sign({**claims, "aud": "other"})) or tokens[-1]
        login = sign_on.begin()
        code = issuer.code(login)
        refused(sign_on.come_back(code=code, state=login["state"]))
        entry = AuditEntry.objects.get(action="login")
        text = f"{entry.message}{entry.before}{entry.after}"
        assert entry.actor == ""
        assert not any(secret in text for secret in (*tokens, code, login["state"]))
        assert LogEntry.objects.get(message=entry.message).severity == "warning"


@promise("The answer of one identity provider is never taken for that of another", target="401", suite="attack")
class TestMixUp:
    @pytest.fixture
    def other(self, sign_on, client):
        with HostileIssuer() as running:
            registered(running.url, name="Evil", slug="evil")
            yield SignOn(client, running, "evil")

    def test_an_answer_at_the_address_of_another_provider(self, sign_on, other):
        login = other.begin()
        code = sign_on.issuer.code(login)
        refused(sign_on.come_back(code=code, state=login["state"]))
        assert sign_on.issuer.requests_to(TOKEN) == other.issuer.requests_to(TOKEN) == 0

    def test_an_answer_that_names_another_issuer(self, sign_on, other):
        refused(sign_on.log_in(iss=other.issuer.url))
        assert sign_on.issuer.requests_to(TOKEN) == 0

    def test_an_answer_that_should_name_its_issuer(self, sign_on):
        sign_on.issuer.metadata["authorization_response_iss_parameter_supported"] = True
        refused(sign_on.log_in())
        assert sign_on.log_in(iss=sign_on.issuer.url).status_code == 200

    def test_a_token_of_another_issuer(self, sign_on, other):
        sign_on.issuer.token = lambda claims: other.issuer.sign({**claims, "iss": other.issuer.url})
        refused(sign_on.log_in())

    def test_the_subject_of_another_issuer_is_somebody_else(self, sign_on, other):
        assert sign_on.log_in({"sub": "same"}).status_code == 200
        response = other.log_in({"sub": "same", "preferred_username": "bob"})
        assert response.status_code == 200
        assert set(User.objects.values_list("username", flat=True)) == {"ann", "bob"}

    def test_user_info_about_another_subject(self, sign_on):
        sign_on.issuer.user_info = {"sub": "somebody else", "email": "boss@example.com"}
        refused(sign_on.log_in())
        assert sign_on.issuer.requests_to(USER_INFO) == 1


@promise("After a login nothing leads to another site", target="400 for every such address", suite="attack")
@pytest.mark.parametrize(
    "path",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "\\\\evil.example", "///evil.example", "evil",
     "javascript:alert(1)", "/\x00", "/me/\r\nX: y", "http:/evil.example", "/" + "x" * 600, " /me/",
     "/\t/evil.example"],
)  # fmt: skip
def test_only_local_paths_are_gone_to(client, provider, path):
    response = client.get("/auth/sso/corp/", {"next": path})
    assert (response.status_code, response.json()["exception"]) == (400, "ValidationError")
    assert "SvcSignOn" not in response.cookies


@promise("Answers of identity providers are bounded in size and time", target="502 or 504", suite="attack")
class TestBounds:
    @pytest.mark.parametrize("path", [DISCOVERY, KEYS, TOKEN])
    def test_a_huge_answer(self, client, sign_on, path):
        sign_on.issuer.answers[path] = Answer(b'{"x": "' + b"x" * (http.MAX_BYTES + 1) + b'"}')
        if path == DISCOVERY:
            assert client.get("/auth/sso/corp/").status_code == 502
        else:
            refused(sign_on.log_in(), 502)

    @pytest.mark.parametrize("path", [DISCOVERY, KEYS, TOKEN])
    def test_a_slow_answer(self, client, sign_on, settings, path):
        settings.GATEWAY_OIDC_TIMEOUT = 1
        sign_on.issuer.answers[path] = Answer({}, hold=threading.Event())
        if path == DISCOVERY:
            response = client.get("/auth/sso/corp/")
            assert (response.status_code, response.json()["exception"]) == (504, "ProviderTimeout")
        else:
            refused(sign_on.log_in(), 504)

    @pytest.mark.parametrize("path", [DISCOVERY, KEYS])
    @pytest.mark.parametrize("body", [b"", b"[]", b"[" * 100_000, b"{", b"\xff\xfe", b'{"keys": 5}', b"null"])
    def test_an_answer_that_is_none(self, client, sign_on, path, body):
        sign_on.issuer.answers[path] = Answer(body)
        response = client.get("/auth/sso/corp/") if path == DISCOVERY else sign_on.log_in()
        assert response.status_code == (502 if path == DISCOVERY or body != b'{"keys": 5}' else 401)

    @pytest.mark.parametrize(
        "body",
        [b"", b"[]", {"id_token": 5}, {"access_token": {}, "id_token": "a.b.c"}, {"error": "invalid_client"},
         {"error": {}}, {"expires_in": "x", "access_token": "y"}, {"access_token": "y"},
         {"error": "ü\n", "error_description": "\""}],
    )  # fmt: skip
    def test_an_answer_of_the_token_endpoint_that_is_none(self, sign_on, body):
        sign_on.issuer.answers[TOKEN] = Answer(body)
        assert sign_on.log_in().status_code in (401, 502)
        assert not Session.objects.exists()

    @pytest.mark.parametrize("status", [301, 302, 307])
    @pytest.mark.parametrize("path", [DISCOVERY, KEYS, TOKEN])
    def test_no_redirect_is_followed(self, client, sign_on, path, status):
        with HostileIssuer() as other:
            sign_on.issuer.answers[path] = Answer({}, status=status, headers={"Location": other.url + path})
            response = client.get("/auth/sso/corp/") if path == DISCOVERY else sign_on.log_in()
            assert response.status_code in (401, 502)
            assert other.seen == []

    @pytest.mark.parametrize(
        "url", ["file:///etc/passwd", "http://example.com/", "ftp://127.0.0.1/", "https://a b/", 5]
    )
    @pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint"])
    def test_endpoints_of_other_schemes_are_refused(self, client, sign_on, name, url):
        sign_on.issuer.metadata[name] = url
        assert client.get("/auth/sso/corp/").status_code == 502

    @pytest.mark.parametrize("issuer_in_document", ["https://evil.example", "", None, "{url}/"])
    def test_the_document_of_another_issuer(self, client, sign_on, issuer_in_document):
        url = sign_on.issuer.url
        sign_on.issuer.metadata["issuer"] = issuer_in_document and issuer_in_document.format(url=url)
        assert client.get("/auth/sso/corp/").status_code == 502

    def test_an_unknown_key_is_asked_for_once(self, sign_on, issuer, monkeypatch):
        """Whoever sends tokens with invented keys does not make the gateway ask for each of them."""
        assert sign_on.log_in().status_code == 200
        for number in range(3):
            token = issuer.logout_token()
            issuer.header = {"kid": f"invented-{number}"}
            token = issuer.logout_token()
            response = sign_on.client.post("/auth/sso/corp/backchannel-logout/", {"logout_token": token})
            assert response.status_code == 400
        assert issuer.requests_to(KEYS) == 2
        assert is_logged_in(sign_on.client)

    def test_a_failed_provider_is_left_in_peace_for_a_moment(self, client, sign_on, issuer):
        issuer.answers[DISCOVERY] = Answer({}, status=500)
        assert [client.get("/auth/sso/corp/").status_code for _ in range(4)] == [502] * 4
        assert issuer.requests_to(DISCOVERY) == 1

    def test_weak_and_private_keys_do_not_count(self):
        secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}
        weak = {"kty": "RSA", "n": "A" * 100, "e": "AQAB", "kid": "w"}
        other = {**key().as_dict(private=False), "use": "enc"}
        assert metadata.read_keys({"keys": [secret, weak, other, 5, {"kty": "EC"}, {"kty": ["RSA"]}]}) == []
