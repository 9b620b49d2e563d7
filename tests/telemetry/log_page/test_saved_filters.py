"""Filters of the log under names: links above the list that keep the shown period, each user's own."""

import html
import re

import pytest

from gateway_project.errors import ValidationError
from telemetry.log_page.saved_filters import MAX_FILTERS, filter_links, save_filter
from telemetry.models import LogEntry, SavedFilter
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
LOG = "/admin/telemetry/logentry/"
NAME = "The name of a filter must have 1 to 64 visible characters."
PERIOD = {"timestamp_from_0": "2026-01-05", "timestamp_from_1": "10:00:00"}


def save(console, name, query):
    return console.post(f"{LOG}filters/save/", {"name": name, "query": query}, follow=True)


@pytest.mark.long
def test_a_filter_is_saved_used_and_deleted(console):
    for user in ("ann", "bob"):
        LogEntry.objects.create(entry_type="WorkRequest", username=user, model=f"model-of-{user}")
    page = save(console, "Work of Ann", "user=ann&timestamp_from_0=2020-01-01&p=3")
    assert page.redirect_chain[0][0].startswith(LOG)
    [saved] = SavedFilter.objects.all()
    assert saved.query == "user=ann"
    link = html.unescape(re.search(r'href="(\?user=ann[^"]*)"', console.get(LOG).text)[1])
    listed = console.get(f"{LOG}{link}").text
    assert "model-of-ann" in listed
    assert "model-of-bob" not in listed
    assert re.search(r'aria-current="page">Work of Ann<', listed)
    console.post(f"{LOG}filters/delete/", {"id": saved.pk, "query": "user=ann"})
    assert "Work of Ann" not in console.get(LOG).text


def test_a_link_keeps_the_period_of_the_list():
    owner = new_user()
    save_filter(owner, name="errors", query={"outcome__exact": "failed", "q": "", "e": "1"})
    [link] = filter_links(owner, {"user": "bob", **PERIOD})
    assert link.address == "?outcome__exact=failed&timestamp_from_0=2026-01-05&timestamp_from_1=10%3A00%3A00"
    assert not link.is_current
    [link] = filter_links(owner, {"outcome__exact": "failed", **PERIOD})
    assert link.is_current


def test_a_filter_of_the_same_name_is_replaced():
    owner = new_user()
    for model in ("a", "b"):
        save_filter(owner, name="mine", query={"model_name": model})
    assert [link.address for link in filter_links(owner, {})] == ["?model_name=b"]


def test_filters_are_their_owners(console):
    saved = save_filter(new_user(), name="secret plan", query={"user": "ann"})
    assert "secret plan" not in console.get(LOG).text
    console.post(f"{LOG}filters/delete/", {"id": saved.pk})
    assert SavedFilter.objects.filter(pk=saved.pk).exists()


@pytest.mark.parametrize(
    ("name", "query", "sentence"),
    [
        ("all", "", "Choose a filter above the list before you save it."),
        ("", "user=ann", NAME),
        ("x" * 65, "user=ann", NAME),
        ("a\0b", "user=ann", NAME),
        ("long", f"q={'x' * 2000}", "A filter that is saved must have at most 2,000 characters."),
    ],
)
def test_what_cannot_be_saved_is_refused(console, name, query, sentence):
    page = save(console, name, query)
    assert [str(message) for message in page.context["messages"]] == [sentence]
    assert not SavedFilter.objects.exists()


def test_a_user_has_a_bounded_number_of_filters():
    owner = new_user()
    for number in range(MAX_FILTERS):
        save_filter(owner, name=str(number), query={"user": "ann"})
    with pytest.raises(ValidationError, match="You have 20 saved filters"):
        save_filter(owner, name="one more", query={"user": "ann"})
    save_filter(owner, name="0", query={"user": "bob"})  # replaces one


@pytest.mark.parametrize("row_id", ["", "x", "9" * 30, "-1", "²"])
def test_an_id_that_is_none_deletes_nothing(console, row_id):
    assert console.post(f"{LOG}filters/delete/", {"id": row_id}).status_code == 302
