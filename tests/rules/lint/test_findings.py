"""How long it takes to look for problems in a large rule book, with all that has to be read from the database."""

import time

import pytest

from providers.models import Model
from providers.services import create_provider
from rules.lint.findings import find_problems
from rules.linter import Problem
from rules.models import Rule
from tests.rules.lint.test_reach import large_book
from tests.support.management import new_user

pytestmark = pytest.mark.django_db


def test_an_unreadable_pattern_is_a_problem(db):
    for effect in ("allow", "deny"):
        Rule.objects.create(name=effect, effect=effect, regex="(", everyone="user")
    unreadable = [finding for finding in find_problems() if "not a valid RE2 pattern" in finding.message]
    assert [finding.problem for finding in unreadable] == [Problem.UNREACHABLE] * 2


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
    findings = find_problems()
    seconds = time.process_time() - began
    assert len(findings) > 1000
    assert seconds < 2
