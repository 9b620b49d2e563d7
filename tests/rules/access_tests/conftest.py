"""A provider with a model, ann who may use it by a rule, and a group that may not."""

from types import SimpleNamespace

import pytest

from accounts.services import create_group
from providers.services import create_provider
from rules.access_tests.services import create_access_test
from rules.services import create_rule
from tests.support.management import new_user


@pytest.fixture
def scene(db):
    """ann may use gpt-5 by a rule, and a test says so; the interns may not, and a test says so."""
    provider = create_provider(
        name="openai", url="https://api.example.org/v1", format_name="openai", models=["gpt-5", "gpt-5-mini"]
    )
    ann, interns = new_user(username="ann"), create_group(name="interns")
    rule = create_rule(name="Ann", user_id=ann.pk, regex="gpt-5.*")
    return SimpleNamespace(
        provider=provider,
        ann=ann,
        interns=interns,
        rule=rule,
        allowed=create_access_test(name="Ann may", user_id=ann.pk, model="gpt-5"),
        denied=create_access_test(name="Interns may not", group_id=interns.pk, model="gpt-5", expected="denied"),
    )
