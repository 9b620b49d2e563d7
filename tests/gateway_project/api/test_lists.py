"""What all lists share, tried on roles and features: pages, filters, and what a page costs."""

import pytest

from accounts.models import Feature, Group, Role
from providers.models import Model, Provider, ProviderFormat
from tests.support.management import body, refused

pytestmark = pytest.mark.either_store

NEIGHBOURS = {"self": 2, "first": 1, "last": 4, "prev": 1, "next": 3}


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


@pytest.mark.parametrize("flat", [False, True])
def test_links_lead_from_page_to_page_and_keep_the_query(admin, many, flat):
    document = admin.get("/roles/?page[size]=40&page[number]=2", flat=flat).json()
    links = {name: f"/roles/?page%5Bsize%5D=40&page%5Bnumber%5D={number}" for name, number in NEIGHBOURS.items()}
    assert document["links"] == links
    path, observations = "/roles/?page[size]=40", []
    while path:
        document = admin.get(path, flat=flat).json()
        observations += [row["id"] for row in document["data"]]
        path = document["links"].get("next")
    assert len(set(observations)) == len(observations) == 150
    assert document["links"].keys() == {"self", "first", "last", "prev"}


def test_links_name_no_host_and_escape_what_is_asked(admin, settings):
    settings.GATEWAY_BASE_URL = "https://gateway.example.org/llm"
    name = 'a&b=c#d ü"<script>'
    links = admin.get("/roles", params={"name": name}, headers={"X-Forwarded-Host": "evil.example"}).json()["links"]
    assert links["self"] == "/llm/roles?name=a%26b%3Dc%23d+%C3%BC%22%3Cscript%3E"
    assert links["first"] == f"{links['self']}&page%5Bnumber%5D=1"


@pytest.mark.django_db(transaction=True)
def test_lists_without_paging_are_whole_unless_a_page_is_asked_for(admin, first_provider):
    Feature.objects.bulk_create(Feature(name=f"feature {number}") for number in range(150))
    Group.objects.bulk_create(Group(name=f"group {number}") for number in range(150))
    Model.objects.bulk_create(Model(provider=first_provider, name=f"m{number}") for number in range(150))
    Provider.objects.bulk_create(
        Provider(name=f"p{number}", format=first_provider.format, url="https://x.test/v1") for number in range(150)
    )
    models = f"/providers/{first_provider.pk}/models/"
    totals = {"/features/": Feature, "/groups/": Group, "/providers/": Provider, "/formats/": ProviderFormat}
    counts = {path: kind.objects.count() for path, kind in totals.items()} | {models: 150}
    for path, total in counts.items():
        document = admin.get(path).json()
        assert (len(document["data"]), document["links"]) == (total, {"self": path})
        assert document["meta"] == {"totalCount": total, "pageNumber": 1, "pageSize": total}
        page = admin.get(f"{path}?page[number]=1").json()
        assert len(page["data"]) == min(20, total)
        assert page["meta"] == {"totalCount": total, "pageNumber": 1, "pageSize": 20}
        assert len(admin.get(f"{path}?page[size]=3").json()["data"]) == 3
        refused(admin.get(f"{path}?page[number]=99"), 400, "ValidationError", "page[number]")


@pytest.mark.parametrize("name", ["page[size]", "page[number]"])
def test_a_page_that_cannot_be_gets_400(admin, name):
    for value in ("0", "-1", "x", "", "1.5", "1e3", "٣", "9" * 5000, " 1", "1\0"):
        refused(admin.get("/roles/", params={name: value}), 400, "ValidationError", name)


def test_a_page_past_the_end_gets_400_but_the_first_is_always_there(admin):
    refused(admin.get("/roles/?page[number]=2"), 400, "ValidationError", "page[number]")
    empty = admin.get("/roles/?name=nosuch").json()
    page = "/roles/?name=nosuch&page%5Bnumber%5D=1"
    assert empty == {
        "links": {"self": "/roles/?name=nosuch", "first": page, "last": page},
        "data": [],
        "meta": {"totalCount": 0, "pageNumber": 1, "pageSize": 20},
    }
    refused(admin.get("/roles/?name=nosuch&page[number]=2"), 400, "ValidationError", "page[number]")


@pytest.mark.long
def test_a_list_costs_the_same_number_of_queries_at_any_size(client, django_user_model, db, django_assert_num_queries):
    from tests.support.management import new_admin, token_of

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
