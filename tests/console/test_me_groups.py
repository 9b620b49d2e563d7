"""The pages of whoever administers a group in the browser: whole in each look, and from a login to a working key."""

import pytest
import requests

from accounts.services import add_member, create_group, create_service_account
from keys.services import issue_key
from licensing.services import set_limit
from rules.services import create_rule
from tests.console.conftest import stand_still
from tests.console.test_access_requests import HOSTILE
from tests.console.test_me import enter
from tests.support.console.hand import Hand
from tests.support.console.scale import Scale
from tests.support.management import new_user


@pytest.fixture
def group(orm, world):
    return create_group(name=world.name("group"))


@pytest.fixture
def boss(group):
    return add_member(group, user_id=new_user().pk, is_admin=True)


@pytest.mark.timeout(300)  # many pages, each in three looks
def test_every_page_is_whole(visitor, world, group, boss):
    world.provider()
    world.allow(group=group)
    below = create_group(name=world.name("below"), parent_id=group.pk)
    add_member(below, user_id=new_user().pk)
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
    limits = [set_limit(group=one, measure="tokens", window="day", amount=10**6) for one in (group, below)]
    add_member(group, user_id=world.user.pk)
    world.settle()
    entry = world.entry(world.ask("What is in the group's log?"))
    group_pages = f"groups/{group.pk}/"
    tabs = ("", "keys/", "limits/", "rules/", "log/", "usage/", "limits/new/", "accounts/new/", "rules/new/")
    window = visitor()
    enter(window, boss.username)
    scale = Scale(window)
    own, keys = f"group-accounts/{account.pk}/", f"group-accounts/{account.pk}/keys/"
    for path in (
        *("groups/", *(f"{group_pages}{tab}" for tab in tabs), f"groups/{below.pk}/"),
        *(f"{group_pages}log/{entry.pk}/", f"group-limits/{limits[1].pk}/", f"group-limits/{limits[1].pk}/delete/"),
        *(own, f"{own}delete/", f"{keys}new/", f"{keys}{key.pk}/rotate/", f"{keys}{key.pk}/delete/"),
        *(f"group-rules/{rule.pk}/", f"group-rules/{rule.pk}/delete/"),
    ):
        scale.open(path)
        assert window.check_looks() == {}, path
    assert scale.problems() == {}


def test_each_tab_of_a_group_is_open_after_three_clicks(visitor, world, group, boss):
    add_member(group, user_id=world.user.pk)
    window = visitor()
    enter(window, boss.username)
    hand = Hand(window)
    hand.click("nav >> text=Groups")
    hand.click(f"#main a:text-is('{group.name}')")
    assert hand.page.locator("#main th", has_text=world.user.username).is_visible()
    for tab in ("Keys", "Limits", "Rules", "Log", "Usage and cost"):
        hand.clicks = 2  # the tabs are the same on each page of the group
        hand.click(f"nav[aria-label=Group] >> text={tab}")
        assert hand.page.inner_text("nav[aria-label=Group] [aria-current=page]") == tab
        assert hand.clicks <= 3
    assert window.problems == []


def test_from_the_login_to_a_key_that_a_rule_stops(visitor, world, group, boss):
    world.provider()
    world.allow(group=group)
    window = visitor()
    page = window.page
    enter(window, boss.username)
    page.click("nav >> text=Groups")
    page.click(f"text={group.name}")
    page.click("nav[aria-label=Group] >> text=Keys")
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
    page.click("nav[aria-label=Group] >> text=Rules")
    page.click("text=New rule")
    page.fill("input[name=name]", world.name("rule"))
    page.fill("input[name=models]", world.model)
    page.click("button:has-text('Save')")
    page.wait_for_url(f"{window.url}/me/groups/{group.pk}/rules/")
    body["messages"][0]["content"] = "Hello again!"
    world.soon(ask, 403)


def test_a_member_is_added_limited_and_seen_in_the_log(visitor, world, group, boss):
    world.provider()
    world.allow(group=group)
    account = create_service_account(username=world.name("service"), group_id=group.pk)
    window = visitor()
    page = window.page
    enter(window, boss.username)
    page.goto(f"{window.url}/me/groups/{group.pk}/")
    page.fill("input[name=username]", world.user.username)
    page.click("text=Add member")
    page.wait_for_selector(f"th:has-text('{world.user.username}')")
    world.settle()
    assert world.ask("What is asked as a member?").status_code == 200
    page.click("nav[aria-label=Group] >> text=Limits")
    page.click("text=New limit")
    page.select_option("select[name=subject]", f"service account:{account.pk}")
    page.fill("input[name=amount]", "5")
    page.click("button:has-text('Save')")
    page.wait_for_selector(f"th:has-text('{account.username}')")
    page.click("nav[aria-label=Group] >> text=Log")
    page.wait_for_selector(f"td:has-text('{world.user.username}')")
    page.click("nav[aria-label=Group] >> text=Usage and cost")
    stand_still(page)
    assert window.check() == []
    with page.expect_download() as download:
        page.click("text=CSV")
    assert download.value.suggested_filename.startswith("usage-")
