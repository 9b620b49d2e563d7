"""Kept paths are those that Django builds, below whatever prefix a request has."""

import pytest
from django.contrib import admin
from django.urls import reverse, set_script_prefix
from django.urls.base import clear_script_prefix

from gateway_project.console.display.paths import page_path, row_path

pytestmark = pytest.mark.embedded
TABLES = [f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry]


@pytest.fixture(params=["/", "/below/", "/another/"])
def prefix(request):
    set_script_prefix(request.param)
    yield request.param
    clear_script_prefix()


def test_paths_are_djangos(prefix):
    rows = {table: row_path(table, 7) for table in TABLES}
    assert rows == {table: reverse(f"admin:{table}_change", args=[7]) for table in TABLES}
    lists = {table: page_path(f"{table}_changelist") for table in TABLES}
    assert lists == {table: reverse(f"admin:{table}_changelist") for table in TABLES}
    assert all(path.startswith(prefix + "admin/") for path in (*rows.values(), *lists.values()))
