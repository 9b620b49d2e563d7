"""The tabs above a row's page: each number is that of the rows in the list that the tab leads to."""

from datetime import timedelta
from html import unescape

import pytest
from django.utils import timezone

from accounts.models import Session
from keys.services import delete_keys, issue_key
from providers.models import Model
from providers.services import create_provider, end_price, set_price
from rules.models import Rule
from rules.services import create_rule
from tests.support.console.forms import fields_of
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture
def models() -> dict[str, Model]:
    """Models whose names contain others, at a provider with the name of a maker and at one that resells."""
    for name, names in {"openai": ["gpt-x", "gpt-x-mini", "My-Model"], "router": ["gpt-x", "openai/gpt-x"]}.items():
        create_provider(name=name, url=f"https://{name}.example", format_name="openai", models=names)
    return {str(row.provider.name) + " " + row.name: row for row in Model.objects.select_related("provider")}


def tab_of(page, title: str):
    [tab] = [tab for tab in page.context["row_tabs"] if tab.title == title]
    assert unescape(tab.address) in unescape(page.text)
    return tab


def rows_behind(console, row: Model, title: str) -> list:
    """The rows of a tab's list, which are as many as the tab says."""
    tab = tab_of(console.get(f"/admin/providers/model/{row.pk}/change/"), title)
    rows = list(console.get(tab.address).context["cl"].result_list)
    assert tab.number == len(rows)
    return rows


@pytest.mark.long
def test_the_providers_of_a_model_are_not_those_of_longer_names(console, models):
    rows = rows_behind(console, models["openai gpt-x"], "Providers")
    assert {row.pk for row in rows} == {models["openai gpt-x"].pk, models["router gpt-x"].pk}
    assert len(rows_behind(console, models["openai gpt-x-mini"], "Providers")) == 1


@pytest.mark.long
def test_the_prices_of_a_model_are_those_that_apply_to_it_at_its_provider(console, models):
    prices = {
        name: set_price(model=name, currency="USD", input=1, output=2, valid_from=timezone.now())
        for name in ("gpt-x", "gpt-x-mini", "gpt-x*", "My-Model", "openai/gpt-x")
    }
    prices["router"] = set_price(
        model="gpt-x", provider=models["router gpt-x"].provider, currency="USD", input=1, output=2
    )
    names = {price.pk: name for name, price in prices.items()}
    end_price(prices["gpt-x"])

    def applying(name: str) -> set[str]:
        return {names[row.pk] for row in rows_behind(console, models[name], "Prices")}

    assert applying("openai gpt-x") == {"gpt-x", "gpt-x*"}
    assert applying("router gpt-x") == {"gpt-x", "gpt-x*", "router"}
    assert applying("router openai/gpt-x") == {"openai/gpt-x"}
    assert applying("openai gpt-x-mini") == {"gpt-x-mini", "gpt-x*"}
    assert applying("openai My-Model") == {"My-Model"}


def test_the_prices_of_all_models_of_a_name_are_found_by_the_name_alone(console, models):
    for row in (models["openai gpt-x"], models["router gpt-x"]):
        set_price(model="gpt-x", provider=row.provider, currency="USD", input=1, output=2)
    assert console.get("/admin/providers/modelprice/?for_model=gpt-x").context["cl"].result_count == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("period", "time"),
    [("timestamp_from_0=2026-11-01&timestamp_from_1=10:00:00", "10%3A00%3A00"), ("start=2026-11-01", "00%3A00%3A00")],
)
def test_the_attempts_of_a_provider_are_those_of_the_period_of_its_page(console, models, period, time):
    path = f"/admin/providers/provider/{models['openai gpt-x'].provider_id}/change/"
    log = "/admin/telemetry/logentry/?attempted=openai"
    from_period = f"{log}&amp;timestamp_from_0=2026-11-01&amp;timestamp_from_1={time}"
    assert f'href="{from_period}">Its attempts in the log' in console.get(f"{path}?{period}").text
    assert f'href="{log}">Its attempts in the log' in console.get(path).text


def test_keys_and_sessions_are_counted_as_their_lists_show_them(console, models):
    ann, provider = new_user(username="ann"), models["openai gpt-x"].provider
    delete_keys([issue_key(owner=ann, name="gone", provider=provider).key])
    issue_key(owner=ann, name="laptop", provider=provider)
    times = {"last_used_at": timezone.now(), "expires_at": timezone.now() + timedelta(days=1)}
    Session.objects.create(user=ann, ended_at=timezone.now(), **times)
    for path, title, number in (
        (f"accounts/user/{ann.pk}", "Keys", 2),
        (f"accounts/user/{ann.pk}", "Sessions", 1),
        (f"providers/provider/{provider.pk}", "Keys", 2),
    ):
        tab = tab_of(console.get(f"/admin/{path}/change/"), title)
        assert (tab.number, console.get(tab.address).context["cl"].result_count) == (number, number), title


def test_who_may_use_a_model_leaves_out_rules_for_another_provider(console, models):
    providers = {None: None} | {name: models[f"{name} gpt-x"].provider_id for name in ("openai", "router")}
    rows = {
        name: create_rule(name=f"at {name}", user_id=0, regex="gpt.*", provider_id=number)
        for name, number in providers.items()
    }
    tab = tab_of(console.get(f"/admin/providers/model/{models['openai gpt-x'].pk}/change/"), "Who may use it")
    shown = set(console.get(tab.address).context["cl"].result_list)
    assert {rows[None], rows["openai"]} <= shown
    assert rows["router"] not in shown
    assert tab.number == len(shown)


def test_the_owner_of_a_key_is_one_user(console):
    ann, _ = new_user(username="ann"), new_user(username="annabel")
    key = issue_key(owner=ann, name="laptop").key
    tab = tab_of(console.get(f"/admin/keys/apikey/{key.pk}/change/"), "Owner")
    assert tab.address == f"/admin/accounts/user/{ann.pk}/change/"


def test_a_row_leads_to_who_changed_it_also_after_it_was_deleted(console):
    for name in ("first", "second"):
        console.post("/admin/rules/rule/add/", fields_of(console.get("/admin/rules/rule/add/").text) | {"name": name,
                     "audience": "everyone"})  # fmt: skip
    rule = Rule.objects.get(name="first")
    path = f"/admin/rules/rule/{rule.pk}/"
    audit = tab_of(console.get(f"{path}change/"), "Audit").address
    assert [row.action for row in console.get(audit).context["cl"].result_list] == ["create"]
    console.post(f"{path}delete/", {"post": "yes"})
    page = console.get(f"{path}change/", follow=True)
    assert page.redirect_chain[-1][0] == "/admin/rules/rule/"
    assert f"There is no rule with the id {rule.pk}." in page.text
    assert unescape(audit) in unescape(page.text)
    assert [row.action for row in console.get(audit).context["cl"].result_list] == ["destroy", "create"]
