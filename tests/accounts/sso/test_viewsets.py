"""Identity providers and identities over HTTP, in the console, and their secrets."""

import pytest
from django.conf import settings as process_settings

from accounts.models import Group, Identity, IdentityProvider
from providers.credentials import CredentialUnreadable
from providers.sealing import reseal_credentials
from telemetry.models import LogEntry
from tests.accounts.sso.conftest import registered
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store

CORP = {"name": "Corp", "slug": "corp", "issuer": "https://login.example.com", "clientId": "gateway"}
SECRET = "a-long-secret-of-the-client"


def test_a_provider_is_created_read_changed_and_deleted(admin, settings):
    response = admin.post("/identity-providers/", **CORP, clientSecret=SECRET)
    assert response.status_code == 201
    path = f"/identity-providers/{response.headers['IdentityProviderId']}/"
    (row,) = admin.rows("/identity-providers/")
    base = f"{settings.GATEWAY_BASE_URL}/auth/sso/corp"
    assert row == {
        **CORP,
        "id": int(response.headers["IdentityProviderId"]),
        "clientSecret": "…ient",
        "scopes": "openid profile email",
        "enabled": True,
        "userNameClaim": "preferred_username",
        "displayNameClaim": "name",
        "emailClaim": "email",
        "createUsers": False,
        "matchUserNames": False,
        "rules": "",
        "redirectUri": f"{base}/callback/",
        "backchannelLogoutUri": f"{base}/backchannel-logout/",
        "postLogoutRedirectUri": f"{settings.GATEWAY_BASE_URL}/me/login/",
    }
    assert admin.patch(path, enabled=False, clientSecret="…ient").status_code == 200
    assert IdentityProvider.objects.get().opened_secret() == SECRET
    assert admin.patch(path, clientSecret="").status_code == 200
    assert IdentityProvider.objects.get().opened_secret() == ""
    assert admin.delete(path).status_code == 200
    assert not IdentityProvider.objects.exists()


def test_no_answer_and_no_log_entry_shows_the_secret(admin):
    response = admin.post("/identity-providers/", **CORP, clientSecret=SECRET)
    admin.patch(f"/identity-providers/{response.headers['IdentityProviderId']}/", clientSecret=SECRET + "2")
    texts = [admin.get("/identity-providers/").text, *map(str, LogEntry.objects.values_list())]
    assert SECRET not in "".join(texts)
    assert SECRET not in str(IdentityProvider.objects.values_list())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"issuer": "http://login.example.com"}, "issuer"),
        ({"issuer": "https://user:pass@login.example.com"}, "issuer"),
        ({"issuer": "https://login.example.com/?a=b"}, "issuer"),
        ({"issuer": "https://login.example.com/#a"}, "issuer"),
        ({"issuer": "file:///etc/passwd"}, "issuer"),
        ({"issuer": "https://[::1"}, "issuer"),
        ({"issuer": "https://login.example.com:99999"}, "issuer"),
        ({"slug": "Corp"}, "slug"),
        ({"slug": "a/b"}, "slug"),
        ({"slug": ""}, "slug"),
        ({"name": ""}, "name"),
        ({"name": "a\u200b"}, "name"),
        ({"clientId": "a b"}, "clientId"),
        ({"clientSecret": "…abcd"}, "clientSecret"),
        ({"clientSecret": "ü"}, "clientSecret"),
        ({"clientSecret": 5}, "clientSecret"),
        ({"scopes": "profile"}, "scopes"),
        ({"scopes": "openid  x"}, "scopes"),
        ({"rules": "nonsense"}, "rules"),
        ({"rules": "always → role nothing"}, "rules"),
        ({"rules": "always → group Nothing"}, "rules"),
        ({"rules": "a equals \u0000 → role user"}, "rules"),
        ({"rules": "x" * 20_001}, "rules"),
        ({"emailClaim": "a b"}, "emailClaim"),
        ({"createUsers": "yes"}, "createUsers"),
        ({"unknown": 1}, "unknown"),
    ],
    ids=str,
)
def test_bad_input_is_refused_with_the_name_of_the_field(admin, change, field):
    refused(admin.post("/identity-providers/", **{**CORP, **change}), 400, "ValidationError", field)


def test_rules_may_name_groups_and_roles_that_exist(admin, db):
    Group.objects.create(name="Staff")
    rules = "groups contains a → role ADMIN\nalways -> group Staff"
    assert admin.post("/identity-providers/", **CORP, rules=rules).status_code == 201


@pytest.mark.parametrize("same", ["name", "slug", "issuer"])
def test_name_slug_and_issuer_are_there_once(admin, same):
    other = {"name": "Other", "slug": "other", "issuer": "https://other.example.com", "clientId": "gateway"}
    assert admin.post("/identity-providers/", **CORP).status_code == 201
    refused(admin.post("/identity-providers/", **{**other, same: CORP[same]}), 409, "Conflict", "exists already")


def test_a_secret_does_not_follow_to_another_host(admin):
    response = admin.post("/identity-providers/", **CORP, clientSecret=SECRET)
    path = f"/identity-providers/{response.headers['IdentityProviderId']}/"
    refused(admin.patch(path, issuer="https://evil.example"), 400, "ValidationError", "clientSecret")
    assert admin.patch(path, issuer="https://login.example.com/realm").status_code == 200
    assert admin.patch(path, issuer="https://other.example", clientSecret="another-secret").status_code == 200


def test_secrets_are_sealed_anew_with_a_new_key(db, settings):
    provider = registered("https://login.example.com")
    (former,) = list(process_settings.GATEWAY_ENCRYPTION_KEYS)[:1]
    settings.GATEWAY_ENCRYPTION_KEYS = ["n" * 40, former]
    assert reseal_credentials().rewritten == 1
    settings.GATEWAY_ENCRYPTION_KEYS = ["n" * 40]
    provider.refresh_from_db()
    assert provider.opened_secret() == "a secret of the client"
    settings.GATEWAY_ENCRYPTION_KEYS = [former]
    with pytest.raises(CredentialUnreadable):
        provider.opened_secret()


def test_users_may_not_even_read(as_ann):
    for resource in ("identity-providers", "identities"):
        refused(as_ann.get(f"/{resource}/"), 403, "PermissionDenied", "admin")


class TestIdentities:
    def test_a_user_is_linked_and_unlinked(self, admin, ann):
        values = {"issuer": "https://login.example.com", "subject": "f0c2"}
        response = admin.post("/identities/", userId=ann.pk, **values)
        assert response.status_code == 201
        (row,) = admin.rows(f"/identities/?userId={ann.pk}")
        assert {name: row[name] for name in ("userId", "issuer", "subject", "lastLogin")} == {
            **values,
            "userId": ann.pk,
            "lastLogin": None,
        }
        refused(admin.post("/identities/", userId=new_user().pk, **values), 409, "Conflict")
        refused(admin.post("/identities/", userId=ann.pk, **{**values, "subject": "other"}), 409, "Conflict")
        assert admin.delete(f"/identities/{response.headers['IdentityId']}/").status_code == 200
        assert not Identity.objects.exists()

    @pytest.mark.parametrize(
        ("change", "field"),
        [({"userId": 999999}, "userId"), ({"subject": ""}, "subject"), ({"subject": "a\u0000"}, "subject"),
         ({"subject": "x" * 256}, "subject"), ({"issuer": "ü"}, "issuer"), ({"userId": "x"}, "userId")],
    )  # fmt: skip
    def test_bad_input_is_refused(self, admin, ann, change, field):
        values = {"userId": ann.pk, "issuer": "https://login.example.com", "subject": "f0c2", **change}
        refused(admin.post("/identities/", **values), 400, "ValidationError", field)


class TestConsole:
    @pytest.mark.long
    def test_a_provider_is_made_and_changed_in_the_console(self, console):
        add = "/admin/accounts/identityprovider/add/"
        form = {
            "name": "Corp",
            "slug": "corp",
            "issuer": CORP["issuer"],
            "client_id": "gateway",
            "enabled": "on",
            "client_secret": SECRET,
            "scopes": "openid",
            "rules": "always → role user",
            "user_name_claim": "preferred_username",
            "display_name_claim": "name",
            "email_claim": "email",
            "_seen": "",
        }
        response = console.post(add, {**form, "rules": "nonsense"})
        assert (response.status_code, "is not a rule" in response.content.decode()) == (200, True)
        assert console.post(add, form).status_code == 302
        row = IdentityProvider.objects.get()
        assert (row.opened_secret(), row.rules) == (SECRET, "always → role user")
        change = f"/admin/accounts/identityprovider/{row.pk}/change/"
        page = console.get(change).content.decode()
        assert row.redirect_uri in page
        assert SECRET not in page
        digest = page.partition('name="_seen" value="')[2].partition('"')[0]
        assert console.post(change, {**form, "client_secret": "", "name": "Other", "_seen": digest}).status_code == 302
        row.refresh_from_db()
        assert (row.name, row.opened_secret()) == ("Other", SECRET)

    def test_identities_are_listed_made_and_deleted(self, console, ann):
        add = "/admin/accounts/identity/add/"
        form = {"user": ann.pk, "issuer": "https://login.example.com", "subject": "f0c2", "_seen": ""}
        assert console.post(add, form).status_code == 302
        identity = Identity.objects.get()
        assert "f0c2" in console.get("/admin/accounts/identity/").content.decode()
        provider = IdentityProvider.objects.create(name="P", slug="p", issuer=identity.issuer, client_id="c")
        listed = console.get("/admin/accounts/identity/").content.decode()
        assert f'href="/admin/accounts/identityprovider/{provider.pk}/change/"' in listed
        assert console.get(f"/admin/accounts/identity/{identity.pk}/change/").status_code == 200
        assert console.post(f"/admin/accounts/identity/{identity.pk}/delete/", {"post": "yes"}).status_code == 302
        assert not Identity.objects.exists()
