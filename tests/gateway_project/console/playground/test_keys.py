"""With which keys an administrator tries models in the playground."""

import pytest

from accounts.models import User
from accounts.tokens import read_access
from keys.services import delete_keys, issue_key
from tests.support.management import new_user

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/admin/playground/"


def token_with(console, key_id) -> tuple[int, str | None]:
    """The status, and the public id of the key that the token names."""
    response = console.post(f"{PAGE}token/", {"key": key_id})
    return response.status_code, read_access(response.json()["token"]).key if response.status_code == 200 else None


def test_usable_keys_of_their_own_are_offered(console):
    admin, other = User.objects.get(), new_user()
    owners = {"mine": admin, "deleted": admin, "theirs": other}
    mine, deleted, theirs = (issue_key(owner=owner, name=name).key for name, owner in owners.items())
    delete_keys([deleted])
    assert list(console.get(PAGE).context["keys"]) == [mine]
    assert token_with(console, mine.pk) == (200, mine.public_id)
    assert token_with(console, "") == (200, "")
    assert [token_with(console, key.pk) for key in (deleted, theirs)] == [(404, None), (404, None)]
