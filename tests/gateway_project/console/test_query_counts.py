"""How many SQL queries each page sends: exactly as many as query_counts.json says, however many rows there are.

`make query-counts` measures again and writes the file, so that a change is seen and reviewed.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from django.contrib import admin
from django.core.cache import caches
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.models import Group, User
from gateway_project.me.urls import urlpatterns
from telemetry.models import LogEntry
from tests.console.test_pages import forms, lists, pages
from tests.support.management import PASSWORD, new_user
from tests.support.many_rows import fill

pytestmark = [pytest.mark.django_db, pytest.mark.either_store, pytest.mark.long]
FILE = Path(__file__).with_name("query_counts.json")
IS_UPDATE = "UPDATE_QUERY_COUNTS" in os.environ
FEW, MANY = 3, 12
NOT_READ = ("login", "login-code", "logout")
Counts = dict[str, int]


@pytest.fixture
def user() -> User:
    return new_user(username="counted")


def console_pages(user: User) -> dict[str, str]:
    """The address of each page of the console by its name in the file; the page of a row is that of the first one."""
    paths = [f"/admin/{path}" for path in [*pages(), *lists(), *forms()]]
    rows = {f"/admin/{path}<id>/": model for path, model in zip(lists(), admin.site._registry, strict=True)}
    return {path: path for path in paths} | {name: _row_page(model, user) for name, model in rows.items()}


def _row_page(model: type[Model], user: User) -> str:
    row = user if model is User else model._default_manager.order_by("pk").first()
    assert row is not None, f"{model} has no rows"
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk])


def own_pages(user: User) -> dict[str, str]:
    """The same of the pages of a user who administrates groups."""
    ids = {
        "group_id": Group.objects.get(name="group 0").pk,
        "entry_id": LogEntry.objects.get(correlation_id="counted-0").pk,
    }
    result = {}
    for pattern in urlpatterns:
        values = {name: ids.get(name) for name in pattern.pattern.converters}
        if pattern.name not in NOT_READ and None not in values.values():
            result[f"/me/{pattern.pattern}"] = reverse(f"me:{pattern.name}", kwargs=values)
    return result


def counts_of(client: Client, addresses: Mapping[str, str]) -> Counts:
    """The number of queries of each page, without stored figures; a first visit fills what a process always keeps."""
    counts = {}
    for name, address in addresses.items():
        client.get(address)
        caches["process"].clear()
        with CaptureQueriesContext(connection) as queries:
            response = client.get(address)
        assert response.status_code == 200, (name, response.status_code)
        counts[name] = len(queries)
    return counts


def differences(counts: Counts, others: Counts) -> list[str]:
    """A line for each page whose two counts differ."""
    return [
        f"{name}: {others.get(name)} -> {counts.get(name)} queries"
        for name in sorted(counts.keys() | others.keys())
        if counts.get(name) != others.get(name)
    ]


def committed_counts(root: str) -> Counts:
    """The counts of this database in the file, of the pages below a path."""
    counts = json.loads(FILE.read_text())[connection.vendor]
    return {name: count for name, count in counts.items() if name.startswith(root)}


def commit_counts(counts: Counts, root: str) -> None:
    """Write the counts of the pages below a path into the file; those of other pages and databases stay."""
    document = json.loads(FILE.read_text())
    others = {name: count for name, count in document.get(connection.vendor, {}).items() if not name.startswith(root)}
    document[connection.vendor] = others | counts
    FILE.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("root", "addresses"), [("/admin/", console_pages), ("/me/", own_pages)])
def test_pages_send_as_many_queries_as_the_file_says(console, user, root, addresses):
    client = console
    if root == "/me/":
        client = Client()
        client.post("/me/login/", {"username": user.username, "password": PASSWORD})
    fill(user, 0, FEW)
    few = counts_of(client, addresses(user))
    fill(user, FEW, MANY)
    many = counts_of(client, addresses(user))
    growing = differences(many, few)
    assert not growing, f"With {MANY} rows instead of {FEW}:\n" + "\n".join(growing)
    if IS_UPDATE:
        commit_counts(many, root)
    changed = differences(many, committed_counts(root))
    assert not changed, "make query-counts writes the new numbers:\n" + "\n".join(changed)


def test_a_difference_names_the_page_and_both_numbers():
    assert differences({"/a/": 3, "/b/": 2, "/new/": 1}, {"/a/": 5, "/b/": 2, "/gone/": 4}) == [
        "/a/: 5 -> 3 queries", "/gone/: 4 -> None queries", "/new/: None -> 1 queries",
    ]  # fmt: skip
