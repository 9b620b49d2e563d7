"""A user may make only so many writes a minute with the management API."""

import time

import pytest

from tests.support.management import refused

pytestmark = pytest.mark.either_store

MINUTE = 60


@pytest.fixture(autouse=True)
def whole_minute():
    """A test fits into one minute."""
    if (left := MINUTE - time.time() % MINUTE) < 10:
        time.sleep(left)


def test_writes_beyond_the_limit_are_refused_until_the_minute_is_over(admin, settings):
    settings.GATEWAY_WRITES_PER_MINUTE = 3
    answers = [admin.post("/roles/", name=f"role {number}") for number in range(5)]
    assert [answer.status_code for answer in answers] == [201] * 3 + [429] * 2
    assert 0 < int(answers[-1].headers["Retry-After"]) <= MINUTE
    refused(answers[-1], 429, "RateLimited")
    assert "3 writes per minute" in answers[-1].text
    assert admin.get("/roles/").status_code == 200, "reads are not counted"


def test_each_user_has_a_limit_of_their_own_over_all_their_credentials(admin, nobody, ann, settings):
    settings.GATEWAY_WRITES_PER_MINUTE = 2
    assert nobody.as_user(ann).post("/keys/", name="one").status_code == 201
    assert nobody.as_user(ann).post("/keys/", name="one").status_code == 409, "what is refused is not counted"
    assert [nobody.as_user(ann).post("/keys/", name=name).status_code for name in ("two", "three")] == [201, 429]
    assert admin.post("/roles/", name="another").status_code == 201


def test_zero_is_no_limit(admin, settings):
    settings.GATEWAY_WRITES_PER_MINUTE = 0
    assert all(admin.post("/roles/", name=f"role {n}").status_code == 201 for n in range(5))
