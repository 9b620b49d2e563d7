"""The pages of whoever administers a group in the browser: whole in each look, and from a login to a working key."""

import pytest
import requests

from accounts.services import add_member, create_group, create_service_account
from keys.services import issue_key
from rules.services import create_rule
from tests.console.conftest import LOOKS, stand_still
from tests.console.test_access_requests import HOSTILE
from tests.console.test_me import enter
from tests.support.management import new_user


@pytest.fixture
def group(orm, world):
    return create_group(name=world.name("group"))


@pytest.fixture
def boss(group):
    return add_member(group, user_id=new_user().pk, is_admin=True)


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_whole(visitor, world, group, boss, look):
    account = create_service_account(username=world.name("service"), group_id=group.pk, display_name=HOSTILE[:200])
    key = issue_key(owner=account, name="nightly").key
    rule = create_rule(
        name=world.name("rule"),
        group_id=group.pk,
        effect="deny",
        is_delegated=True,
        description=HOSTILE,
        regex="x" * 900,
    )
    window = visitor(look)
    enter(window, boss.username)
    own, keys = f"group-accounts/{account.pk}/", f"group-accounts/{account.pk}/keys/"
    for path in (
        *("groups/", f"groups/{group.pk}/", f"groups/{group.pk}/accounts/new/", f"groups/{group.pk}/rules/new/"),
        *(own, f"{own}delete/", f"{keys}new/", f"{keys}{key.pk}/rotate/", f"{keys}{key.pk}/delete/"),
        *(f"group-rules/{rule.pk}/", f"group-rules/{rule.pk}/delete/"),
    ):
        window.page.goto(f"{window.url}/me/{path}")
        stand_still(window.page)
        assert window.check() == [], path


def test_from_the_login_to_a_key_that_a_rule_stops(visitor, world, group, boss):
    world.provider()
    world.allow(group=group)
    window = visitor()
    page = window.page
    enter(window, boss.username)
    page.click("nav >> text=Groups")
    page.click(f"text={group.name}")
    page.click("text=New service account")
    page.fill("input[name=username]", world.name("service"))
    page.click("button:has-text('Create')")
    page.click("text=New API key")
    page.fill("input[name=name]", "nightly")
    page.click("button:has-text('Create')")
    stand_still(page)
    assert window.check() == []
    headers = {"Authorization": f"Bearer {page.inner_text('#key')}"}
    body = {"model": world.model, "messages": [{"role": "user", "content": "Hello!"}]}

    def ask():
        return requests.post(f"{window.url}/v1/chat/completions", json=body, headers=headers, timeout=30)

    world.soon(ask, 200)
    page.goto(f"{window.url}/me/groups/{group.pk}/")
    page.click("text=New rule")
    page.fill("input[name=name]", world.name("rule"))
    page.fill("input[name=models]", world.model)
    page.click("button:has-text('Save')")
    page.wait_for_url(f"{window.url}/me/groups/{group.pk}/")
    body["messages"][0]["content"] = "Hello again!"
    world.soon(ask, 403)
