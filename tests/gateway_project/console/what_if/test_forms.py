"""The forms of what-ifs: a draft as JSON with a period, and the forms of tables."""

import pytest

from licensing.services import set_limit
from rules.models import WhatIf
from rules.services import create_rule

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
DRAFT = {"first": "2026-11-01", "last": "2026-11-02"}


@pytest.mark.parametrize(
    "draft",
    [
        r'{"\ud800": 1}',
        r'{"guardrails": [{"name": "a", "type": "words", "parameters": {"words": ["\u0000"]}}]}',
        f'{{"rules": {"[" * 900 + "]" * 900}}}',
    ],
)
def test_a_draft_that_cannot_be_stored_is_an_error_of_its_field(console, draft):
    page = console.post("/admin/what-if/", DRAFT | {"draft": draft})
    assert page.status_code == 200
    assert "The draft " in page.context["form"].errors["draft"][0]
    assert not WhatIf.objects.exists()


@pytest.mark.parametrize(("day", "is_valid"), [("9999-12-31", False), ("9999-12-30", True), ("10000-01-01", False)])
def test_the_day_after_the_last_one_exists(console, day, is_valid):
    page = console.post("/admin/what-if/", DRAFT | {"last": day, "draft": '{"delete": {"rules": [0]}}'})
    assert page.status_code == 200
    assert ("last" in page.context["form"].errors) == (not is_valid)


@pytest.mark.parametrize("table", ["rule", "limit"])
def test_a_form_without_its_required_fields_is_refused(console, ann, table):
    row = (
        create_rule(name="r", user_id=0)
        if table == "rule"
        else set_limit(user=ann, measure="requests", window="day", amount=5)
    )
    page = console.post(f"/admin/what-if/draft/{table}/?id={row.pk}", {})
    assert page.status_code == 200
    assert "This field is required." in page.text
    assert not WhatIf.objects.exists()
