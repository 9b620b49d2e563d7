"""A form that is refused because of another row links to that row, for those who may see it."""

import pytest
from django.urls import reverse

from accounts.models import Feature, Group, User
from accounts.services import delete_user
from gateway_project.console.links import page_of, with_link
from gateway_project.errors import Conflict
from keys.models import ApiKey
from keys.services import issue_key
from licensing.models import Limit
from providers.models import Provider
from rules.aliases.models import Alias
from tests.support.console.forms import fields_of
from tests.support.management import PASSWORD, new_user
from tests.support.many_rows import fill

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def refusal(console, table, **values) -> str:
    """The page of the form of a new row with these values, which is refused."""
    path = reverse(f"admin:{table._meta.app_label}_{table._meta.model_name}_add")
    answer = console.post(path, {**fields_of(console.get(path).text), **values})
    assert answer.status_code == 200
    return answer.text


def test_a_name_that_is_taken_links_to_what_has_it(console):
    user, feature = new_user(username="ann"), Feature.objects.create(name="beta")
    fill(user, 0, 1)
    provider, alias = Provider.objects.get(), Alias.objects.get()
    for row, values in (
        (user, {"username": "Ann", "password": PASSWORD}),
        (feature, {"name": "BETA"}),
        (provider, {"name": provider.name, "url": "https://example.org/v1", "format": provider.format, "secret": "s"}),
        (alias, {**fields_of(console.get(page_of(alias)).text), "_seen": ""}),
    ):
        assert f'href="{page_of(row)}"' in refusal(console, type(row), **values), row


@pytest.mark.parametrize(("table", "field"), [(Feature, "name"), (Group, "name"), (User, "username")])
def test_a_name_that_is_taken_is_said_beside_its_field(console, table, field):
    """It stood above the form."""
    if table is User:
        new_user(username="ann")
    else:
        table.objects.create(name="ann")
    path = reverse(f"admin:accounts_{table._meta.model_name}_add")
    values = {**fields_of(console.get(path).text), field: "ann", **({"password": PASSWORD} if table is User else {})}
    errors = console.post(path, values).context["adminform"].form.errors
    assert list(errors) == [field]
    assert "exists already" in errors[field][0]


def test_a_second_limit_of_a_kind_links_to_the_first(console):
    key = issue_key(owner=new_user(), name="k").key
    limit = Limit.objects.create(key=key, measure="requests", window="day", amount=5)
    values = {"key": key.pk, "measure": "requests", "time_window": "day", "amount": "7"}
    html = refusal(console, Limit, **values)
    assert f'href="{page_of(limit)}"' in html
    assert "already has a limit of this measure and window" in html


def test_the_name_of_a_deleted_user_links_to_their_page(console):
    user = new_user(username="ann")
    delete_user(user)
    html = refusal(console, User, username="ann", password=PASSWORD)
    assert "deleted users keep their names" in html
    assert f'href="{page_of(user)}"' in html


def test_there_is_no_link_to_what_the_reader_may_not_see_or_what_is_gone(console, rf):
    request, user, error = rf.get("/"), new_user(), Conflict("It exists already.")
    request.user = User.objects.get(pk=console.session["_auth_user_id"])
    assert f'href="{page_of(user)}"' in with_link("Text", error.with_row(user), request)
    assert with_link("Text", error.with_row(None), request) == "Text"
    assert with_link("Text", error.with_row(User(pk=user.pk + 1)), request) == "Text"
    request.user = user
    assert with_link("Text", error.with_row(user), request) == "Text"


def test_text_of_a_name_is_never_markup(console):
    owner = new_user(username="ann")
    key = issue_key(owner=owner, name="<b>k</b>").key
    html = refusal(console, ApiKey, owner=owner.pk, name=key.name)
    assert f'href="{page_of(key)}"' in html
    assert "<b>k</b>" not in html
