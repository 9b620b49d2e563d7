"""Pages name the default limits that apply, and leave out those that a limit of their own replaces."""

from decimal import Decimal

import pytest

from accounts.services import add_member, create_group
from keys.services import issue_key
from licensing.services import set_limit
from providers.services import set_price
from tests.support.user_pages import log_in

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture(autouse=True)
def defaults(settings):
    minute, at_once = ("requests", "minute"), ("concurrent", "none")
    settings.GATEWAY_LIMITS = {"key": {minute: Decimal(600)}, "user": {}, "group": {}, "provider": {}}
    settings.GATEWAY_GUARDS = {"login": {minute: Decimal(0)}, "user": {minute: Decimal(6000), at_once: Decimal(150)}}


def overview_of(user) -> str:
    return log_in(user).get("/me/").text


def test_the_own_page_names_the_defaults_that_refuse(ann):
    page = overview_of(ann)
    sentence = "600 requests per minute for each key; 6,000 requests per minute and 150 concurrent requests for you."
    assert f"Default limits: {sentence}" in page
    assert "No limits are set" not in page


def test_defaults_that_are_off_are_not_named(ann, settings):
    settings.GATEWAY_LIMITS = {**settings.GATEWAY_LIMITS, "key": {("requests", "minute"): Decimal(0)}}
    settings.GATEWAY_GUARDS = {}
    page = overview_of(ann)
    assert "Default limits" not in page
    assert "No limits are set for you, your keys or your groups." in page


def test_an_own_limit_replaces_the_default_also_an_unlimited_one(ann):
    set_limit(user=ann, measure="requests", window="minute", amount=Decimal(0))
    assert "for each key; 150 concurrent requests for you." in overview_of(ann)
    first, second = (issue_key(owner=ann, name=name).key for name in ("one", "two"))
    set_limit(key=first, measure="requests", window="minute", amount=Decimal(5))
    assert "Default limits: 600 requests per minute for each other key; 150 concurrent requests" in overview_of(ann)
    set_limit(key=second, measure="requests", window="minute", amount=Decimal(5))
    assert "Default limits: 150 concurrent requests for you." in overview_of(ann)


def test_defaults_of_groups_are_for_members_and_a_login_has_its_own(ann, settings):
    settings.GATEWAY_LIMITS = {**settings.GATEWAY_LIMITS, "group": {("tokens", "day"): Decimal(1)}}
    settings.GATEWAY_GUARDS = {"login": {("requests", "minute"): Decimal(60)}}
    assert "each group" not in overview_of(ann)
    add_member(create_group(name="search"), user_id=ann.pk)
    assert "for each key; 1 token per day for each group; 60 requests per minute without a key." in overview_of(ann)


@pytest.mark.long
def test_the_list_of_limits_names_the_defaults_of_its_subject(console, ann, settings):
    key = issue_key(owner=ann, name="one").key
    address = f"/admin/licensing/limit/?key={key.public_id}"
    assert "Default limits: 600 requests per minute." in console.get(address).text
    address = "/admin/licensing/limit/?user=ann"
    assert "Default limits: 6,000 requests per minute and 150 concurrent requests." in console.get(address).text
    set_limit(user=ann, measure="concurrent", window="none", amount=Decimal(3))
    assert "Default limits: 6,000 requests per minute." in console.get(address).text
    assert "Default limits" not in console.get("/admin/licensing/limit/").text
    assert "Default limits" not in console.get("/admin/licensing/limit/?user=%00").text


def test_a_default_of_cost_is_in_the_currency_of_the_prices(ann, settings):
    settings.CACHES = {name: {**cache, "KEY_PREFIX": "default-limits"} for name, cache in settings.CACHES.items()}
    settings.GATEWAY_GUARDS = {"user": {("cost", "month"): Decimal(500)}}
    set_price(model="fast", currency="EUR", input=Decimal(1), output=Decimal(2))
    assert "for each key; €500 per month for you." in overview_of(ann)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("requests:key:5:minute", "GATEWAY_KEY_REQUESTS_PER_MINUTE"),
        ("requests:login:5:minute", "GATEWAY_LOGIN_REQUESTS_PER_MINUTE"),
        ("requests:user:5:minute", "GATEWAY_USER_REQUESTS_PER_MINUTE"),
        ("concurrent:user:5:none", "GATEWAY_USER_CONCURRENT"),
        ("tokens:group:5:day", "GATEWAY_GROUP_LIMITS"),
    ],
)
def test_a_default_that_refused_leads_to_its_setting(console, settings, name, setting):
    settings.GATEWAY_LIMITS = {**settings.GATEWAY_LIMITS, "group": {("tokens", "day"): Decimal(10**6)}}
    response = console.get("/admin/licensing/limit/named/", {"name": name})
    assert response.headers["Location"] == f"/admin/system/?q={setting}#setting-search"
    page = console.get(response.headers["Location"])
    assert setting in [row.name for row in page.context["settings_in_force"]]
    assert 'id="setting-search"' in page.text


def test_an_own_setting_for_keys_is_found_where_it_is_in_force(console, settings):
    settings.GATEWAY_LIMITS = {**settings.GATEWAY_LIMITS, "key": {("requests", "minute"): Decimal(7)}}
    response = console.get("/admin/licensing/limit/named/", {"name": "requests:key:5:minute"})
    assert response.headers["Location"] == "/admin/system/?q=GATEWAY_KEY_LIMITS#setting-search"


@pytest.mark.parametrize("name", ["", "x", "tokens:key:5:day", "requests:credential:5:minute"])
def test_a_limit_that_no_setting_has_leads_to_all_settings(console, name):
    assert console.get("/admin/licensing/limit/named/", {"name": name}).headers["Location"] == "/admin/system/"
