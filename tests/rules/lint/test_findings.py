"""How long it takes to look for problems in a large rule book, with all that has to be read from the database."""

import time
from pathlib import Path

import pytest

from keys.services import issue_key
from providers.models import Model
from providers.services import create_provider
from rules.lint import findings
from rules.lint.findings import find_problems
from rules.lint.fixes import Action
from rules.linter import Problem
from rules.models import Rule
from rules.services import create_rule
from tests.rules.lint.test_reach import large_book
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
KEYS = ("plain", "other model", "linked")
ROOT = Path(__file__).parents[3]


def test_an_unreadable_pattern_is_a_problem(db):
    for effect in ("allow", "deny"):
        Rule.objects.create(name=effect, effect=effect, regex="(", everyone="user")
    unreadable = [finding for finding in find_problems() if "not a valid RE2 pattern" in finding.message]
    assert [finding.problem for finding in unreadable] == [Problem.UNREACHABLE] * 2
    assert [finding.fix.action for finding in unreadable] == [Action.DISABLE_RULE, Action.OPEN_RULE]
    assert "the rule denies every model" in unreadable[1].message


def test_the_documentation_lists_each_problem_and_each_fix():
    rows = [line.split(" | ") for line in (ROOT / "docs/management-api.md").read_text().splitlines() if " | " in line]
    documented = {row[0].strip("| `"): row[2] for row in rows if len(row) == 3}
    assert set(Problem) - {Problem.DISABLED} <= documented.keys()
    fixes = "".join(documented[problem] for problem in Problem if problem != Problem.DISABLED)
    assert all(f"`{action}`" in fixes for action in Action)


def test_a_key_is_judged_one_by_one_only_if_that_matters(monkeypatch):
    """The findings are the same when all keys are loaded."""
    provider = create_provider(name="east", url="http://127.0.0.1:9/v1", format_name="openai", models=["m.1", "m.2"])
    owner, idle = new_user(), new_user()
    create_rule(name="one", user_id=owner.pk, regex=r"m\.1")
    for user in (owner, idle):
        issue_key(owner=user, name="plain")
        issue_key(owner=user, name="other model", models=["m.2"])
        issue_key(owner=user, name="linked", provider_id=provider.pk)
    some = find_problems()
    monkeypatch.setattr(findings, "MAX_IDLE", -1)
    assert find_problems() == some
    named = [finding.message for finding in some if finding.problem == Problem.KEY_WITHOUT_RULES]
    expected = f"Key other model of user {owner.username}:", *(f"Key {one} of user {idle.username}:" for one in KEYS)
    assert [message.partition(" no rule")[0] for message in named] == [*expected]


@pytest.mark.slow
def test_a_large_rule_book_takes_two_seconds(db):
    rules, offers = large_book(10_000, 1000)
    providers = [
        create_provider(name=f"p{number}", url="http://127.0.0.1:9/v1", format_name="openai") for number in range(4)
    ]
    Model.objects.bulk_create(
        Model(provider=providers[target.provider.id], name=target.model) for target in offers.models
    )
    user = new_user()
    Rule.objects.bulk_create(
        Rule(
            name=one.name,
            regex=one.pattern.pattern if one.pattern else "",
            everyone="user" if one.everyone or one.group_id is not None else "",
            user=user if one.user_id is not None else None,
            provider=None if one.provider_id is None else providers[one.provider_id],
            effect="deny" if one.denies else "allow",
        )
        for one in rules
    )
    began = time.process_time()
    problems = find_problems()
    seconds = time.process_time() - began
    assert len(problems) > 1000
    assert seconds < 2
