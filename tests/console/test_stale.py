"""A form that lay open while somebody else changed the row: it takes nothing back."""

import pytest

from accounts import services as accounts
from accounts.models import Role
from keys.services import update_key
from licensing.services import change_limit, set_limit
from providers.services import update_provider
from rules.services import update_rule
from tests.support.console.forms import Fields, fields_of

SAID = "Somebody else changed this row after you opened the page"


@pytest.fixture
def opened(administrator):
    """Opens the form of a row, which lies open from then on: opened(row) -> (its address, its fields)."""

    def open_form(row) -> tuple[str, Fields]:
        path = f"{row._meta.app_label}/{row._meta.model_name}/{row.pk}/change/"
        return path, fields_of(administrator.get(path).text)

    return open_form


def test_an_admin_who_was_deactivated_and_demoted_meanwhile_stays_so(administrator, opened, world):
    carl = world.new_user(roles=["admin"])
    path, fields = opened(carl)
    accounts.update_user(carl, role_ids=[Role.objects.get(name="user").pk], is_active=False)
    answer = administrator.post(path, **fields | {"display_name": "Carl"})
    assert SAID in answer.text
    again = administrator.post(path, **fields_of(answer.text) | {"display_name": "Carl"})
    assert SAID in again.text
    carl.refresh_from_db()
    assert (carl.is_active, carl.display_name) == (False, "")
    assert [role.name for role in carl.roles.all()] == ["user"]
    path, fields = opened(carl)
    assert administrator.post(path, **fields | {"display_name": "Carl"}).status_code == 302
    carl.refresh_from_db()
    assert (carl.is_active, carl.display_name) == (False, "Carl")


def test_what_was_refused_for_another_reason_is_stored_when_it_is_right(administrator, opened, world):
    group, user = world.new_group(), world.user
    path, fields = opened(group)
    refused = administrator.post(path, **fields | {"members": user.pk, "name": ""})
    assert refused.status_code == 200
    assert administrator.post(path, **fields_of(refused.text) | {"name": group.name}).status_code == 302
    assert list(group.members.all()) == [user]


def test_so_it_is_in_every_table(administrator, opened, world):
    row, user = world.row(world.provider()), world.user
    key, rule, group = world.new_key().key, world.allow(), world.new_group()
    limit = set_limit(user=user, measure="requests", window="day", amount=5)
    role = accounts.create_role(name=world.name("role"))
    changes = {
        row: lambda: update_provider(row, enabled=False),
        key: lambda: update_key(key, provider=row),
        rule: lambda: update_rule(rule, enabled=False),
        group: lambda: accounts.add_member(group, user_id=user.pk),
        limit: lambda: change_limit(limit, amount=6),
        role: lambda: accounts.update_role(role, name=world.name("renamed")),
    }
    for changed, change in changes.items():
        path, fields = opened(changed)
        change()
        before = type(changed).objects.filter(pk=changed.pk).values().get()
        assert SAID in administrator.post(path, **fields).text, path
        assert type(changed).objects.filter(pk=changed.pk).values().get() == before


def test_a_form_that_nobody_opened_changes_nothing(administrator, world):
    answer = administrator.post(f"accounts/user/{world.user.pk}/change/", display_name="Ann", is_active="on")
    assert SAID in answer.text


def test_the_page_looks_as_it_did(console, world):
    window = console()
    window.open(f"accounts/user/{world.user.pk}/change/")
    assert window.check() == []
    assert not window.page.locator("input[name=_seen]").is_visible()
