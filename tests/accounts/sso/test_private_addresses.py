"""An identity provider leads to no private address, whichever endpoint of its document names one."""

import pytest

from accounts.models import Session
from gateway_project.errors import ValidationError
from tests.accounts.sso.conftest import registered
from tests.support.oidc import DISCOVERY
from tests.support.promises import promise
from tests.support.sinks import DISGUISED, METADATA, PRIVATE, connections, ports_since, sinks

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.mark.parametrize("spelling", (PRIVATE | DISGUISED).values(), ids=PRIVATE | DISGUISED)
@promise("V-O2: nor is one that an identity provider names", target="0 connections on 3 listeners", suite="attack")
def test_no_issuer_leads_to_a_private_address(client, settings, spelling):
    settings.GATEWAY_PROVIDER_NETWORKS = "public"
    with sinks() as listening:
        try:
            registered(spelling.format(port=listening.port))
        except ValidationError:
            return
        assert client.get("/auth/sso/corp/").status_code == 502
        assert listening.heard == []


@pytest.mark.parametrize("endpoint", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
@pytest.mark.parametrize("spelling", (DISGUISED | METADATA).values(), ids=DISGUISED | METADATA)
@promise("V-O2: nor is one that a document of an issuer names", target="0 connections are begun", suite="attack")
def test_no_endpoint_leads_to_a_reserved_address(sign_on, endpoint, spelling):
    before = len(connections())
    with sinks() as listening:
        sign_on.issuer.metadata[endpoint] = spelling.format(port=listening.port)
        response = sign_on.client.get("/auth/sso/corp/")
        if response.status_code == 302:
            sign_on.log_in()
        assert sign_on.issuer.requests_to(DISCOVERY) == 1
        assert ports_since(before) == {int(sign_on.issuer.url.rpartition(":")[2])}
        assert listening.heard == []
    assert endpoint == "userinfo_endpoint" or not Session.objects.exists()


@pytest.mark.parametrize("endpoint", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
def test_an_endpoint_that_may_be_called_is_heard(sign_on, endpoint):
    with sinks() as listening:
        sign_on.issuer.metadata[endpoint] = PRIVATE["plain http"].format(port=listening.port)
        sign_on.log_in()
        assert listening.heard
