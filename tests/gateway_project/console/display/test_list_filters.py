"""Forms of filters that are built once are those that would be built for each page."""

import pytest
from django.contrib.admin import site
from django.contrib.admin.templatetags.admin_list import admin_list_filter
from django.test import RequestFactory

from gateway_project.console.display.list_filters import list_filter
from telemetry.models import LogEntry
from tests.support.management import new_admin

pytestmark = pytest.mark.django_db


def lists(model, query=""):
    """The list of a table for an admin, once more for each time that it is asked for."""
    request = RequestFactory().get("/", query)
    request.user = new_admin()
    while True:
        yield site.get_model_admin(model).get_changelist_instance(request)


def forms(changelist, build):
    return [build(changelist, spec) for spec in changelist.filter_specs]


@pytest.mark.parametrize("model", site._registry, ids=lambda model: model._meta.label)
def test_each_is_as_it_would_be_built(model):
    first, second = zip(range(2), lists(model), strict=False)
    built = forms(first[1], admin_list_filter)
    assert forms(first[1], list_filter) == forms(second[1], list_filter) == built


def test_one_with_a_value_is_not_built_once_for_all():
    query = {"outcome__exact": "failed", "model_name": "gpt-5<"}
    chosen, plain = next(lists(LogEntry, query)), next(lists(LogEntry))
    before = forms(plain, list_filter)
    page = "".join(forms(chosen, list_filter))
    assert page == "".join(forms(chosen, admin_list_filter))
    assert "gpt-5&lt;" in page
    assert forms(plain, list_filter) == before
