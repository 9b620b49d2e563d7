"""The keys of an issuer are fetched from no private address: neither its row nor its configuration leads to one."""

import json

import pytest

from accounts.trusted_issuers.fetching import KeySource, fetch_keys
from accounts.trusted_issuers.services import create_trusted_issuer
from gateway_project.errors import ValidationError
from providers.transport.documents import DocumentUnavailable
from tests.support.issuers import AUDIENCE, IssuerServer
from tests.support.promises import promise
from tests.support.sinks import DISGUISED, METADATA, PRIVATE, connections, ports_since, sinks

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.mark.parametrize("field", ["issuer", "jwks_url"])
@pytest.mark.parametrize("spelling", (PRIVATE | DISGUISED).values(), ids=PRIVATE | DISGUISED)
@promise("V-O2: nor is one that an issuer of tokens names", target="0 connections on 3 listeners", suite="attack")
def test_no_row_leads_to_a_private_address(settings, field, spelling):
    settings.GATEWAY_PROVIDER_NETWORKS = "public"
    with sinks() as listening:
        values = {"issuer": "https://issuer.example.org", field: spelling.format(port=listening.port)}
        try:
            row = create_trusted_issuer(name="cluster", audience=AUDIENCE, **values)
        except ValidationError:
            return
        with pytest.raises(DocumentUnavailable):
            fetch_keys(KeySource(row.pk, row.name, row.issuer, row.jwks_url))
        assert listening.heard == []


@pytest.mark.parametrize("spelling", (DISGUISED | METADATA).values(), ids=DISGUISED | METADATA)
@promise("V-O2: nor is one that a document of an issuer names", target="0 connections are begun", suite="attack")
def test_no_configuration_leads_to_a_reserved_address(spelling):
    before = len(connections())
    with sinks() as listening, IssuerServer() as server:
        server.body = json.dumps({"issuer": server.url, "jwks_uri": spelling.format(port=listening.port)}).encode()
        server.answer = lambda path: server.body
        with pytest.raises(DocumentUnavailable):
            fetch_keys(KeySource(1, "cluster", server.url, ""))
        assert server.paths == ["/.well-known/openid-configuration"]
        assert ports_since(before) == {server.http.server_port}
        assert listening.heard == []


def test_an_address_that_may_be_called_is_heard():
    with sinks() as listening:
        with pytest.raises(DocumentUnavailable):
            fetch_keys(KeySource(1, "cluster", "https://x.example", PRIVATE["plain http"].format(port=listening.port)))
        assert listening.heard
