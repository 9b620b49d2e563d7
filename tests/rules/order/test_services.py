"""Rules that move: in their order alone, recorded, and watched by the access tests."""

import json

import pytest

from accounts.services import create_group
from gateway_project.errors import NotFound, ValidationError
from rules.models import Rule, RuleVersion
from rules.order.services import Direction, move_rule
from rules.services import create_rule
from telemetry.models import AuditEntry

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture
def rules() -> dict[str, Rule]:
    rules = {name: create_rule(name=name, user_id=0) for name in "abcd"}
    return rules | {"deny": create_rule(name="deny", effect="deny", regex="none")}


def names() -> str:
    return " ".join(Rule.objects.in_order_of_judging().values_list("name", flat=True))


def test_a_rule_moves_by_one_place_and_not_past_the_ends(rules):
    assert names() == "deny a b c d"
    move_rule(rule_id=rules["c"].pk, direction=Direction.UP)
    assert names() == "deny a c b d"
    move_rule(rule_id=rules["a"].pk, direction=Direction.UP)
    move_rule(rule_id=rules["d"].pk, direction=Direction.DOWN)
    move_rule(rule_id=rules["deny"].pk, direction=Direction.DOWN)
    assert names() == "deny a c b d"


def test_a_rule_moves_beside_another_and_only_what_changes_gets_a_version(rules):
    moved = move_rule(rule_id=rules["d"].pk, direction=Direction.BEFORE, neighbour_id=rules["b"].pk)
    assert names() == "deny a d b c"
    assert {one.rule.name: (one.former_position, one.rule.position) for one in moved} == {
        "a": (100, 99),
        "d": (100, 99),
    }
    assert RuleVersion.objects.of(rules["d"].pk)[0].changes == {"position": [100, 99]}
    assert RuleVersion.objects.of(rules["b"].pk).count() == 1
    move_rule(rule_id=rules["a"].pk, direction=Direction.AFTER, neighbour_id=rules["c"].pk)
    assert names() == "deny d b c a"


def test_however_many_rules_give_way_the_queries_are_few(rules, django_assert_max_num_queries):
    Rule.objects.bulk_create(Rule(name=f"rule {number}", everyone="user") for number in range(400))
    last = Rule.objects.get(name="rule 200")
    with django_assert_max_num_queries(20):
        moved = move_rule(rule_id=last.pk, direction=Direction.UP)
    assert len(moved) > 190
    assert {(one.former_position, one.rule.position) for one in moved if one.rule != last} == {(100, 101)}
    versions = RuleVersion.objects.of(moved[-1].rule.pk).values_list("change", "attributes__position")
    assert list(versions) == [("update", 101), ("initial", 100)]
    names_in_order = list(Rule.objects.in_order_of_judging().values_list("name", flat=True))
    assert names_in_order[203:207] == ["rule 198", "rule 200", "rule 199", "rule 201"]


def test_a_rule_stays_among_those_of_its_effect(rules):
    for neighbour_id in (rules["deny"].pk, rules["a"].pk, 10**9):
        with pytest.raises(ValidationError, match="with the same effect"):
            move_rule(rule_id=rules["a"].pk, direction=Direction.BEFORE, neighbour_id=neighbour_id)
    with pytest.raises(NotFound):
        move_rule(rule_id=10**9, direction=Direction.UP)


def test_a_rule_of_an_admin_of_the_group_stays_theirs(rules):
    group = create_group(name="staff")
    own = create_rule(name="own", effect="deny", group_id=group.pk, is_delegated=True)
    move_rule(rule_id=own.pk, direction=Direction.UP)
    assert names() == "own deny a b c d"
    assert Rule.objects.get(pk=own.pk).is_delegated


class TestConsole:
    def test_a_button_moves_a_rule_and_the_list_stays_filtered(self, console, rules):
        page = console.get("/admin/rules/rule/?effect__exact=allow")
        address = "/admin/rules/rule/move/?effect__exact=allow"
        assert f'formaction="{address}"' in page.text
        answer = console.post(address, {"move": f"{rules['c'].pk}-up"})
        assert (answer.status_code, answer.url) == (302, "/admin/rules/rule/?effect__exact=allow")
        assert names() == "deny a c b d"
        own, others = AuditEntry.objects.filter(resource="rules", action="update").order_by("id")
        assert [json.loads(text)["position"] for text in (own.before, own.after)] == [100, 99]
        assert json.loads(others.before) == {"positions": {str(rules["a"].pk): 100}}
        assert json.loads(others.after) == {"positions": {str(rules["a"].pk): 99}}

    def test_a_list_that_another_column_sorts_has_no_buttons(self, console, rules):
        assert "formaction" not in console.get("/admin/rules/rule/?o=2").text

    @pytest.mark.parametrize("move", ["", "1", "1-left", "x-up", "1-before-", "1-before-x", f"{10**30}-up"])
    def test_what_is_no_move_is_not_found(self, console, rules, move):
        assert console.post("/admin/rules/rule/move/", {"move": move}).status_code == 404
        assert names() == "deny a b c d"

    def test_a_move_beside_a_rule_of_another_effect_says_why_not(self, console, rules):
        move = f"{rules['a'].pk}-before-{rules['deny'].pk}"
        page = console.post("/admin/rules/rule/move/", {"move": move}, follow=True)
        assert "rules that deny are checked first" in page.text

    def test_the_form_has_the_position(self, console, rules):
        fields = {"name": "new", "audience": "everyone", "effect": "allow", "position": "7"}
        assert console.post("/admin/rules/rule/add/", fields).status_code == 302
        assert names() == "deny new a b c d"
        answer = console.post("/admin/rules/rule/add/", {**fields, "name": "other", "position": "-1"})
        assert list(answer.context["adminform"].form.errors) == ["position"]
