"""With which keys an administrator tries models in the playground."""

import pytest

from accounts.models import User
from accounts.tokens import read_access
from keys.services import delete_keys, issue_key
from tests.support.management import new_user

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/admin/playground/"


def key_of_token(console, public_id: str) -> str | None:
    """The public id of the key that the token names; None if there is no token."""
    response = console.post(f"{PAGE}token/", {"key": public_id})
    return read_access(response.json()["token"]).key if response.status_code == 200 else None


def test_usable_keys_of_their_own_are_offered(console):
    admin, other = User.objects.get(), new_user()
    owners = {"mine": admin, "deleted": admin, "theirs": other}
    mine, deleted, theirs = (issue_key(owner=owner, name=name).key for name, owner in owners.items())
    reading = issue_key(owner=admin, name="reading", permissions=["stats.view"]).key
    delete_keys([deleted])
    assert list(console.get(PAGE).context["keys"]) == [mine]
    assert [key_of_token(console, public_id) for public_id in (mine.public_id, "")] == [mine.public_id, ""]
    for public_id in (deleted.public_id, theirs.public_id, reading.public_id, str(mine.pk), "0", "other"):
        assert key_of_token(console, public_id) is None
