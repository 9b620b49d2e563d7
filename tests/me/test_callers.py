"""Every path of the URLconf below /me/, asked by every caller who is not logged in there: each leads to the login."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from accounts import services as accounts
from accounts.builtin import FEATURES
from accounts.models import Session, User
from gateway_project.me import urls
from gateway_project.work import runtime as gateway_of_process
from keys.models import ApiKey
from keys.services import issue_key, update_key
from tests.me.test_groups import entry, limit, rule, stored
from tests.support.management import PASSWORD, new_admin, token_of
from tests.support.promises import promise
from tests.support.second_factor import new_app
from tests.support.user_pages import log_in

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
__all__ = ["entry", "limit", "rule"]  # fixtures

FOR_ANYBODY = {"login", "login-code", "logout"}
VALUES = {"active": "false", "name": "x", "username": "x", "amount": "1", "admin": "true", "reason": "x"}


def bearer(credential: str) -> Client:
    """A browser that sends a credential of the API wherever one is taken."""
    client = Client(HTTP_AUTHORIZATION=f"Bearer {credential}", HTTP_X_API_KEY=credential)
    client.cookies["SvcUserCookie"] = credential
    return client


def key_after(**changes: object) -> Client:
    """The key of an admin with every feature, with these values in its row."""
    issued = issue_key(owner=new_admin(), name="key", permissions=FEATURES)
    ApiKey.objects.filter(pk=issued.key.pk).update(**changes)
    return bearer(issued.text)


def token_with_key() -> str:
    owner = new_admin()
    return token_of(owner, issue_key(owner=owner, name="key", permissions=FEATURES).key.public_id)


def locked_key() -> Client:
    issued = issue_key(owner=new_admin(), name="key", permissions=FEATURES)
    update_key(issued.key, locked=True)
    return bearer(issued.text)


def logged_in_before(change: Callable[[User], object]) -> Client:
    """The browser of an admin who is logged in, after this has happened to them; another admin is left."""
    new_admin()
    user = new_admin()
    client = log_in(user)
    change(user)
    return client


def expired_token() -> Client:
    with override_settings(GATEWAY_ACCESS_TOKEN_SECONDS=-60):
        return bearer(token_of(new_admin()))


def half_logged_in() -> Client:
    """The browser of an admin who has given the password, and not the second factor."""
    user = new_admin()
    new_app(user)
    client = Client()
    response = client.post("/me/login/", {"username": user.username, "password": PASSWORD})
    assert response.headers["Location"] == "/me/login/code/"
    return client


def end_sessions(user: User) -> None:
    assert Session.objects.filter(user=user).delete()[0] > 0


def expire_sessions(user: User) -> None:
    assert Session.objects.filter(user=user).update(expires_at=timezone.now() - timedelta(seconds=1)) > 0


CALLERS: dict[str, Callable[[], Client]] = {
    "nobody": Client,
    "nonsense": lambda: bearer("svc_x"),
    "admin's access token": lambda: bearer(token_of(new_admin())),
    "expired access token": expired_token,
    "admin's access token that names a key": lambda: bearer(token_with_key()),
    "admin's key": key_after,
    "expired key": lambda: key_after(expiry=timezone.now()),
    "locked key": locked_key,
    "password without the second factor": half_logged_in,
    "locked user": lambda: logged_in_before(lambda user: accounts.update_user(user, is_active=False)),
    "deleted user": lambda: logged_in_before(accounts.delete_user),
    "ended session": lambda: logged_in_before(end_sessions),
    "expired session": lambda: logged_in_before(expire_sessions),
}


@pytest.fixture
def paths(group, account, key, rule, limit, entry) -> Iterator[list[str]]:
    """Each path of the URLconf that needs a login, with ids that exist: a new route is among them by itself."""
    known = {
        "group_id": group.pk, "user_id": account.pk, "account_id": account.pk, "key_id": key.pk, "rule_id": rule.pk,
        "limit_id": limit.pk, "entry_id": entry.pk, "session_id": uuid4(), "request_id": 1, "kind": "model",
        "passkey_id": 1, "address": "nowhere/",
    }  # fmt: skip
    yield [
        reverse(f"me:{pattern.name}", kwargs={name: known[name] for name in pattern.pattern.converters})
        for pattern in urls.urlpatterns
        if pattern.name not in FOR_ANYBODY
    ]
    gateway_of_process.stop_gateway()  # some pages start it, and its database is gone in a moment


@promise(
    "Every page below /me/ refuses whoever is not logged in there", target="302 to the login, nothing changed",
    suite="attack",
)  # fmt: skip
@pytest.mark.parametrize("caller", CALLERS)
def test_whoever_is_not_logged_in_is_led_to_the_login(paths, caller, figure):
    client, before = CALLERS[caller](), stored()
    for path in paths:
        for method, response in (("GET", client.get(path)), ("POST", client.post(path, VALUES))):
            assert response.status_code == 302, f"{method} {path}"
            assert response.headers["Location"] == f"/me/login/?next={path}", f"{method} {path}"
    assert stored() == before
    figure(f"{len(paths)} routes, {len(CALLERS)} kinds of callers")


def test_the_same_paths_open_for_who_is_logged_in(browser, paths):
    """So they are refused to others for who they are."""
    assert len(paths) > 40
    for path in paths:
        assert browser.get(path).headers.get("Location", "").startswith("/me/login/") is False, path
