"""Forms that a link of the console's own fills in, and nobody else's."""

from urllib.parse import parse_qs, urlsplit

import pytest
from django.core import signing

from accounts.models import User
from gateway_project.console.forms.prefill import MAX_AGE_SECONDS, prefilled_form, prefilled_values
from providers.services import create_provider
from rules.aliases.services import TargetDraft, create_alias
from rules.models import Rule
from telemetry.log_page.links import rule_form
from telemetry.models import LogEntry
from tests.me.test_pages import logged
from tests.support.console.forms import fields_of
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def denied(user: User, **values: str) -> LogEntry:
    return logged(user, **{"outcome": "denied", "status": 403, "exception": "RuleDenied"} | values)


def test_a_request_that_no_rule_allowed_leads_to_the_form_of_a_rule_that_allows_it(console):
    ann = new_user(username="ann")
    entry = denied(ann, model="gpt-4.1")
    page = console.get(f"/admin/telemetry/logentry/{entry.pk}/change/")
    [address] = [link.page for link in page.context["entry_links"] if link.name == "Allow such requests"]
    console.post(address, fields_of(console.get(address).text))
    rule = Rule.objects.get()
    assert (rule.name, rule.regex, rule.user, rule.enabled) == ("gpt-4.1 for ann", r"gpt-4\.1", ann, True)


def test_other_requests_do_not(db):
    ann = new_user()
    assert not rule_form(denied(ann, exception="PermissionDenied"))  # the key has its own models
    assert not rule_form(denied(ann, user_id=None))


def fields(entry: LogEntry) -> dict:
    return prefilled_values("rules_rule", {"prefill": parse_qs(urlsplit(rule_form(entry)).query)["prefill"][0]})


def test_the_pattern_is_what_rules_judge(db):
    """Of `provider/model` the model, of an alias its name; and it matches nothing else."""
    ann = new_user()
    west = create_provider(name="west", url="https://api.example.org", models=["large-2"], format_name="openai")
    create_alias(name="west/fast", targets=[TargetDraft(provider_id=west.pk, model="large-2")])
    assert fields(denied(ann, model="west/large-2"))["regex"] == "large-2"
    assert fields(denied(ann, model="west/fast", alias="west/fast"))["regex"] == "west/fast"
    assert fields(denied(ann, model=".*"))["regex"] == r"\.\*"
    assert len(fields(denied(ann, model="m" * 150))["name"]) == 100


@pytest.mark.parametrize(
    "query",
    [
        {"name": "x", "regex": ".*", "audience": "everyone"},
        {"prefill": "eyJuYW1lIjoieCJ9:1:x"},
        {"prefill": signing.dumps({"name": "x"}, salt="prefill accounts_user")},
    ],
)
def test_no_other_link_fills_in_a_form(console, query):
    form = console.get("/admin/rules/rule/add/", query).context["adminform"].form
    assert not form["name"].value()
    assert not form["regex"].value()


def test_an_old_link_fills_in_nothing(monkeypatch):
    now = signing.time.time()
    address = prefilled_form("rules_rule", {"name": "x"})
    query = {"prefill": parse_qs(urlsplit(address).query)["prefill"][0]}
    assert prefilled_values("rules_rule", query) == {"name": "x"}
    monkeypatch.setattr(signing.time, "time", lambda: now + MAX_AGE_SECONDS + 2)
    assert prefilled_values("rules_rule", query) == {}
