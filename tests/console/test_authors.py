"""Whatever an administrator does in the console stands in the log, with their name: forms, bulk actions, providers."""

import pytest

from accounts.models import Feature, Group, Role, User
from keys.models import ApiKey
from licensing.models import Limit
from providers.models import Model, ModelPrice, Provider, ProviderCredential
from rules.models import Rule
from telemetry.models import LogEntry
from tests.console.conftest import USERNAME, Visitor
from tests.support.console.forms import fields_of
from tests.support.thoroughness import first_of

TOLD = {User: "users", Group: "groups", Role: "roles", Feature: "features", ApiKey: "keys", Rule: "rules",
        Limit: "limits", Provider: "providers", Model: "models", ModelPrice: "prices",
        ProviderCredential: "credentials"}  # fmt: skip

LETTERS = str.maketrans("0123456789", "abcdefghij")


class Author:
    """The administrator, and what the log tells of what was done since the last look."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self._seen = self._last()

    def _last(self) -> int:
        return LogEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0

    def told(self) -> list[str]:
        """The messages since then, all of which are by the administrator."""
        entries = LogEntry.objects.filter(entry_type="Message", pk__gt=self._seen).order_by("pk")
        results = [(entry.username, entry.address, entry.message.removeprefix(f"{USERNAME} ")) for entry in entries]
        self._seen = self._last()
        assert {(username, address) for username, address, _ in results} <= {(USERNAME, "127.0.0.1")}
        return [message for _, _, message in results]

    def fill_in(self, path: str, **changes) -> None:
        """Open a form, change some of its fields and store it."""
        page = self.visitor.get(path)
        assert page.status_code == 200, path
        answer = self.visitor.post(path, **fields_of(page.text) | changes)
        assert answer.status_code == 302 or "is shown" in answer.text, f"{path}: {fields_of(answer.text)}"

    def choose(self, table: str, *rows, action: str = "delete_selected", **more) -> str:
        """A bulk action on rows of a list; what the next page says."""
        answer = self.visitor.post(
            table, action=action, _selected_action=[getattr(row, "pk", row) for row in rows], **more
        )
        return answer.text if answer.status_code == 200 else self.visitor.get(table).text


@pytest.fixture
def author(administrator, world) -> Author:
    return Author(administrator)


def path_of(row) -> str:
    return f"{row._meta.app_label}/{row._meta.model_name}/"


def test_every_form_is_told(author, world):
    name, provider = world.name("by-form"), world.row(world.provider())
    values = {
        User: {"username": name, "password": "a long pass phrase", "is_active": "on"},
        Group: {"name": name, "members": world.user.pk},
        Role: {"name": name},
        Feature: {"name": "by_form_" + str(world.number).translate(LETTERS)},
        ApiKey: {"name": name, "owner": world.user.pk, "permissions": "work"},
        Rule: {"name": name, "audience": "user", "user": world.user.pk},
        Limit: {"subject": "user", "user": world.user.pk, "measure": "requests", "time_window": "day", "amount": "5"},
        Provider: {
            "name": name,
            "format": provider.format_id,
            "url": "https://llm.example.org/v1",
            "new_models": "m-1",
        },
        Model: {"name": name, "provider": provider.pk},
        ModelPrice: {"model": name, "currency": "USD", "input": "1", "output": "2"},
        ProviderCredential: {"name": name, "provider": provider.pk, "secret": "sk-of-another-account"},
    }
    assert values.keys() == TOLD.keys()
    rows = {}
    for model, fields in values.items():
        author.fill_in(f"{path_of(model)}add/", **fields)
        rows[model] = model.objects.order_by("-pk").first()
        assert [message.split(":")[0].rstrip(".") for message in author.told()] == [
            f"created {TOLD[model]} {rows[model].pk}"
        ]
    changes = {
        User: {"display_name": "Ann"}, Group: {"name": f"{name}-2"}, Role: {"name": f"{name}-2"},
        ApiKey: {"name": f"{name}-2"}, Rule: {"regex": "gpt.*"}, Limit: {"amount": "6"}, Provider: {"priority": "7"},
        Model: {"name": f"{name}-2"}, ModelPrice: {"input": "3"}, ProviderCredential: {"weight": "3"},
    }  # fmt: skip
    for model, change in changes.items():
        author.fill_in(f"{path_of(model)}{rows[model].pk}/change/", **change)
        (message,) = author.told()
        assert message.startswith(f"changed {TOLD[model]} "), message
        assert next(iter(change)) in message
    for model in (Limit, Rule, ApiKey, ModelPrice, Model, ProviderCredential, Provider, Group, User):
        model.objects.filter(pk=rows[model].pk).delete()


def test_a_form_that_changes_nothing_is_not_told(author, world):
    author.fill_in(f"accounts/user/{world.user.pk}/change/")
    assert author.told() == []


def test_what_is_asked_of_a_provider_is_told(author, world):
    scripted = world.provider("old")
    row = world.row(scripted)
    scripted.answers(body={"data": [{"id": "old"}, {"id": "new"}]}).answers(body={"data": [{"id": "old"}]})
    author.told()
    author.visitor.post(f"providers/provider/{row.pk}/fetch-models/")
    assert author.told() == []
    author.visitor.post(f"providers/provider/{row.pk}/fetch-models/", _chosen="1", models=["new"])
    assert author.told() == [f"changed providers {row.pk}: models."]
    assert sorted(row.models.values_list("name", flat=True)) == ["new", "old"]
    author.visitor.post(f"providers/provider/{row.pk}/test/")
    assert author.told() == [f"tested providers {row.pk}."]
    scripted.answers(status=401)
    author.visitor.post(f"providers/provider/{row.pk}/test/")
    assert author.told() == []
    assert "status 401" in author.visitor.get(f"providers/provider/{row.pk}/change/").text


def test_a_bulk_action_asks_is_told_row_by_row_and_says_what_was_refused(author, world):
    free, used_provider = world.row(world.provider()), world.row(world.provider())
    world.allow(provider=used_provider)
    author.told()
    request = author.choose("providers/provider/", free, used_provider)
    assert "Delete 2 providers" in request
    assert Provider.objects.filter(pk__in=[free.pk, used_provider.pk]).count() == 2
    text = author.choose("providers/provider/", free, used_provider, post="yes")
    assert "1 of 2 providers deleted." in text
    assert "rule" in text
    assert author.told() == [f"deleted providers {free.pk}."]
    assert Provider.objects.filter(pk=used_provider.pk).exists()
    keys = [world.new_key().key for _ in range(3)]
    assert "3 of 3 API keys deleted." in author.choose("keys/apikey/", *keys, post="yes")
    *deleted, receipt = sorted(author.told(), key=lambda message: message.startswith("In force"))
    assert deleted == [f"deleted keys {key.pk}." for key in reversed(keys)]
    assert receipt.startswith("In force on 1 of 1 worker")


@pytest.mark.parametrize("chosen", ["x", "", "1.5", "9" * 30, "-1", "0x1", "1 OR 1=1"])
@pytest.mark.parametrize("table", first_of("keys/apikey/", "accounts/session/", "telemetry/logentry/"))
def test_a_bulk_action_on_no_row_is_a_word_and_no_fault(author, table, chosen):
    for post in ({}, {"post": "yes"}):
        answer = author.visitor.post(table, action="delete_selected", _selected_action=chosen, **post)
        assert answer.status_code in (200, 302), answer.text
    assert author.told() == []
