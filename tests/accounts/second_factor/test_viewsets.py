"""The second factor in the management API: what shows it, what requires it, and who removes it."""

import pytest

from accounts.models import AuthenticatorApp, Passkey, RecoveryCode, Role, Session
from accounts.sessions import start_session
from telemetry.audit.models import AuditEntry
from tests.support.management import new_admin, new_user, refused
from tests.support.second_factor import new_app

pytestmark = pytest.mark.either_store


def test_a_role_says_whether_it_requires_one(admin):
    created = admin.post("/roles/", name="careful", requiresSecondFactor=True)
    assert created.status_code == 201, created.text
    row_id = created.headers["RoleId"]
    (row,) = admin.rows(f"/roles/?id={row_id}")
    assert row["requiresSecondFactor"] is True
    assert admin.patch(f"/roles/{row_id}/", requiresSecondFactor=False).status_code == 200
    assert not Role.objects.get(pk=row_id).requires_second_factor
    entry = AuditEntry.objects.filter(resource="roles", action="update").get()
    assert '"requiresSecondFactor":true' in entry.before.replace(" ", "")


def test_the_role_admin_can_require_one(admin):
    role = Role.objects.get(name="admin")
    assert admin.patch(f"/roles/{role.pk}/", requiresSecondFactor=True).status_code == 200
    assert Role.objects.get(pk=role.pk).requires_second_factor


def test_it_is_true_or_false(admin):
    assert "requiresSecondFactor" in refused(
        admin.post("/roles/", name="x", requiresSecondFactor="perhaps"), 400, "ValidationError"
    )


def test_users_show_whether_they_have_one(admin, ann, django_assert_max_num_queries):
    new_app(ann)
    rows = {row["userName"]: row["secondFactor"] for row in admin.rows("/users/")}
    assert rows.pop("ann") is True
    assert set(rows.values()) == {False}


def test_nobody_removes_their_own_without_the_password(nobody):
    me = new_admin()
    new_app(me)
    refused(nobody.as_user(me).delete(f"/users/{me.pk}/second-factor/"), 409, "Conflict", "your password")
    assert AuthenticatorApp.objects.filter(user=me).exists()


def test_an_admin_removes_all_of_a_user_and_the_audit_says_so(admin, ann):
    app = new_app(ann)
    start_session(ann)
    response = admin.delete(f"/users/{ann.pk}/second-factor/")
    assert (response.status_code, response.json()) == (200, {})
    assert not any(rows.exists() for rows in (AuthenticatorApp.objects, Passkey.objects, RecoveryCode.objects))
    assert not Session.objects.of(ann).live().exists()
    entry = AuditEntry.objects.filter(action="remove second factor").get()
    assert (entry.resource, entry.resource_id) == ("users", ann.pk)
    assert app.secret not in entry.before
    assert admin.delete(f"/users/{ann.pk}/second-factor/").status_code == 200, "there is none any more"
    assert AuditEntry.objects.filter(action="remove second factor").count() == 1
    refused(admin.delete("/users/999999/second-factor/"), 404, "NotFound")


@pytest.mark.parametrize("features", [[], ["users.manage"]], ids=str)
def test_nobody_else_does(nobody, ann, features):
    new_app(ann)
    other = nobody.as_user(new_user(*features))
    for client in (nobody.as_user(ann), other):
        refused(client.delete(f"/users/{ann.pk}/second-factor/"), 403, "PermissionDenied")
    assert AuthenticatorApp.objects.exists()
