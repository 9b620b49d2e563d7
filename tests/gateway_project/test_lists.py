"""What all lists share, tried on roles and features: pages, filters, and what a page costs."""

import pytest

from accounts.models import Feature, Role
from tests.management import body, refused


@pytest.fixture
def many(db):
    Role.objects.bulk_create(Role(name=f"many {number:03}") for number in range(148))  # and the two built in


def test_pages_are_of_20_unless_told_and_of_100_at_most(admin, many):
    first = admin.get("/roles/").json()
    assert (len(first["data"]), first["meta"]) == (20, {"totalCount": 150, "pageNumber": 1, "pageSize": 20})
    last = admin.get("/roles/?page[size]=1000&page[number]=2").json()
    assert (len(last["data"]), last["meta"]) == (50, {"totalCount": 150, "pageNumber": 2, "pageSize": 100})


def test_pages_follow_one_another_by_id(admin, many):
    ids = [
        row["id"] for number in (1, 2, 3) for row in admin.rows(f"/roles/?page%5Bsize%5D=50&page%5Bnumber%5D={number}")
    ]
    assert ids == sorted(set(ids))
    assert len(ids) == 150


@pytest.mark.parametrize("name", ["page[size]", "page[number]"])
def test_a_page_that_cannot_be_gets_400(admin, name):
    for value in ("0", "-1", "x", "", "1.5", "1e3", "٣", "9" * 5000, " 1", "1\0"):
        refused(admin.get("/roles/", params={name: value}), 400, "ValidationError", name)


def test_a_page_past_the_end_gets_400_but_the_first_is_always_there(admin):
    refused(admin.get("/roles/?page[number]=2"), 400, "ValidationError", "page[number]")
    empty = admin.get("/roles/?name=nosuch").json()
    assert empty == {"data": [], "meta": {"totalCount": 0, "pageNumber": 1, "pageSize": 20}}
    refused(admin.get("/roles/?name=nosuch&page[number]=2"), 400, "ValidationError", "page[number]")


def test_a_list_costs_the_same_number_of_queries_at_any_size(client, django_user_model, db, django_assert_num_queries):
    from tests.management import new_admin, token_of

    headers = {"Authorization": f"Bearer {token_of(new_admin())}"}
    counts = []
    for size in (1, 100):
        Role.objects.bulk_create(Role(name=f"{size} {number}") for number in range(100))
        for role in Role.objects.all():
            role.features.set(Feature.objects.all())
        with django_assert_num_queries(
            7
        ) as queries:  # session and user, roles, licence; count, page, features, all of them
            client.get(f"/roles/?page[size]={size}", headers=headers)
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "query",
    [
        "nope=1",
        "Name=work",
        "name=work&name=x",
        "filter[name]=work",
        "include=features",
        "fields[roles]=name",
        "format=json",
        "id=",
        "id=x",
        "id=-1",
        "id=1.0",
        "id=99999999999999999999",
        "id=1&id=1",
        "name=a%00b",
        "sort=name",
    ],
)
def test_a_parameter_that_is_unknown_repeated_or_ill_typed_gets_400(admin, query):
    name = query.partition("=")[0]
    refused(admin.get(f"/roles/?{query}"), 400, "ValidationError", name)


def test_other_operations_know_no_filters(admin):
    refused(admin.get(f"/roles/{Role.objects.first().pk}/?name=x"), 400, "ValidationError", "name")
    refused(admin.send("POST", "/roles/?id=1", json=body(name="x")), 400, "ValidationError", "id")
    refused(admin.send("GET", "/version/?x=1"), 400, "ValidationError", "x")


def test_filters_compare_by_equality(admin):
    assert [row["name"] for row in admin.rows("/features/?name=work")] == ["work"]
    assert admin.rows("/features/?name=wor") == []
    row = Feature.objects.get(name="rules.view")
    assert admin.rows(f"/features/?id={row.pk}") == [{"id": row.pk, "name": "rules.view"}]
    assert admin.rows(f"/features/?id={row.pk}&name=work") == []
