"""The order of what the search finds: an exact match is never hidden by others that are older."""

import pytest

from accounts.models import Group
from accounts.services import create_user
from gateway_project.console.search.finding import OF_EACH_KIND, find
from keys.services import issue_key
from providers.services import create_provider
from rules.aliases.services import create_alias
from rules.services import create_rule
from telemetry.journal.batches import insert_log_entries
from tests.telemetry.conftest import entry

pytestmark = pytest.mark.django_db
OLDER = [*(f"with-fast-{number}" for number in range(OF_EACH_KIND)), "fast-2"]  # what contains it, what begins with it


def titles(kind: str, text: str = "fast") -> list[str]:
    return [result.title for result in find(text) if result.kind == kind]


def new_provider(name: str, *models: str):
    return create_provider(name=name, url="https://provider.example", format_name="openai", models=models)


class TestEachKind:
    """Ask for `fast`, whose row is the youngest of many that contain it."""

    def test_groups(self):
        for name in (*OLDER, "Fast"):
            Group.objects.create(name=name)
        assert titles("Group") == ["Fast", "fast-2", *OLDER[:3]]

    def test_users(self):
        for name in (*OLDER, "Fast"):
            create_user(username=name, password="a long pass phrase")
        assert titles("User") == ["Fast", "fast-2", *OLDER[:3]]

    def test_keys_by_their_names(self, ann):
        ids = {name: issue_key(owner=ann, name=name).key.public_id for name in (*OLDER, "fast")}
        assert titles("API key") == [f"{name} ({ids[name]})" for name in ("fast", "fast-2", *OLDER[:3])]

    def test_providers(self):
        for name in (*OLDER, "fast"):
            new_provider(name)
        assert titles("Provider") == ["fast", "fast-2", *OLDER[:3]]

    def test_models(self):
        new_provider("p", *OLDER, "fast")
        assert titles("Model") == [f"{name} of p" for name in ("fast", "fast-2", *OLDER[:3])]

    def test_rules(self):
        for name in (*OLDER, "fast"):
            create_rule(name=name, user_id=0)
        assert titles("Rule") == ["fast", "fast-2", *OLDER[:3]]

    def test_aliases(self):
        for name in (*OLDER, "fast"):
            create_alias(name=name)
        assert titles("Alias") == ["fast", "fast-2", *OLDER[:3]]

    def test_request_ids(self, ann):
        insert_log_entries([entry("fast"), entry("with-fast-1")])
        assert titles("Request") == ["fast"]

    def test_pages(self):
        assert titles("Page", "rules")[0] == "Rules"


def test_what_is_named_exactly_stands_before_all_other_kinds():
    Group.objects.create(name="models")
    for name in ("models", "rules"):
        create_rule(name=name, user_id=0)
    insert_log_entries([entry("models")])
    results = [(result.kind, result.title) for result in find("models")]
    assert results[:4] == [("Page", "Models"), ("Group", "models"), ("Rule", "models"), ("Request", "models")]
