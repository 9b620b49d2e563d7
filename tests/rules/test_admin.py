"""Rules in the console: what the API refuses is refused there too, beside the field."""

import pytest

from rules.models import LONGEST_DESCRIPTION, LONGEST_PATTERN, Rule
from tests.management import PASSWORD, new_admin

pytestmark = pytest.mark.django_db


@pytest.fixture
def console(client):
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    return client


def added(console, **fields):
    return console.post("/admin/rules/rule/add/", {"name": "all", "audience": "everyone", **fields})


@pytest.mark.parametrize(("field", "longest"), [("description", LONGEST_DESCRIPTION), ("regex", LONGEST_PATTERN)])
def test_a_rule_has_the_bounds_of_the_api(console, field, longest):
    answer = added(console, **{field: "x" * (longest + 1)})
    assert list(answer.context["adminform"].form.errors) == [field]
    assert not Rule.objects.exists()
    assert added(console, **{field: "x" * longest}).status_code == 302
