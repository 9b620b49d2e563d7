"""A group with its admin, who is logged in at /me/, a service account and its key."""

import pytest
from django.test import Client

from accounts.services import add_member, create_group, create_service_account
from keys.services import issue_key
from tests.support.management import new_user
from tests.support.user_pages import SCRIPT, log_in


@pytest.fixture
def group(db):
    return create_group(name="search")


@pytest.fixture
def boss(group):
    return add_member(group, user_id=new_user(username="boss").pk, is_admin=True)


@pytest.fixture
def browser(boss) -> Client:
    return log_in(boss)


@pytest.fixture
def account(group):
    return create_service_account(username="indexer", group_id=group.pk, display_name=SCRIPT)


@pytest.fixture
def key(account):
    return issue_key(owner=account, name="nightly").key
