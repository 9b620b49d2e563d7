"""Lists: what is the same in all rows is computed once, and each row has its own checkbox."""

import re

import pytest
from unfold.templatetags import unfold_list

from rules.models import Rule
from rules.services import create_rule

pytestmark = pytest.mark.either_store


def test_the_headers_of_a_list_are_computed_once_and_each_row_has_its_checkbox(console, monkeypatch):
    columns, label = [], unfold_list.label_for_field
    monkeypatch.setattr(
        unfold_list,
        "label_for_field",
        lambda name, *args, **options: columns.append(name) or label(name, *args, **options),
    )
    for name in "abc":
        create_rule(name=name)
    page = console.get("/admin/rules/rule/").text
    assert len(columns) == len(set(columns)) > 1
    values = re.findall(r'name="_selected_action"\s+value="(\d+)"', page)
    assert sorted(map(int, values)) == sorted(Rule.objects.values_list("pk", flat=True))
