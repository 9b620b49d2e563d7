"""What several tests of providers need."""

import pytest

from providers.models import Provider
from providers.transport.transport import Transport
from tests.support.management import new_user
from tests.support.providers.values import good


@pytest.fixture
def transport():
    made = Transport(networks="any", heartbeat_seconds=1)
    yield made
    made.close_idle(-1)


@pytest.fixture
def add_provider(admin):
    """A function that adds a provider over HTTP."""

    def add(**attributes) -> Provider:
        response = admin.post("/providers/", **good(**attributes))
        assert response.status_code == 201, response.text
        return Provider.objects.get(pk=response.headers["ProviderId"])

    return add


@pytest.fixture
def user(nobody):
    """A client of the management API that a user without further permissions is logged in with."""
    return nobody.as_user(new_user())
