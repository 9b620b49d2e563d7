"""Access tests in the browser: made, broken, and broken for a reason."""

from providers.services import create_provider
from rules.access_tests.models import AccessTest
from rules.models import Rule
from rules.services import create_rule
from telemetry.audit.models import AuditEntry
from tests.console.conftest import stand_still
from tests.console.test_flows import choose, submit
from tests.support.management import new_user


def test_a_rule_that_a_test_protects_is_changed_for_a_reason(console):
    ann = new_user(username="protected-ann")
    create_provider(name="protected", url="https://api.example.org", format_name="openai", models=["protected-1"])
    rule = create_rule(name="Protected", user_id=ann.pk, regex="protected-.*")
    window = console()
    page = window.page
    window.open("rules/accesstest/add/")
    page.fill("#id_name", "Ann may")
    choose(page, "user", "protected-ann")
    page.fill("#id_model", "protected-1")
    submit(page)
    test = AccessTest.objects.get(name="Ann may")
    try:
        window.open("rules/accesstest/")
        assert "holds" in page.locator("#result_list").inner_text().lower()
        window.open(f"rules/rule/{rule.pk}/change/")
        page.fill("#id_regex", "other")
        submit(page)
        assert "The change breaks access tests" in page.inner_text("body")
        assert page.locator(f"a[href='/admin/rules/accesstest/{test.pk}/change/']").count() == 1
        assert window.check() == []
        assert Rule.objects.get(pk=rule.pk).regex == "protected-.*"
        page.fill("#id_override_reason", "Ann has left.")
        submit(page)
        assert Rule.objects.get(pk=rule.pk).regex == "other"
        assert "Ann has left." in AuditEntry.objects.filter(action="override").latest("pk").message
        window.open("rules/accesstest/run/")
        assert "No rule allows protected-ann to use the model protected-1." in page.inner_text("body")
        assert window.check() == []
        stand_still(page)
    finally:
        test.delete()
        rule.delete()
