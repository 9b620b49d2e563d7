"""The second factor on the console's pages of users and roles, and its secret under another encryption key."""

import pytest

from accounts.models import AuthenticatorApp, Role, Session
from accounts.sessions import start_session
from providers.credentials import is_sealed_with
from providers.sealing import reseal_credentials
from telemetry.audit.models import AuditEntry
from tests.support.second_factor import new_app

pytestmark = pytest.mark.either_store


@pytest.mark.long
def test_an_admin_sees_and_removes_that_of_a_user(console, ann):
    app = new_app(ann)
    start_session(ann)
    page = console.get(f"/admin/accounts/user/{ann.pk}/change/").text
    assert "authenticator app" in page
    assert app.secret not in page
    path = f"/admin/accounts/user/{ann.pk}/remove-second-factor/"
    assert "passkeys and recovery codes are removed" in console.get(path).text
    assert AuthenticatorApp.objects.exists()
    assert console.post(path).status_code == 302
    assert not AuthenticatorApp.objects.exists()
    assert not Session.objects.of(ann).live().exists()
    assert AuditEntry.objects.filter(action="remove second factor", resource_id=ann.pk).count() == 1


def test_the_roles_page_requires_one_also_of_admins(console):
    for name in ("user", "admin"):
        role = Role.objects.get(name=name)
        features = [] if name == "admin" else [feature.pk for feature in role.features.all()]
        path = f"/admin/accounts/role/{role.pk}/change/"
        row = console.get(path).context["adminform"].form.first_digest
        response = console.post(path, {"features": features, "requires_second_factor": "on", "_seen": row})
        assert response.status_code == 302, response.text
        role.refresh_from_db()
        assert role.requires_second_factor
    assert Role.objects.get(name="user").features.count() == 2


def test_a_new_role_can_require_one(console):
    response = console.post("/admin/accounts/role/add/", {"name": "careful", "requires_second_factor": "on"})
    assert response.status_code == 302
    assert Role.objects.get(name="careful").requires_second_factor


def test_the_secret_is_sealed_anew_with_a_new_key(ann, settings):
    app = new_app(ann)
    settings.GATEWAY_ENCRYPTION_KEYS = ["another key of thirty-two characters", *settings.GATEWAY_ENCRYPTION_KEYS]
    assert reseal_credentials().unreadable == ()
    row = AuthenticatorApp.objects.get()
    assert is_sealed_with(row.credential, settings.GATEWAY_ENCRYPTION_KEYS[0])
    assert row.opened_secret() == app.secret
