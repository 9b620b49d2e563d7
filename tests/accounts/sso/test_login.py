"""Logging in with an identity provider: oidc-provider-mock as a real server, and one that claims what a test wants."""

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import oidc_provider_mock
import pytest
import requests
from django.test import Client
from django.utils import timezone

from accounts.models import Group, Role, Session, User
from accounts.services import add_member
from accounts.sessions import delete_all_expired, log_in
from accounts.sso.models import FederatedLogin, Identity, SpentToken
from accounts.sso.protocol import metadata
from accounts.sso.services import link_identity, update_identity_provider
from gateway_project.errors import AuthenticationFailed
from telemetry.audit.models import AuditEntry
from telemetry.models import LogEntry
from tests.accounts.sso.conftest import SignOn, is_logged_in, registered
from tests.support.logins import cookies_of, works
from tests.support.management import PASSWORD, new_admin, new_user
from tests.support.oidc import TOKEN, USER_INFO, Answer
from tests.support.second_factor import new_app

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
RULES = "groups contains llm-admins → role admin\ngroups contains staff → group Staff\nalways → role User"


@pytest.fixture(scope="module")
def mock_url() -> Iterator[str]:
    with oidc_provider_mock.run_server_in_thread() as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
def mock(db, mock_url) -> Iterator[str]:
    Group.objects.create(name="Staff")
    registered(mock_url, rules=RULES)
    yield mock_url
    metadata.forget_provider(mock_url)


def through_mock(client: Client, url: str, subject: str = "ann@example.com", next_path: str = "/me/", **claims):
    """The answer to the callback, after the login form of the mock."""
    claims = {"preferred_username": "ann", "name": "Ann Example", "email": "ann@example.com", **claims}
    assert requests.put(f"{url}/users/{subject}", json=claims, timeout=10).status_code == 204
    location = client.get("/auth/sso/corp/", {"next": next_path} if next_path else {}).headers["Location"]
    form = requests.post(location, data={"sub": subject}, allow_redirects=False, timeout=10)
    parts = urlsplit(form.headers["Location"])
    return client.get(f"{parts.path}?{parts.query}")


class TestARealProvider:
    @pytest.mark.long
    def test_a_first_login_creates_the_user_and_gives_what_rules_say(self, client, mock):
        response = through_mock(client, mock, groups=["staff", "others"])
        assert response.status_code == 200, response.content
        assert 'content="0; url=/me/"' in response.content.decode()
        ann = User.objects.get()
        assert (ann.username, ann.display_name, ann.email) == ("ann", "Ann Example", "ann@example.com")
        assert [role.name for role in ann.roles.all()] == ["user"]
        assert [group.name for group in ann.groups.all()] == ["Staff"]
        assert (ann.identities.get().issuer, ann.identities.get().subject) == (mock, "ann@example.com")
        assert not ann.has_usable_password()
        assert is_logged_in(client)

    @pytest.mark.long
    def test_each_login_gives_and_takes_away(self, client, mock):
        new_admin()
        through_mock(client, mock, groups=["llm-admins"])
        ann = User.objects.get(username="ann")
        own = Role.objects.create(name="own")
        ann.roles.add(own)
        assert client.get("/admin/").status_code == 200
        through_mock(client, mock, groups=["staff"], name="Ann Other", email="ann@other.example")
        assert {role.name for role in ann.roles.all()} == {"user", "own"}
        assert [group.name for group in ann.groups.all()] == ["Staff"]
        through_mock(client, mock)
        assert list(ann.groups.all()) == []
        ann.refresh_from_db()
        assert (ann.display_name, ann.email) == ("Ann Example", "ann@example.com")
        assert User.objects.filter(username="ann").count() == 1

    def test_a_client_of_the_api_gets_the_tokens_of_a_login(self, nobody, mock, settings):
        location = nobody.get("/auth/sso/corp/")
        state = location.headers["Set-Cookie"].partition(";")[0]
        requests.put(f"{mock}/users/ann", json={"preferred_username": "ann"}, timeout=10)
        form = requests.post(location.headers["Location"], data={"sub": "ann"}, allow_redirects=False, timeout=10)
        path = form.headers["Location"].removeprefix(settings.GATEWAY_BASE_URL)
        response = nobody.get(path, headers={"Cookie": state})
        assert (response.status_code, response.json()) == (200, {"code": 200, "message": "Logged in."})
        cookies = cookies_of(response)
        assert {"SvcUserCookie", "SvcAuthCookie"} <= cookies.keys()
        assert works(nobody, cookies["SvcUserCookie"].value)

    @pytest.mark.long
    def test_the_log_tells_of_the_login_and_of_the_new_user(self, client, mock):
        through_mock(client, mock)
        entries = AuditEntry.objects.filter(resource__in=["auth", "users"]).order_by("id")
        assert [(entry.action, entry.actor) for entry in entries] == [
            ("create", "identity provider Corp"),
            ("login", "ann"),
        ]

    def test_whoever_denies_is_not_logged_in(self, client, mock):
        location = client.get("/auth/sso/corp/").headers["Location"]
        form = requests.post(location, data={"action": "deny"}, allow_redirects=False, timeout=10)
        query = urlsplit(form.headers["Location"]).query
        state = dict(part.split("=") for part in urlsplit(location).query.split("&"))["state"]
        response = client.get(f"/auth/sso/corp/callback/?{query}&state={state}")
        assert (response.status_code, response.json()["exception"]) == (403, "PermissionDenied")


class TestWhoComesIn:
    def test_without_create_users_only_who_is_linked(self, sign_on, provider):
        update_identity_provider(provider, create_users=False)
        assert sign_on.log_in().status_code == 403
        assert not User.objects.exists()
        ann = new_user(username="another-name")
        link_identity(user_id=ann.pk, issuer=provider.issuer, subject="subject-1")
        assert sign_on.log_in().status_code == 200
        assert Session.objects.get().user == ann

    def test_no_rule_that_matches_no_new_user(self, sign_on, provider):
        update_identity_provider(provider, rules="groups contains staff → role user")
        assert sign_on.log_in().status_code == 403
        assert sign_on.log_in({"groups": ["staff"]}).status_code == 200
        assert sign_on.log_in().status_code == 200  # known, and now without the role
        assert User.objects.get().roles.count() == 0

    def test_rules_that_are_comments_are_none(self, sign_on, provider):
        update_identity_provider(provider, rules="# none yet\n\n")
        assert sign_on.log_in().status_code == 200
        assert [role.name for role in User.objects.get().roles.all()] == ["user"]

    @pytest.mark.parametrize("name", ["ann", "ANN", " ann "])
    def test_a_local_account_is_not_taken_over_by_its_name(self, sign_on, ann, name):
        assert sign_on.log_in({"preferred_username": name, "email": ann.email}).status_code == 403
        assert not Identity.objects.exists()

    def test_unless_the_administrator_permits_it(self, sign_on, provider, ann):
        update_identity_provider(provider, match_user_names=True, create_users=False)
        assert sign_on.log_in({"preferred_username": "Ann"}).status_code == 200
        assert Identity.objects.get().user == ann
        assert sign_on.log_in({"sub": "another-subject"}).status_code == 403

    @pytest.mark.parametrize("options", [{"roles": ["admin"]}, {"is_active": False}, {"is_deleted": True}])
    def test_and_never_an_admin_nor_whoever_is_inactive(self, sign_on, provider, options):
        update_identity_provider(provider, match_user_names=True)
        new_user(username="ann", **options)
        assert sign_on.log_in().status_code == 403

    @pytest.mark.parametrize("power", ["users.manage", "group"])
    def test_nor_whoever_manages_others(self, sign_on, provider, power):
        update_identity_provider(provider, match_user_names=True)
        ann = new_user(*([power] if power == "users.manage" else []), username="ann")
        if power == "group":
            add_member(Group.objects.create(name="Team"), user_id=ann.pk, is_admin=True)
        assert sign_on.log_in().status_code == 403

    @pytest.mark.parametrize("has_app", [True, False], ids=["factor", "role"])
    def test_nor_whoever_logs_in_with_a_second_factor_or_has_to(self, sign_on, provider, ann, has_app):
        update_identity_provider(provider, match_user_names=True)
        if has_app:
            new_app(ann)
        else:
            Role.objects.filter(name="user").update(requires_second_factor=True)
        assert sign_on.log_in({"preferred_username": "ann"}).status_code == 403
        assert not Identity.objects.exists()

    @pytest.mark.parametrize("change", [{"is_active": False}, {"is_deleted": True}])
    def test_an_inactive_or_deleted_user_is_refused_and_the_log_says_so(self, sign_on, change):
        sign_on.log_in()
        User.objects.update(**change)
        Session.objects.all().delete()
        assert sign_on.log_in().status_code == 403
        assert not Session.objects.exists()
        entry = LogEntry.objects.latest("id")
        assert (entry.severity, entry.username) == ("warning", "ann")
        assert "inactive or deleted" in entry.message

    @pytest.mark.parametrize(
        "claims", [{"preferred_username": None}, {"preferred_username": ["ann"]}, {"preferred_username": " "}]
    )
    def test_a_user_without_a_name_is_not_created(self, sign_on, claims):
        assert sign_on.log_in(claims).status_code == 403

    @pytest.mark.parametrize("name", ["a\x00b", "a\u200bb", "x" * 151])
    def test_a_name_that_cannot_be_stored_is_refused(self, sign_on, name):
        assert sign_on.log_in({"preferred_username": name}).status_code in (400, 403)
        assert not User.objects.exists()

    @pytest.mark.parametrize(
        "claims",
        [
            {"email": "no address", "name": "x\x00y"},
            {"email": ["a@b.c"], "name": {"a": 1}},
            {"email": "x" * 300 + "@example.com", "name": "n" * 500},
        ],
    )
    def test_other_claims_that_cannot_be_stored_are_left_out(self, sign_on, claims):
        assert sign_on.log_in(claims).status_code == 200
        assert User.objects.get().email == ""

    def test_so_is_half_a_character(self, sign_on, issuer):
        issuer.user_info = {"email": "a@x\ud800y.com", "name": "A\ud800"}
        assert sign_on.log_in().status_code == 200
        ann = User.objects.get()
        assert (ann.email, ann.display_name) == ("", "")

    def test_the_password_login_of_such_a_user_is_refused_like_any_other(self, sign_on):
        sign_on.log_in()
        for password in ("", "!", User.objects.get().password, PASSWORD):
            with pytest.raises(AuthenticationFailed):
                log_in(username="ann", password=password)

    @pytest.mark.long
    def test_a_local_admin_still_logs_in_while_the_provider_is_down(self, client, sign_on, issuer):
        boss = new_admin()
        issuer.answers = dict.fromkeys(("/.well-known/openid-configuration", TOKEN), Answer({}, status=500))
        assert client.get("/auth/sso/corp/").status_code == 502
        client.post("/admin/login/", {"username": boss.username, "password": PASSWORD})
        assert client.get("/admin/").status_code == 200


class TestRules:
    @pytest.mark.long
    def test_the_last_admin_stays_one(self, sign_on, provider):
        update_identity_provider(provider, rules="groups contains bosses → role admin\nalways → role user")
        sign_on.log_in({"groups": ["bosses"]})
        ann = User.objects.get()
        assert ann.is_admin
        assert sign_on.log_in({"name": "Ann"}).status_code == 200
        ann = User.objects.get()
        assert (ann.is_admin, ann.display_name) == (True, "Ann")
        new_admin()
        sign_on.log_in()
        assert not User.objects.get(username="ann").is_admin

    @pytest.mark.long
    def test_what_a_rule_gave_goes_with_the_rule(self, sign_on, provider):
        Role.objects.create(name="own")
        update_identity_provider(provider, rules="always → role own\nalways → role user")
        sign_on.log_in()
        ann = User.objects.get()
        update_identity_provider(provider, rules="always → role user")
        sign_on.log_in()
        assert [role.name for role in ann.roles.all()] == ["user"]

    @pytest.mark.long
    def test_what_an_administrator_gave_stays_without_the_rule(self, sign_on, provider):
        own = Role.objects.create(name="own")
        sign_on.log_in()
        ann = User.objects.get()
        ann.roles.add(own)
        update_identity_provider(provider, rules="always → role own")
        sign_on.log_in()
        update_identity_provider(provider, rules="")
        sign_on.log_in()
        assert {role.name for role in ann.roles.all()} == {"own", "user"}

    def test_a_group_that_is_gone_is_passed_over(self, sign_on, provider):
        group = Group.objects.create(name="Gone")
        update_identity_provider(provider, rules="always → group Gone")
        group.delete()
        assert sign_on.log_in().status_code == 200

    def test_claims_of_user_info_count_where_the_token_has_none(self, sign_on, provider, issuer):
        Group.objects.create(name="Staff")
        update_identity_provider(provider, rules="groups contains staff → group Staff")
        issuer.user_info = {"groups": ["staff"], "preferred_username": "mallory"}
        sign_on.log_in()
        assert (User.objects.get().username, Group.objects.get().members.count()) == ("ann", 1)

    def test_an_address_that_only_user_info_calls_unverified_gives_nothing(self, sign_on, provider, issuer):
        new_admin()
        update_identity_provider(provider, rules="email_domain equals example.com → role admin\nalways → role user")
        issuer.user_info = {"email": "mallory@example.com", "email_verified": False}
        sign_on.log_in({"name": "Mallory", "email": "mallory@example.com"})
        assert [role.name for role in User.objects.get(username="ann").roles.all()] == ["user"]

    @pytest.mark.long
    def test_without_user_info_nobody_loses_what_rules_gave(self, sign_on, provider, issuer):
        group = Group.objects.create(name="Staff")
        update_identity_provider(
            provider, rules="groups contains staff → group Staff\ngroups contains staff → role user"
        )
        issuer.user_info = {"groups": ["staff"]}
        sign_on.log_in()
        ann = User.objects.get()
        group.admins.add(ann)
        issuer.answers[USER_INFO] = Answer({"error": "down"}, status=503)
        response = sign_on.log_in()
        assert (response.status_code, "Try again later" in response.content.decode()) == (502, True)
        assert group.has_admin(ann)
        assert [role.name for role in ann.roles.all()] == ["user"]

    def test_without_user_info_a_login_needs_no_display_name(self, sign_on, provider, issuer):
        update_identity_provider(provider, rules="groups contains staff → role user")
        issuer.answers[USER_INFO] = Answer({"error": "down"}, status=503)
        assert sign_on.log_in({"groups": ["staff"]}).status_code == 200


class TestSessions:
    def test_a_session_remembers_its_provider(self, sign_on):
        sign_on.log_in()
        login = FederatedLogin.objects.get()
        assert (login.provider_slug, login.subject, login.issuer) == ("corp", "subject-1", sign_on.issuer.url)
        assert "eyJ" not in login.id_token

    @pytest.mark.parametrize("path", ["/admin/", "/me/keys/?page=2", "/docs"])
    def test_the_browser_goes_on_to_the_page_that_it_came_for(self, client, sign_on, path):
        response = sign_on.log_in(next_path=path)
        assert f'content="0; url={path}"' in response.content.decode()
        assert ("SvcUserCookie" in response.cookies) == (path == "/docs")
        assert response.headers["Cache-Control"] == "no-store"

    def test_without_pages_for_users_the_console_refuses_them(self, sign_on, settings):
        settings.GATEWAY_USER_PAGES = False
        assert sign_on.log_in(next_path="/admin/").status_code == 403
        assert not Session.objects.exists()

    def test_used_states_are_forgotten_in_time(self, sign_on):
        sign_on.log_in()
        assert SpentToken.objects.count() == 1
        delete_all_expired()
        assert SpentToken.objects.count() == 1
        SpentToken.objects.update(expires_at=timezone.now() - timedelta(hours=2))
        delete_all_expired()
        assert not SpentToken.objects.exists()


class TestTheEnvironment:
    @pytest.fixture
    def configured(self, db, issuer, settings):
        settings.GATEWAY_OIDC_ISSUER = issuer.url
        settings.GATEWAY_OIDC_CLIENT_ID, settings.GATEWAY_OIDC_CLIENT_SECRET = "gateway", "a secret of the client"
        settings.GATEWAY_OIDC_CREATE_USERS = True
        settings.GATEWAY_OIDC_RULES = "always → role user"

    def test_a_provider_of_the_environment_logs_in(self, client, issuer, configured):
        assert SignOn(client, issuer, "sso").log_in().status_code == 200
        assert User.objects.get().identities.get().issuer == issuer.url

    def test_it_overrides_nothing_in_the_database(self, client, issuer, configured):
        registered(issuer.url, enabled=False)
        assert client.get("/auth/sso/sso/").status_code == 404
        assert client.get("/auth/sso/corp/").status_code == 404


@pytest.mark.parametrize("path", ["/me/login/", "/admin/login/"])
def test_login_pages_have_a_button_for_each_enabled_provider(client, provider, path):
    registered("https://login.example.com", name="Off <b>", slug="off", enabled=False)
    page = client.get(path, {"next": "/me/keys/?a=b&c=d"}).content.decode()
    assert "Continue with Corp" in page
    assert "/auth/sso/corp/?next=%2Fme%2Fkeys%2F%3Fa%3Db%26c%3Dd" in page
    assert "Off" not in page
