"""The order of what the search finds: an exact match is never hidden by others that are older."""

from datetime import timedelta

import pytest
from django.contrib import admin
from django.urls import reverse

from accounts.models import Group
from accounts.services import create_user
from gateway_project.console.search.finding import OF_EACH_KIND, find_rows
from gateway_project.console.site import console_site
from keys.models import ApiKey
from keys.services import delete_keys, issue_key, rotate_key
from providers.services import create_provider
from rules.aliases.services import create_alias
from rules.services import create_rule
from telemetry.journal.batches import insert_log_entries
from tests.telemetry.conftest import entry

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
OLDER = [*(f"with-fast-{number}" for number in range(OF_EACH_KIND)), "fast-2"]  # what contains it, what begins with it


def titles(kind: str, text: str = "fast") -> list[str]:
    return [result.title for result in find_rows(text) if result.kind == kind]


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
    results = [(result.kind, result.title) for result in find_rows("models")]
    assert results[:4] == [("Page", "Models"), ("Group", "models"), ("Rule", "models"), ("Request", "models")]


class TestKeysByWhatIsKnownOfThem:
    @pytest.fixture
    def deleted(self, ann):
        """A key that was deleted, with its whole text."""
        issued = issue_key(owner=ann, name="old laptop")
        delete_keys([issued.key])
        return issued

    def test_a_deleted_key_is_found_by_its_whole_text_and_by_its_id(self, deleted):
        for text in (deleted.text, deleted.key.public_id):
            [result] = [result for result in find_rows(text) if result.kind == "API key"]
            assert result.address == f"/admin/keys/apikey/{deleted.key.pk}/change/"
            assert result.badge.text == "Deleted"

    def test_a_deleted_key_is_found_by_its_former_id(self, ann):
        issued = issue_key(owner=ann, name="rotated")
        rotated = rotate_key(issued.key, overlap=timedelta(days=1)).key
        delete_keys([rotated])
        ApiKey.objects.filter(pk=rotated.pk).update(former_public_id="0123456789")
        assert titles("API key", "0123456789") == [str(rotated)]

    def test_a_deleted_key_is_not_found_by_its_name(self, deleted):
        assert titles("API key", "old laptop") == []

    def test_a_key_is_found_by_its_number_once(self, ann, deleted):
        number = deleted.key.pk
        for text in (str(number), f"keys {number}", f"Key {number}"):
            assert titles("API key", text) == [str(deleted.key)]
        key = issue_key(owner=ann, name="named").key
        ApiKey.objects.filter(pk=key.pk).update(name=str(key.pk))
        assert titles("API key", str(key.pk)).count(f"{key.pk} ({key.public_id})") == 1

    def test_numbers_that_no_row_can_have_find_nothing(self, deleted):
        assert titles("API key", "9" * 30) == []
        assert titles("API key", "0") == []


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("find problems", "Find problems of the rules"),
        ("deleted", "Deleted rules"),
        ("messages", "Messages of the log"),
        ("live", "Live log"),
        ("audit chain", "Verify the audit chain"),
        ("import", "Import access tests"),
        ("run", "Run access tests"),
        ("usage of", "Usage of guardrails"),
        ("samples", "Samples of guardrails"),
        ("features", "Features"),
        ("all access", "All access requests"),
    ],
)
def test_pages_that_the_side_bar_does_not_list_are_found_and_open(console, text, title):
    [address] = [result.address for result in find_rows(text) if result.title == title]
    assert console.get(address).status_code == 200


def test_each_list_and_each_page_without_arguments_is_found():
    """Only the steps of "Your second factor" are not: they are pages behind its buttons."""
    site = console_site()
    lists = [f"{model._meta.app_label}_{model._meta.model_name}_changelist" for model in admin.site._registry]
    routes = {name: route for name, (route, _) in site._pages.items() if route not in site.parts and "<" not in route}
    pages = [name for name in routes if not name.startswith("second-factor-")]
    addresses = {result.address for result in find_rows("") if result.kind == "Page"}
    assert len(lists) > 20
    assert [name for name in (*lists, *pages) if reverse(f"admin:{name}") not in addresses] == []
