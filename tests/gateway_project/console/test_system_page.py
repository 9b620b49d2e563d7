"""The system page shows the settings in force in plain words."""

import re
from decimal import Decimal
from html import unescape

import pytest

from gateway_project.console.system import _title
from gateway_project.env import Env
from telemetry.metrics.exposition import GAUGES
from tests.support.management import PASSWORD, new_admin

pytestmark = pytest.mark.django_db


@pytest.fixture
def shown(client, settings) -> dict[str, str]:
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


def test_settings_are_shown_as_they_are_written_in_the_environment(shown):
    assert shown["ALLOWED_HOSTS"] == "testserver, gateway.example"
    assert shown["GATEWAY_LIMITS"] == "key: requests/minute=600, concurrent=5; user: cost/month=1.5"
    assert shown["GATEWAY_TRUSTED_PROXIES"] == "(empty)"
    assert not [name for name, value in shown.items() if re.search(r"[\[{(]['(]|Decimal|None", value)]


def test_no_two_numbers_of_a_process_have_one_name():
    names = [_title(family.name) for family in GAUGES]
    assert len(set(names)) == len(names)
