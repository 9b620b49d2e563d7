"""Rules in the console: what the API refuses is refused there too, beside the field."""

import re
from html import unescape

import pytest

from accounts.services import create_group, delete_group, delete_user, update_group, update_user
from keys.services import issue_key, update_key
from providers.services import create_provider, update_provider
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias
from rules.models import MAX_DESCRIPTION_LENGTH, MAX_PATTERN_LENGTH, Rule
from rules.preview import warnings_of
from rules.services import create_rule
from tests.support.console.forms import fields_of
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def added(console, **fields):
    return console.post("/admin/rules/rule/add/", {"name": "all", "audience": "everyone", "effect": "allow", **fields})


@pytest.mark.parametrize(("field", "longest"), [("description", MAX_DESCRIPTION_LENGTH), ("regex", MAX_PATTERN_LENGTH)])
def test_a_rule_has_the_bounds_of_the_api(console, field, longest):
    answer = added(console, **{field: "x" * (longest + 1)})
    assert list(answer.context["adminform"].form.errors) == [field]
    assert not Rule.objects.exists()
    assert added(console, **{field: "x" * longest}).status_code == 302


def test_a_form_says_at_once_all_that_is_wrong(console):
    errors = added(console, name="", audience="user", regex="(").context["adminform"].form.errors
    assert errors.keys() == {"name", "user", "regex"}
    assert errors["regex"][0].startswith("This is not a valid RE2 pattern")


def test_the_list_says_which_rules_let_nobody_through(console):
    create_provider(name="p", format_name="openai", url="http://127.0.0.1:9/v1", models=["gpt-5"])
    ann, group = new_user(), create_group(name="staff")
    create_rule(name="all", user_id=0)
    for name, fields in {
        "hidden": {"user_id": ann.pk, "regex": "gpt.*"},
        "off": {"user_id": 0, "enabled": False},
        "idle": {"user_id": 0, "regex": "claude.*"},
        "empty": {"group_id": group.pk},
        "nobody": {},
    }.items():
        create_rule(name=name, **fields)
    Rule.objects.create(name="broken", everyone="user", regex="(")
    page = console.get("/admin/rules/rule/")
    values = {
        rule.name: " ".join(problem.message for problem in rule.warnings) for rule in page.context["cl"].result_list
    }
    assert all(sentences in unescape(page.text) for sentences in values.values())
    assert values["all"] == ""
    assert values["hidden"] == "The rule has no effect: 'all' allows the same requests before it."
    assert values["off"].startswith("The rule is not enabled.")
    assert values["idle"] == "No model or alias of an enabled provider matches: the rule currently allows nothing."
    assert values["empty"].startswith("The group has no members.")
    assert values["nobody"] == "The rule applies to nobody: choose a user, a group or everyone."
    assert values["broken"].startswith("This is not a valid RE2 pattern")


@pytest.mark.long
def test_a_linked_key_may_use_any_model_that_the_rule_matches(console):
    provider = create_provider(name="east", format_name="openai", url="http://127.0.0.1:9/v1", models=["gpt-5"])
    ann, ben = new_user(), new_user()
    group = create_group(name="staff", member_ids=[ann.pk])
    rules = {
        "ann": create_rule(name="ann", user_id=ann.pk, regex="claude.*"),
        "ben": create_rule(name="ben", user_id=ben.pk, regex="claude.*"),
        "staff": create_rule(name="staff", group_id=group.pk, regex="claude.*"),
        "all": create_rule(name="all", user_id=0, regex="claude.*"),
    }

    def shown_warnings() -> dict[str, bool]:
        """Of each rule, whether it is said to allow nothing."""
        problems = warnings_of(list(rules.values()))
        return {
            name: any("allows nothing" in one.message for one in result)
            for name, result in zip(rules, problems, strict=True)
        }

    assert shown_warnings() == dict.fromkeys(rules, True)
    key = issue_key(owner=ann, name="linked", provider=provider).key
    assert shown_warnings() == {"ann": False, "ben": True, "staff": False, "all": False}
    path = f"/admin/rules/rule/preview/?name=r&regex=claude.*&audience=user&user={ann.pk}"
    page = console.get(path).text
    assert "every model name that it matches" in page
    assert "east" in page
    assert "allows nothing" not in page
    assert "allows nothing" in console.get(path.replace(f"user={ann.pk}", f"user={ben.pk}")).text
    update_provider(provider, enabled=False)
    assert shown_warnings() == dict.fromkeys(rules, True)
    update_provider(provider, enabled=True)
    update_key(key, locked=True)
    assert shown_warnings() == dict.fromkeys(rules, True)


def test_a_rule_for_somebody_who_cannot_come_any_more_says_so(console):
    ann, ben = new_user(username="ann"), new_user(username="ben")
    group = create_group(name="gone", member_ids=[ann.pk, ben.pk])
    create_rule(name="r1", user_id=ann.pk)
    create_rule(name="r2", user_id=ben.pk)
    assert "The user is" not in console.get("/admin/rules/rule/").text
    delete_user(ann)
    update_user(ben, is_active=False)
    listed = console.get("/admin/rules/rule/").text
    assert "The user is deleted: the rule allows nobody." in listed
    assert "The user is inactive: the rule allows nobody." in listed
    previewed = "/admin/rules/rule/preview/?name=r&audience="
    assert "The user is deleted" in console.get(f"{previewed}user&user={ann.pk}").text
    assert "The user is inactive" in console.get(f"{previewed}user&user={ben.pk}").text
    assert "The group has no usable members." in console.get(f"{previewed}group&group={group.pk}").text


def test_the_list_asks_once_about_the_members_of_all_groups(console, django_assert_num_queries):
    ben = new_user()
    groups = [create_group(name=name, member_ids=ids) for name, ids in (("a", [ben.pk]), ("b", []), ("c", [ben.pk]))]
    rules = [create_rule(name=group.name, group_id=group.pk) for group in groups]
    update_user(ben, is_active=False)
    with django_assert_num_queries(6):  # and about groups below, the models, aliases, linked keys, the other rules
        results = [" ".join(problem.message for problem in problems) for problems in warnings_of(rules)]
    assert [sentence.partition(".")[0] for sentence in results] == [
        "The group has no usable members", "The group has no members", "The group has no usable members",
    ]  # fmt: skip


def test_members_of_groups_below_are_members(db):
    above, ann = create_group(name="above"), new_user(username="ann")
    team = create_group(name="team", member_ids=[ann.pk], parent_id=above.pk)
    rule = create_rule(name="r", group_id=above.pk)
    assert not any("no members" in problem.message for problem in warnings_of([rule])[0])
    update_user(ann, is_active=False)
    assert any("members" in problem.message for problem in warnings_of([rule])[0])
    update_group(team, parent_id=None)
    assert any("no members" in problem.message for problem in warnings_of([rule])[0])


@pytest.mark.long
def test_a_rule_whose_group_is_gone_can_be_changed_and_given_to_another(console):
    group, other, ann = create_group(name="gone"), create_group(name="other"), new_user()
    rule = create_rule(name="r1", group_id=group.pk)
    delete_group(group)
    path = f"/admin/rules/rule/{rule.pk}/change/"
    fields = fields_of(console.get(path).text)
    assert fields["audience"] == ["nobody"]
    assert console.post(path, fields | {"name": "r2"}).status_code == 302
    rule.refresh_from_db()
    assert (rule.name, rule.for_nobody) == ("r2", True)
    for kind, whom in (("group", other), ("user", ann)):
        fields = fields_of(console.get(path).text)
        assert console.post(path, fields | {"audience": kind, kind: whom.pk}).status_code == 302
        rule.refresh_from_db()
        assert getattr(rule, kind) == whom


def test_a_rule_that_denies_says_what_it_denies_and_what_is_left_to_others(console):
    create_provider(name="p", format_name="openai", url="http://127.0.0.1:9/v1", models=["gpt-5", "claude"])
    create_rule(name="all", user_id=0)
    assert added(console, name="no", enabled="on", effect="deny", regex="gpt.*").status_code == 302
    rule = Rule.objects.get(name="no")
    assert (rule.denies, rule.everyone) == (True, "user")
    page = console.get(f"/admin/rules/rule/{rule.pk}/delete/").text
    assert "the rules that allow decide about requests that only this rule denied" in page
    query = f"/admin/rules/rule/preview/?rule={rule.pk}&name=no&enabled=on&audience=everyone&regex="
    assert "It denies 1 model:" in console.get(f"{query}gpt.*&effect=deny").text
    preview = console.get("/admin/rules/rule/preview/?name=new&enabled=on&audience=everyone&regex=&effect=allow").text
    assert "It allows 1 model:" in preview
    assert "claude" in preview
    query = "/admin/rules/rule/preview/?name=new&enabled=on&audience=everyone&regex=gpt.*&effect=allow"
    denied = console.get(query).text
    assert "Rules that deny refuse everything that the rule matches: the rule currently allows nothing." in denied


def test_the_preview_names_the_aliases_that_a_rule_covers(console):
    provider = create_provider(name="p", format_name="openai", url="http://127.0.0.1:9/v1", models=["gpt-5"])
    for name in ("fast", "my-*"):
        create_alias(name=name, targets=[TargetDraft(provider.pk, "gpt-5")])
    query = "/admin/rules/rule/preview/?name=new&enabled=on&audience=everyone"
    allows = console.get(f"{query}&regex=fast|my-own&effect=allow").text
    assert "It allows the names of 2 aliases, for targets that rules also allow by their own names:" in allows
    assert ">fast</a></li>" in allows
    assert "my-*" in allows
    assert "nothing" not in allows
    assert "It denies the name of 1 alias:" in console.get(f"{query}&regex=fast&effect=deny").text
    assert "alias" not in console.get(f"{query}&regex=gpt-5&effect=allow").text


def test_no_rule_is_made_for_nobody(console):
    assert "nobody" not in fields_of(console.get("/admin/rules/rule/add/").text)["audience"]
    assert list(added(console, audience="nobody").context["adminform"].form.errors) == ["audience"]


@pytest.mark.long
@pytest.mark.parametrize(("enabled", "button", "other"), [(True, "disable", "enable"), (False, "enable", "disable")])
def test_a_button_says_whether_it_enables_or_disables(console, enabled, button, other):
    rule = create_rule(name="r", user_id=0, enabled=enabled)
    page = console.get(f"/admin/rules/rule/{rule.pk}/change/").text
    assert f"/{rule.pk}/{button}/" in page
    assert f"/{rule.pk}/{other}/" not in page
    console.post(f"/admin/rules/rule/{rule.pk}/{button}/")
    rule.refresh_from_db()
    assert rule.enabled is not enabled


def test_a_rule_that_hides_another_is_opened_from_the_warning(console, ann):
    first = create_rule(name="first", user_id=ann.pk)
    create_rule(name="second", user_id=ann.pk, regex="gpt.*")
    create_provider(name="p", url="https://a.example", format_name="openai", models=["gpt-1"])
    link = rf'<a [^>]*href="/admin/rules/rule/{first.pk}/change/"[^>]*>Open first</a>'
    assert re.search(link, console.get("/admin/rules/rule/").text)
    path = f"/admin/rules/rule/preview/?name=third&regex=gpt.*&audience=user&user={ann.pk}&enabled=on"
    assert re.search(link, console.get(path).text)
