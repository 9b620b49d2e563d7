"""The server against a checker of SCIM 2.0 that others wrote."""

import httpx2
import pytest
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server

TOKEN = "t" * 40


@pytest.fixture
def scim(nobody, settings):
    settings.GATEWAY_SCIM_TOKEN = TOKEN
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=f"{nobody.base}/scim/v2", headers=headers) as client:
        yield SyncSCIMClient(client)


def test_the_checker_finds_nothing(scim):
    results = check_server(scim)
    failures = [f"{one.title} {one.resource_type}: {one.reason}" for one in results if one.status != Status.SUCCESS]
    print(len(results))
    assert failures == []
