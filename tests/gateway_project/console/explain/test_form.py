"""The form of the page Explain refuses what no request could be."""

import pytest

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize(
    "body",
    [r'{"model": "\ud800"}', r'{"model": "m", "\ud800": 1}', f'{{"model": "m", "x": {DEEP}}}', "[]"],
)
def test_a_body_is_json_as_for_requests(console, ann, body):
    page = console.post("/admin/explain/", {"user": ann.pk, "door": "/work", "body": body})
    assert page.status_code == 200
    assert "The body " in page.context["form"].errors["body"][0]


@pytest.mark.parametrize("name", ["user", "key"])
@pytest.mark.parametrize("value", ["\0", "9" * 30])
def test_what_cannot_be_an_id_is_no_choice(console, name, value):
    page = console.post("/admin/explain/", {name: value, "door": "/work", "model": "m"})
    assert page.status_code == 200
    assert name in page.context["form"].errors


def test_a_body_may_have_a_whole_number_of_any_size(console, ann):
    body = '{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "seed": 1000000000000000000000000000000}'
    page = console.post("/admin/explain/", {"user": ann.pk, "door": "/work", "body": body})
    assert page.status_code == 200
    assert page.context["explanation"] is not None
