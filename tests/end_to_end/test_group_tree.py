"""Groups below groups: rules and limits hold downwards, use counts upwards, and admins of a group see its requests."""

from decimal import Decimal

import pytest

from accounts.services import add_member, create_group, create_service_account, remove_member, update_group
from licensing.services import set_limit
from tests.support.management import Client, new_admin, refused, token_of
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store
LIMITS = {"requests": 2, "tokens": 100, "cost": 2}  # two requests of 50 tokens, which cost 1 dollar each


@pytest.fixture
def above(world):
    return create_group(name=world.name("organisation"))


@pytest.fixture
def team(world, above):
    return create_group(name=world.name("team"), parent_id=above.pk)


@pytest.fixture
def account(world, team):
    return create_service_account(username=world.name("service"), group_id=team.pk)


@pytest.fixture
def boss(world, team):
    return add_member(team, user_id=world.new_user().pk, is_admin=True)


def test_rules_of_a_group_are_for_the_groups_below(world, above, team, account):
    world.provider()
    world.allow(group=above)
    key = world.new_key(owner=account).text
    assert world.ask(key=key).status_code == 200
    update_group(team, parent_id=None)
    world.soon(lambda: world.ask(key=key), 403)
    update_group(team, parent_id=above.pk)
    world.soon(lambda: world.ask(key=key), 200)


@pytest.mark.parametrize("measure", LIMITS)
def test_limits_of_a_group_count_all_groups_below(world, above, team, account, measure):
    """Each request takes half of the group's limit; the third has no room, wherever below it comes from."""
    provider = world.provider()
    provider.default = Answer(text="Hello!", usage={"prompt_tokens": 30, "completion_tokens": 20, "total_tokens": 50})
    world.price(20_000, 20_000)
    world.allow(group=above)
    other = create_group(name=world.name("team"), parent_id=above.pk)
    user = add_member(other, user_id=world.new_user().pk)
    limit = set_limit(group=above, measure=measure, window="day", amount=LIMITS[measure])
    first, second = world.new_key(owner=account).text, world.new_key(owner=user).text
    world.settle()

    def ask(key):
        return world.ask(world.name("prompt"), key=key, body={"max_tokens": 20})

    assert [ask(key).status_code for key in (first, second)] == [200, 200]
    for key in (first, second):
        refused(ask(key), 429, "QuotaExceeded")
    admin = Client(world.gateway.url).as_user(new_admin())
    [row] = admin.rows(f"/limits/?id={limit.pk}")
    assert (Decimal(row["used"]), Decimal(row["remaining"])) == (LIMITS[measure], 0)


def test_admins_see_the_requests_of_the_group_and_no_others(world, above, team, account, boss):
    world.provider()
    world.allow(everyone="user")
    member = add_member(team, user_id=world.new_user().pk)
    outsider = world.new_user()
    keys = {owner: world.new_key(owner=owner).text for owner in (account, member, outsider)}
    ids = {owner: world.entry(world.ask(world.name("prompt"), key=key)).pk for owner, key in keys.items()}
    remove_member(team, user_id=member.pk)
    world.settle()
    later = world.entry(world.ask(world.name("prompt"), key=keys[member])).pk
    client = Client(world.gateway.url, token_of(boss))
    shown = {row["id"] for row in client.rows(f"/logs/?groupId={team.pk}&type=WorkRequest")}
    assert shown == {ids[account], ids[member]}
    for entry in shown:
        assert client.get(f"/logs/{entry}/").status_code == 200
    for entry in (ids[outsider], later):
        refused(client.get(f"/logs/{entry}/"), 404, "NotFound")
    assert client.rows("/logs/?type=WorkRequest") == []
    for group in (above, create_group(name=world.name("other"))):
        assert client.rows(f"/logs/?groupId={group.pk}") == []
    add_member(above, user_id=boss.pk, is_admin=True)
    assert {row["id"] for row in client.rows(f"/logs/?groupId={above.pk}&type=WorkRequest")} == shown


def test_admins_see_the_usage_of_the_group_and_no_other(world, above, team, account, boss):
    world.provider()
    world.allow(everyone="user")
    assert world.entry(world.ask(key=world.new_key(owner=account).text))
    client = Client(world.gateway.url, token_of(boss))
    world.until(lambda: sum(row["requests"] for row in client.rows(f"/stats/usage/?groupId={team.pk}")) == 1)
    [row] = client.rows(f"/stats/usage/?groupId={team.pk}&by=user")
    assert (row["userId"], row["requests"]) == (account.pk, 1)
    assert client.rows("/stats/usage/") == []
    refused(client.get(f"/stats/usage/?groupId={team.pk}&by=group"), 403, "PermissionDenied", "stats.view")
    refused(client.get(f"/stats/usage/?userId={account.pk}"), 403, "PermissionDenied", "stats.view")
    refused(client.get(f"/stats/usage/?groupId={above.pk}&userId={account.pk}"), 403, "PermissionDenied", "stats.view")
    assert client.rows(f"/stats/usage/?groupId={above.pk}") == []
