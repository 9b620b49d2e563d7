"""Access requests in the browser: asked for at /me/, granted by an admin of the group there, or in the console."""

import pytest

from accounts.access_requests.models import AccessRequest
from accounts.services import add_member, create_group
from tests.console.conftest import stand_still
from tests.console.test_me import enter
from tests.support.management import new_user

HOSTILE = "<script>alert(1)</script> " + "averyverylongwordwithoutanyspace" * 20


@pytest.fixture
def group(orm, world):
    return create_group(name=world.name("group"))


def request_of(world, group, **values) -> AccessRequest:
    facts = {"user": world.user, "kind": "membership", "group": group, "reason": HOSTILE}
    return AccessRequest.objects.create(**facts | values)


@pytest.mark.timeout(300)  # many pages, each in three looks
def test_the_pages_are_whole_with_requests(visitor, console, world, group):
    boss = add_member(group, user_id=new_user().pk, is_admin=True)
    request_of(world, group)
    request_of(world, group, state="granted", grant_id=1, note=HOSTILE)
    windows = [(console(), "access-requests/")]
    for user in (boss, world.user):
        window = visitor()
        enter(window, user.username)
        window.page.goto(f"{window.url}/me/access/")
        stand_still(window.page)
        assert window.check_looks() == {}, user
    for window, path in windows:
        window.open(path)
        assert window.check_looks() == {}
        window.open("accounts/accessrequest/")
        assert window.check_looks() == {}


def test_a_user_asks_and_an_admin_grants_in_a_few_clicks(visitor, console, world, group):
    window = visitor()
    page = window.page
    enter(window, world.user.username)
    page.click("nav >> text=Access")
    page.click("text=Ask to join a group")
    page.fill("input[name=group]", group.name)
    page.fill("textarea[name=reason]", "I work there now.")
    page.click("button:has-text('Ask')")
    page.wait_for_url(f"{window.url}/me/access/")
    administrator = console()
    administrator.open("")
    administrator.page.click("a:has-text('Decide')")
    stand_still(administrator.page)
    row = administrator.page.locator("tbody tr", has_text=group.name).first
    row.locator("select").select_option("24")
    row.locator("button:has-text('Grant')").click()
    stand_still(administrator.page)
    assert administrator.check() == []
    assert group.members.contains(world.user)
    page.reload()
    assert "GRANTED" in page.locator("tbody tr", has_text=group.name).inner_text().upper()
