"""The Log tabs of keys and models, and filters by names: they show what belongs to the row, whatever it was called."""

import pytest

from keys.services import delete_keys, issue_key, update_key
from providers.services import create_provider
from telemetry.log_page import row_filters
from telemetry.models import LogEntry
from tests.support.management import new_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def log_of(console):
    """Follows the Log tab on the page of a row: the request ids of the list."""

    def read(page: str) -> list[str]:
        row_page = console.get(page)
        [tab] = [tab for tab in row_page.context["row_tabs"] if tab.title == "Log"]
        answer = console.get(tab.address)
        assert answer.status_code == 200
        return [entry.correlation_id for entry in answer.context["cl"].result_list]

    return read


def entry(request_id: str, **values: object) -> None:
    LogEntry.objects.create(entry_type="WorkRequest", correlation_id=request_id, **values)


def entry_of(key, request_id: str) -> None:
    entry(request_id, user_id=key.owner_id, username=key.owner.username, key_id=key.pk, key_name=key.name)


@pytest.mark.long
def test_a_renamed_key_keeps_its_entries(log_of, ann):
    key = issue_key(owner=ann, name="before").key
    entry_of(key, "old")
    update_key(key, new_name="after")
    entry_of(key, "new")
    assert log_of(f"/admin/keys/apikey/{key.pk}/change/") == ["new", "old"]


def test_a_key_has_none_of_a_deleted_key_of_its_name(log_of, ann):
    deleted = issue_key(owner=ann, name="batch").key
    entry_of(deleted, "of the deleted one")
    delete_keys([deleted])
    key = issue_key(owner=ann, name="batch").key
    entry_of(key, "its own")
    assert log_of(f"/admin/keys/apikey/{key.pk}/change/") == ["its own"]


@pytest.mark.parametrize("text", ["no number", "²", "9" * 30, "-1", "0"])
def test_a_key_id_that_no_key_has_selects_nothing(console, text):
    entry("without a key")
    answer = console.get("/admin/telemetry/logentry/", {"key_id": text})
    assert (answer.status_code, len(answer.context["cl"].result_list)) == (200, 0)


def test_a_model_has_what_it_served_under_any_name(log_of):
    provider = create_provider(name="acme", models=["swift"], url="https://acme.example", format_name="openai")
    entry("through an alias", model="fast", alias="fast", served_model="swift", provider_id=provider.pk)
    entry("with the provider's name", model="acme/swift")
    entry("refused", model="swift", served_model="")
    entry("another one's", model="swift", alias="swift", served_model="slow", provider_id=provider.pk)
    entry("of a longer name", model="swift-2")
    expected = ["refused", "with the provider's name", "through an alias"]
    assert log_of(f"/admin/providers/model/{provider.models.get().pk}/change/") == expected


@pytest.fixture
def listed(console):
    """The request ids of the log with a filter."""

    def read(**query: str) -> list[str]:
        answer = console.get("/admin/telemetry/logentry/", query)
        assert answer.status_code == 200
        return [entry.correlation_id for entry in answer.context["cl"].result_list]

    return read


def test_a_user_has_the_entries_under_a_former_name(listed, ann):
    entry("before", user_id=ann.pk, username="anna")
    entry("after", user_id=ann.pk, username="ann")
    entry("another's", user_id=ann.pk + 1000, username="bob")
    assert listed(user="ann") == ["after", "before"]
    assert listed(user="bob") == ["another's"], "no user has this name"


@pytest.mark.long
def test_a_provider_has_the_entries_under_a_former_name(listed):
    provider = create_provider(name="acme", models=["swift"], url="https://acme.example", format_name="openai")
    entry("before", provider_id=provider.pk, provider_name="other")
    entry("after", provider_id=provider.pk, provider_name="acme")
    entry("deleted", provider_id=provider.pk + 1000, provider_name="gone")
    assert listed(provider="acme") == ["after", "before"]
    assert listed(provider="gone") == ["deleted"]


@pytest.mark.long
def test_a_name_of_keys_has_the_entries_of_all_of_them(listed, ann, monkeypatch):
    keys = [issue_key(owner=owner, name="batch").key for owner in (ann, new_user(username="bob"))]
    for key in keys:
        entry_of(key, key.owner.username)
    entry_of(issue_key(owner=ann, name="other").key, "another key")
    entry("of no row", user_id=ann.pk + 1000, key_id=keys[0].pk + 1000, key_name="gone")
    assert listed(key="batch") == ["bob", "ann"]
    assert listed(key="gone") == ["of no row"]
    monkeypatch.setattr(row_filters, "MAX_KEYS", 1)
    assert listed(key="batch") == ["bob", "ann"]
