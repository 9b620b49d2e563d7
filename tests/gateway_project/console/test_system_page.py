"""The page of the system: what is in force, to be read by people."""

import re
from decimal import Decimal
from html import unescape

import pytest

from gateway_project.admin import _words
from gateway_project.env import Env
from telemetry.metrics.exposition import GAUGES
from tests.support.management import PASSWORD, new_admin

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(client, settings) -> dict[str, str]:
    """The settings of the page, by their names."""
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    settings.ALLOWED_HOSTS = ["testserver", "gateway.example"]
    settings.GATEWAY_LIMITS = {
        "key": Env({"L": "requests/minute=600, concurrent=5"}).limits("L"),
        "user": {("cost", "month"): Decimal("1.500000")},
        "group": {},
    }
    page = client.get("/admin/system/").text.partition("Settings in force")[2]
    return {name: unescape(value) for name, value in re.findall(r"<dt[^>]*>(.*?)</dt><dd[^>]*>(.*?)</dd>", page)}


def test_settings_stand_there_as_one_sets_them(told):
    assert told["ALLOWED_HOSTS"] == "testserver, gateway.example"
    assert told["GATEWAY_LIMITS"] == "key: requests/minute=600, concurrent=5; user: cost/month=1.5"
    assert told["GATEWAY_TRUSTED_PROXIES"] == "(empty)"
    assert not [name for name, value in told.items() if re.search(r"[\[{(]['(]|Decimal|None", value)]


def test_no_two_numbers_of_a_process_have_one_name():
    names = [_words(family.name) for family in GAUGES]
    assert len(set(names)) == len(names)
