"""What the tests of the pages for second factors begin with."""

import secrets

import pytest
from django.test import Client

from accounts.models import User
from tests.support.management import new_admin
from tests.support.second_factor_pages import enter


@pytest.fixture
def own_throttle(settings) -> None:
    """Count logins apart from those of other tests in the same cache."""
    prefix = secrets.token_hex(6)
    settings.CACHES = {name: {**cache, "KEY_PREFIX": prefix} for name, cache in settings.CACHES.items()}


@pytest.fixture(params=["me", "admin"])
def site(request) -> str:
    return request.param


@pytest.fixture
def user(db) -> User:
    """Whom both sites admit."""
    return new_admin(username="boss")


@pytest.fixture
def browser(client, user, site) -> Client:
    """Logged in with the password alone."""
    assert enter(client, site).status_code == 302
    return client
