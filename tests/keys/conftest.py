"""Users that several tests of keys need."""

import pytest

from tests.support.management import new_user


@pytest.fixture
def bob(db):
    return new_user(username="bob")
