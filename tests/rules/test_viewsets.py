"""Access rules over HTTP."""

import itertools

import pytest

from accounts.services import create_group, delete_user
from rules.models import Rule
from telemetry.models import LogEntry
from tests.support.hostile import try_wrong
from tests.support.management import body, new_user, refused, token_of

pytestmark = pytest.mark.either_store

_numbers = itertools.count()


@pytest.fixture
def staff(ann):
    return create_group(name="staff", member_ids=[ann.pk])


def make(client, **given) -> Rule:
    response = client.post("/rules/", **({"name": f"r{next(_numbers)}"} | given))
    assert response.status_code == 201, response.text
    return Rule.objects.get(pk=response.headers["RuleId"])


def names(client, query: str = "") -> list[str]:
    return [row["name"] for row in client.rows(f"/rules/{query}")]


def test_a_rule_is_listed_with_whom_it_is_for(admin, ann, first_provider):
    values = {"name": "r", "description": "why", "enabled": False, "regex": "gpt-.*", "userId": ann.pk}
    rule = make(admin, **values, providerId=first_provider.pk)
    (row,) = admin.rows("/rules/")
    assert row == values | {
        "id": rule.pk,
        "userName": "ann",
        "groupId": None,
        "groupName": None,
        "effect": "allow",
        "position": 100,
        "providerId": first_provider.pk,
        "providerName": "first",
    }
    assert admin.get(f"/rules/{rule.pk}/", flat=True).json() == {"data": row}


@pytest.mark.parametrize(
    ("payload", "user_id", "group_id"),
    [({}, None, None), ({"userId": 0}, 0, None), ({"groupId": 0}, None, 0), ({"groupId": 0, "userId": None}, None, 0)],
)
def test_0_is_everyone_and_null_is_nobody(admin, payload, user_id, group_id):
    make(admin, **payload, providerId=0, regex=None)
    (row,) = admin.rows("/rules/")
    assert (row["userId"], row["groupId"], row["providerId"], row["regex"]) == (user_id, group_id, None, "")
    assert row["enabled"] is True


def test_a_rule_is_for_a_user_or_for_a_group(admin, ann, staff):
    for request in (
        {"userId": ann.pk, "groupId": staff.pk},
        {"userId": 0, "groupId": 0},
        {"userId": ann.pk, "groupId": 0},
    ):
        refused(admin.post("/rules/", name="x", **request), 400, "ValidationError", "userId", "groupId")
    rule = make(admin, userId=ann.pk)
    refused(admin.patch(f"/rules/{rule.pk}/", groupId=0), 400, "ValidationError", "groupId")
    assert admin.patch(f"/rules/{rule.pk}/", groupId=staff.pk, userId=None).status_code == 200
    rule.refresh_from_db()
    assert (rule.user, rule.group, rule.everyone) == (None, staff, "")
    assert admin.patch(f"/rules/{rule.pk}/", groupId=0).status_code == 200
    rule.refresh_from_db()
    assert (rule.user, rule.group, rule.everyone) == (None, None, "group")
    assert admin.patch(f"/rules/{rule.pk}/", enabled=False).status_code == 200
    rule.refresh_from_db()
    assert (rule.everyone, rule.enabled) == ("group", False)


def test_an_update_by_data_id_changes_what_is_given(admin, ann, first_provider):
    rule = make(admin, name="before", userId=ann.pk, regex="a", providerId=first_provider.pk)
    document = body(name="after", regex="b")
    document["data"]["id"] = rule.pk
    response = admin.send("PATCH", "/rules/", json=document)
    assert (response.status_code, response.json()) == (200, {})
    rule.refresh_from_db()
    assert (rule.name, rule.regex, rule.user, rule.provider) == ("after", "b", ann, first_provider)
    document["data"]["attributes"] = {"providerId": 0}
    admin.send("PATCH", "/rules/", json=document)
    rule.refresh_from_db()
    assert rule.provider is None


def test_a_rule_denies_if_its_effect_says_so(admin):
    rule, other = make(admin, name="no", userId=0, effect="deny"), make(admin, name="yes", userId=0)
    assert (rule.effect, other.effect) == ("deny", "allow")
    assert names(admin, "?effect=deny") == ["no"]
    assert names(admin, "?effect=allow") == ["yes"]
    assert admin.patch(f"/rules/{rule.pk}/", name="was").status_code == 200
    assert admin.rows("/rules/?name=was")[0]["effect"] == "deny"
    assert admin.patch(f"/rules/{rule.pk}/", effect="allow").status_code == 200
    assert admin.rows("/rules/?effect=deny") == []


def test_a_taken_name_is_a_conflict(admin):
    make(admin, name="one")
    two = make(admin, name="two")
    refused(admin.post("/rules/", name="one"), 409, "Conflict", "one")
    refused(admin.patch(f"/rules/{two.pk}/", name="one"), 409, "Conflict", "one")
    assert admin.patch(f"/rules/{two.pk}/", name="two").status_code == 200


@pytest.mark.parametrize("pattern", ["(", "a{1001}", "(?=x)", r"\1", "[b-a]", "(((a{100}){100}){100})"])
def test_a_pattern_that_re2_does_not_take_is_refused_with_its_reason(admin, pattern):
    response = refused(admin.post("/rules/", name="x", regex=pattern), 400, "ValidationError", "regex", "RE2")
    assert len(response) > len("regex: this is not a valid RE2 pattern: .")
    rule = make(admin)
    refused(admin.patch(f"/rules/{rule.pk}/", regex=pattern), 400, "ValidationError", "regex")
    assert admin.rows(f"/rules/?name={rule.name}")[0]["regex"] == ""


def test_a_deleted_user_gets_no_rule_and_one_that_is_there_can_be_changed(admin, ann):
    rule, other = make(admin, userId=ann.pk), make(admin, userId=0)
    delete_user(ann)
    for answer in (
        admin.post("/rules/", name="x", userId=ann.pk),
        admin.patch(f"/rules/{other.pk}/", userId=ann.pk),
    ):
        refused(answer, 400, "ValidationError", f"userId: no user with id {ann.pk} that is not deleted.")
    for changes in ({"enabled": False}, {"userId": ann.pk}, {"userId": None}):
        assert admin.patch(f"/rules/{rule.pk}/", **changes).status_code == 200


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ({"userId": 987654}, "userId"),
        ({"groupId": 987654}, "groupId"),
        ({"providerId": 987654}, "providerId"),
        ({"enabled": "true"}, "enabled"),
        ({"effect": "refuse"}, "effect"),
        ({"effect": None}, "effect"),
        ({"position": -1}, "position"),
        ({"position": 1_000_001}, "position"),
        ({"position": "1"}, "position"),
        ({"everyone": "user"}, "everyone"),
        ({"userName": "ann"}, "userName"),
        ({"regex": "x" * 1001}, "regex"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(admin, payload, named):
    refused(admin.post("/rules/", name="x", **payload), 400, "ValidationError", named)
    assert not Rule.objects.exists()


@pytest.mark.exhaustive
def test_wrong_values_are_never_a_fault_of_ours(admin):
    attributes = [
        "name",
        "description",
        "enabled",
        "effect",
        "position",
        "regex",
        "userId",
        "groupId",
        "providerId",
        "id",
    ]
    try_wrong(lambda **sent: admin.post("/rules/", **sent), attributes, lambda: {"name": f"r{next(_numbers)}"})
    rule = make(admin)
    try_wrong(lambda **sent: admin.patch(f"/rules/{rule.pk}/", **sent), attributes, dict)


def test_filters_compare_by_equality(admin, ann, staff, first_provider):
    make(admin, name="ann's", userId=ann.pk)
    make(admin, name="staff's", groupId=staff.pk, providerId=first_provider.pk)
    make(admin, name="every user's", userId=0)
    make(admin, name="every group's", groupId=0)
    make(admin, name="nobody's")
    assert names(admin, f"?userId={ann.pk}") == ["ann's"]
    assert names(admin, "?userId=0") == ["every user's"]
    assert names(admin, f"?groupId={staff.pk}") == ["staff's"]
    assert names(admin, "?groupId=0") == ["every group's"]
    assert names(admin, f"?providerId={first_provider.pk}") == ["staff's"]
    assert len(names(admin, "?providerId=0")) == 4
    assert names(admin, "?name=staff's") == ["staff's"]
    assert names(admin, "?name=staff") == []
    for query in ("userId=x", "allResults=1", "regex=x", "enabled=true"):
        refused(admin.get(f"/rules/?{query}"), 400, "ValidationError", query.partition("=")[0])


def test_all_results_come_without_pages(admin):
    Rule.objects.bulk_create(Rule(name=f"r {number:03}") for number in range(120))
    assert len(names(admin)) == 20
    everything = admin.get("/rules/?allResults=true&page[size]=5").json()
    assert len(everything["data"]) == 120
    assert everything["meta"] == {"totalCount": 120, "pageNumber": 1, "pageSize": 120}
    assert len(names(admin, "?allResults=false&page[size]=5")) == 5


@pytest.mark.parametrize("path", ["/rules/{}/", "/rules/?id={}"])
def test_a_rule_is_deleted(admin, path):
    rule, other = make(admin), make(admin)
    assert admin.delete(path.format(rule.pk)).json() == {}
    assert list(Rule.objects.all()) == [other]
    refused(admin.delete(path.format(rule.pk)), 404, "NotFound")
    refused(admin.delete("/rules/"), 400, "ValidationError", "id")


def test_a_body_that_says_more_than_which_rule_deletes_nothing(admin):
    rule = make(admin)
    for request in (body(name="other"), body(id=rule.pk, enabled=False), {"data": {"id": rule.pk, "name": "other"}}):
        refused(admin.delete(f"/rules/?id={rule.pk}", json=request), 400, "ValidationError")
    assert Rule.objects.exists()
    assert admin.delete("/rules/", json=body(id=rule.pk)).status_code == 200
    assert admin.delete("/rules/", json={"data": {"type": "rules", "id": str(make(admin).pk)}}).status_code == 200


def test_seeing_and_changing_are_two_permissions(nobody, admin):
    rule = make(admin)
    viewer, modifier = nobody.as_user(new_user("rules.view")), nobody.as_user(new_user("rules.modify"))
    assert names(viewer) == [rule.name]
    refused(viewer.post("/rules/", name="x"), 403, "PermissionDenied", "rules.modify")
    assert make(modifier, name="x").pk
    refused(modifier.get("/rules/"), 403, "PermissionDenied", "rules.view")


def test_every_change_is_told_to_the_log(admin):
    rule = make(admin, name="one")
    admin.patch(f"/rules/{rule.pk}/", enabled=False)
    admin.delete(f"/rules/{rule.pk}/")
    created, changed, deleted = LogEntry.objects.order_by("id")
    assert created.message.endswith(f"created rules {rule.pk}: name.")
    assert '"enabled":true' in changed.payload
    assert '"enabled":false' in changed.payload
    assert deleted.message.endswith(f"deleted rules {rule.pk}.")


def test_a_list_costs_the_same_at_any_length(client, ann, staff, first_provider, django_assert_num_queries):
    headers = {"Authorization": f"Bearer {token_of(new_user('rules.view'))}"}
    for size in (1, 10):
        Rule.objects.bulk_create(
            Rule(name=f"r{next(_numbers)}", user=ann, provider=first_provider) for _ in range(size)
        )
        with django_assert_num_queries(5):  # session and user, roles, features; count, page
            client.get("/rules/", headers=headers)


def test_who_may_not_see_rules_finds_out_nothing_by_sending_what_is_only_shown(admin, nobody, ann):
    rule, modifier = make(admin, userId=ann.pk), nobody.as_user(new_user("rules.modify"))
    results = {
        refused(modifier.patch(f"/rules/{rule.pk}/", userName=guess), 400, "ValidationError")
        for guess in ("ann", "eve")
    }
    assert len(results) == 1
    assert "userName: Unknown attribute. Known: name, description, " in results.pop()
