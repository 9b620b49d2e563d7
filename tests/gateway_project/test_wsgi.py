"""What every answer has in common, whoever gave it, in a running gateway."""

import requests

from tests.support.management import Client, new_admin


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
