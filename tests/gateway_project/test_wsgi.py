"""What every answer has in common, whoever gave it, in a running gateway."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import requests

from tests.support.management import Client, new_admin
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.embedded


def test_head_is_get_without_a_body_that_anybody_would_be_warned_of(world):
    admin = Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))
    key = {"Authorization": f"Bearer {world.key}"}
    paths = {
        "/roles/": dict(admin.session.headers),
        "/users/": {},
        "/nothing": {},
        "/schema/": {},
        "/healthz": {},
        "/v1/models": key,
        "/v1/models/none": key,
    }
    for path, headers in paths.items():
        get, head = (
            requests.request(method, world.gateway.url + path, headers=headers, timeout=10)
            for method in ("GET", "HEAD")
        )
        assert (head.status_code, head.content) == (get.status_code, b""), path
        assert head.headers["Content-Type"] == get.headers["Content-Type"], path
        assert head.headers["X-Svc-Request-ID"], path
    assert "no-body response" not in world.gateway.log()


def test_while_all_threads_are_busy_health_is_answered_and_metrics_are_refused(own_gateway):
    patient = {"GATEWAY_FIRST_BYTE_TIMEOUT": "30", "GATEWAY_TOTAL_TIMEOUT": "30"}
    world = own_gateway(GATEWAY_THREADS="4", GATEWAY_USER_CONCURRENT="0", **patient)
    world.allow()
    provider = world.provider()
    provider.default = Answer(text="slow", delay=6)
    statuses = partial(_statuses, world.gateway.url)
    with ThreadPoolExecutor(4) as pool:
        # A thread is free again a moment after its response has left: until then one of the four may be refused.
        questions = [partial(world.ask, f"question {number}") for number in range(4)]
        slow = [pool.submit(world.soon, question, 200) for question in questions]
        world.until(lambda: len(provider.seen) == 4)
        assert statuses("/healthz", "/readyz", "/version", "/metrics") == [200, 200, 503, 503]
        assert all(request.result() for request in slow)
    assert statuses("/metrics", "/version") == [200, 200]


@pytest.mark.parametrize("charset", ["rot13", "undefined", "utf-7", '"punycode"', "latin-1"])
def test_a_charset_that_is_not_utf_8_is_refused_before_django_decodes_with_it(world, charset):
    for path in ("/version/?a=1", "/users/", "/admin/login/", "/me/login/"):
        headers = {"Content-Type": f"text/plain; Charset = {charset}"}
        response = requests.get(world.gateway.url + path, headers=headers, timeout=10)
        assert (response.status_code, response.json()["exception"]) == (415, "UnsupportedMediaType"), path
    headers = {"Content-Type": "text/plain; charset=UTF-8"}
    assert requests.get(f"{world.gateway.url}/version/", headers=headers, timeout=10).status_code == 200


def _statuses(url, *paths):
    return [requests.get(url + path, timeout=10).status_code for path in paths]
