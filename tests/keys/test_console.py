"""API keys in the console: what the API refuses is refused there too, beside the field."""

import pytest

from accounts.services import delete_user
from keys.models import ApiKey
from tests.management import PASSWORD, new_admin, new_user


@pytest.fixture
def console(client, db):
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    return client


def added(console, **fields):
    return console.post("/admin/keys/apikey/add/", {"name": "laptop", "permissions": ["work"], **fields})


def test_a_key_is_made_for_somebody_who_can_use_it(console):
    ann = new_user()
    delete_user(ann)
    answer = added(console, owner=ann.pk)
    assert answer.context["adminform"].form.errors == {"owner": ["is deleted, and gets no keys."]}
    assert not ApiKey.objects.exists()


def test_a_key_is_made_for_a_time_to_come(console):
    answer = added(console, owner=new_user().pk, expiry_0="2020-01-01", expiry_1="00:00:00")
    assert answer.context["adminform"].form.errors == {"expiry": ["must lie in the future."]}
    assert added(console, owner=new_user().pk, expiry_0="2100-01-01", expiry_1="00:00:00").status_code == 200
    assert ApiKey.objects.get().expiry.year == 2100
