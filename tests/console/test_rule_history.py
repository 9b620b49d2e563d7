"""The history of rules, the fixes of the linter and files of access tests, in the browser."""

from collections.abc import Iterator

import pytest

from accounts.models import Group
from accounts.services import create_group
from providers.services import create_provider
from rules.access_tests.models import AccessTest
from rules.access_tests.services import create_access_test
from rules.models import Rule, RuleVersion
from rules.services import create_rule, delete_rule, update_rule
from telemetry.audit.models import AuditEntry
from tests.console.conftest import stand_still
from tests.support.management import new_user

LOOKS = pytest.mark.parametrize("look", ["light", "phone"])
REASON = "The former rule was wrong."


@pytest.fixture
def model(orm: None) -> str:
    """A model that nobody else in the console's store may use."""
    number = Rule.objects.count() + RuleVersion.objects.count()
    name = f"history-{number}"
    create_provider(name=name, format_name="openai", url="http://127.0.0.1:9/v1", models=[name])
    return name


@pytest.fixture(autouse=True)
def leave_nothing(orm: None) -> Iterator[None]:
    """What these tests store about access must not reach other tests."""
    yield
    AccessTest.objects.filter(name__startswith="history-").delete()
    Rule.objects.filter(name__startswith="history-").delete()
    Rule.objects.filter(name__startswith="Group history-").delete()
    Group.objects.filter(name__startswith="history-").delete()


def press(page, name: str) -> None:
    page.locator("#main").get_by_role("button", name=name, exact=True).click()
    stand_still(page)


def follow(page, name: str) -> None:
    page.locator("#main").get_by_role("link", name=name, exact=True).click()
    stand_still(page)


def protected_rule(model: str) -> tuple[Rule, AccessTest]:
    """A rule that denied somebody a model in its first version, and a test that the person may use it."""
    ann = new_user()
    rule = create_rule(name=f"{model} denied", user_id=ann.pk, regex=model, effect="deny")
    update_rule(rule, name=f"{model} allowed", effect="allow")
    return rule, create_access_test(name=model, user_id=ann.pk, model=model)


def test_two_versions_are_compared_by_the_form_and_one_is_restored(console, model):
    rule = create_rule(name=model, user_id=0, regex=model)
    update_rule(rule, regex="second")
    update_rule(rule, regex="third")
    window = console()
    page = window.page
    window.open(f"rules/rule/{rule.pk}/change/")
    follow(page, "Versions of this rule")
    comparison = page.get_by_role("region", name="Comparison of two versions")
    assert comparison.locator("thead th").all_inner_texts()[1:] == ["Version 2", "Version 3"]
    page.get_by_label("Compare version 1").check()
    page.get_by_label("with version 2").check()
    press(page, "Compare")
    assert comparison.locator("thead th").all_inner_texts()[1:] == ["Version 1", "Version 2"]
    assert comparison.locator("strong").all_inner_texts() == ["second"]
    assert window.check_looks() == {}
    follow(page, "Restore version 1")
    assert "The rule becomes what it was in this version" in page.inner_text("#main")
    assert window.check_looks() == {}
    press(page, "Restore")
    assert "The rule is restored to version 1." in page.inner_text("body")
    assert page.input_value("#id_regex") == model
    assert window.check_looks() == {}
    rule.refresh_from_db()
    assert (rule.regex, RuleVersion.objects.of(rule.pk)[0].change) == (model, "restore")


def test_a_deleted_rule_is_found_and_restored(console, model):
    rule = create_rule(name=model, user_id=0, regex=model)
    number = rule.pk
    delete_rule(rule)
    window = console()
    page = window.page
    window.open("rules/rule/")
    follow(page, "Deleted rules")
    assert window.check_looks() == {}
    follow(page, model)
    assert "The rule is deleted." in page.inner_text("#main")
    assert window.check_looks() == {}
    follow(page, "Restore version 2")
    press(page, "Restore")
    assert page.url.endswith(f"/rules/rule/{number}/change/")
    assert Rule.objects.get(pk=number).regex == model


def test_a_restoration_that_breaks_an_access_test_asks_for_a_reason(console, model):
    rule, test = protected_rule(model)
    window = console()
    page = window.page
    window.open(f"rules/rule/{rule.pk}/versions/")
    follow(page, "Restore version 1")
    with page.expect_response(lambda response: response.url.endswith("/restore/")) as answer:
        press(page, "Restore")
    assert answer.value.status == 409
    assert "would fail after the change. Nothing was saved." in page.inner_text("#main")
    assert page.locator(f"#main a[href='/admin/rules/accesstest/{test.pk}/change/']").count() == 1
    # The browser reports the answer 409 itself.
    assert window.problems
    assert all("409" in problem for problem in window.problems)
    window.problems.clear()
    assert window.check_looks() == {}
    assert Rule.objects.get(pk=rule.pk).effect == "allow"
    page.fill("#id_override_reason", REASON)
    press(page, "Make the change anyway")
    assert "The rule is restored to version 1." in page.inner_text("body")
    assert Rule.objects.get(pk=rule.pk).effect == "deny"
    assert REASON in AuditEntry.objects.filter(action="override").latest("pk").message
    assert window.check_looks() == {}


@pytest.mark.timeout(300)  # many pages, each in three looks
def test_a_press_fixes_a_problem(console, model):
    rule = create_rule(name=model, user_id=0, regex="nosuch")
    group = create_group(name=model)
    window = console()
    page = window.page
    window.open("rules/rule/")
    follow(page, "Find problems")
    assert window.check_looks() == {}
    row = page.locator("#main tr", has_text=f"Rule {model}:")
    row.get_by_role("button", name="Disable the rule").click()
    stand_still(page)
    assert "Done: Disable the rule." in page.inner_text("body")
    assert row.count() == 0
    assert window.check_looks() == {}
    rule.refresh_from_db()
    assert not rule.enabled
    addresses = []
    for sentence in ("is prepared. The rule is not enabled", "was prepared before. The rule is not enabled"):
        window.open("rules/rule/lint/")
        page.locator("#main tr", has_text=f"Group {model}:").get_by_role("button").click()
        stand_still(page)
        assert sentence in page.inner_text("body")
        assert window.check_looks() == {}
        addresses.append(page.url)
    prepared = Rule.objects.get(group=group)
    assert addresses == [f"{window.url}/admin/rules/rule/{prepared.pk}/change/"] * 2
    assert not prepared.enabled


def test_access_tests_are_exported_as_a_file_and_imported_from_one(console, model):
    _, test = protected_rule(model)
    window = console()
    page = window.page
    window.open("rules/accesstest/")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as YAML").click()
    assert download.value.suggested_filename == "access-tests.yaml"
    exported = download.value.path().read_bytes()
    assert f"name: {model}".encode() in exported
    assert AuditEntry.objects.latest("pk").action == "export"
    test.delete()
    window.open("rules/accesstest/")
    follow(page, "Import")
    page.set_input_files("#id_file", {"name": "wrong.yaml", "mimeType": "application/yaml", "buffer": b"["})
    press(page, "Import")
    assert page.locator("#main [role=alert]").count() == 1
    assert window.check_looks() == {}
    page.set_input_files("#id_file", {"name": "tests.yaml", "mimeType": "application/yaml", "buffer": exported})
    assert page.input_value("#import_form input[type=text]") == "tests.yaml"
    press(page, "Import")
    assert page.url.endswith("/admin/rules/accesstest/")
    assert model in page.inner_text("#result_list")
    assert window.check_looks() == {}
    assert AccessTest.objects.get(name=model).model == model
