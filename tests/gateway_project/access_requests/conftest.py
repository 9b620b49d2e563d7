"""A group, its member and its admin."""

import pytest

from accounts.services import add_member, create_group
from tests.support.management import new_user


@pytest.fixture
def group(db):
    return create_group(name="search")


@pytest.fixture
def boss(group):
    return add_member(group, user_id=new_user(username="boss").pk, is_admin=True)
