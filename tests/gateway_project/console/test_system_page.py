"""The system page shows the settings in force in plain words."""

import re
import time
from dataclasses import replace
from html import unescape
from types import SimpleNamespace

import pytest

from gateway_project.console.system import parts
from gateway_project.console.system.page import _title
from gateway_project.settings import env
from licensing.terms import community_terms
from providers.health.status import HealthState
from telemetry.journal.shipping import Backlog
from telemetry.metrics.exposition import GAUGES
from tests.support.management import PASSWORD, new_admin

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
WELL, FAILING = (SimpleNamespace(state=state) for state in (HealthState.HEALTHY, HealthState.FAILING))


@pytest.fixture
def shown(client, settings) -> dict[str, str]:
    """The settings of the page, by their names."""
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    settings.ALLOWED_HOSTS = ["testserver", "gateway.example"]
    return settings_of(client.get("/admin/system/"))


def settings_of(response) -> dict[str, str]:
    rows = re.findall(r"<dt[^>]*>(.*?)</dt><dd[^>]*>(.*?)</dd>", response.text.partition("data-settings")[2], re.DOTALL)
    return {name: unescape(value) for name, value in rows}


def test_settings_are_shown_as_they_are_written_in_the_environment(shown):
    assert shown["ALLOWED_HOSTS"] == "testserver, gateway.example"
    assert shown["GATEWAY_TRUSTED_PROXIES"] == "(empty)"
    assert not [name for name, value in shown.items() if re.search(r"[\[{(]['(]|Decimal|None", value)]


def test_numbers_have_the_units_of_their_settings(shown):
    assert shown["GATEWAY_MAX_BODY_BYTES"] == "32 MiB"
    assert shown["GATEWAY_CONNECT_TIMEOUT"] == "5 s"
    assert shown["GATEWAY_TOTAL_TIMEOUT"] == "600 s (10 minutes)"
    assert shown["GATEWAY_LOG_DAYS"].endswith(" days")
    assert shown["GATEWAY_THREADS"].isdecimal()


@pytest.fixture
def changed(monkeypatch) -> None:
    variables = {"GATEWAY_IDLE_TIMEOUT": "90", "GATEWAY_MAX_BODY_BYTES": "33554432", "GATEWAY_USER_PAGES": "true"}
    monkeypatch.setattr(env, "variables", variables | {"GATEWAY_METRICS_TOKEN": "sesame"})


def test_what_differs_from_its_default_comes_first_beside_the_default(client, changed, settings):
    settings.GATEWAY_IDLE_TIMEOUT, settings.GATEWAY_METRICS_TOKEN = 90.0, "sesame"
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    response = client.get("/admin/system/")
    names, shown = list(settings_of(response)), settings_of(response)
    assert names[:2] == ["GATEWAY_IDLE_TIMEOUT", "GATEWAY_METRICS_TOKEN"]
    assert shown["GATEWAY_IDLE_TIMEOUT"].startswith("90 s")
    assert "default: 60 s" in shown["GATEWAY_IDLE_TIMEOUT"]
    assert shown["GATEWAY_METRICS_TOKEN"].startswith("set")
    assert "sesame" not in response.text
    assert [name for name, value in shown.items() if "default:" in value] == names[:2]


def test_what_is_only_a_part_of_other_settings_is_shown_and_marked(client, monkeypatch):
    variables = {
        "GATEWAY_USER_LIMITS": "cost/month=1.5",
        "GATEWAY_DATABASE_POOL_SIZE": "20",
        "GATEWAY_LOG_LEVEL": "DEBUG",
        "DATABASE_URL": "postgresql://ann:se@same@db.example:5432/gateway?password=se@same",
    }
    monkeypatch.setattr(env, "variables", variables)
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    response = client.get("/admin/system/")
    shown = settings_of(response)
    assert list(shown)[:4] == sorted(variables)
    assert shown["GATEWAY_USER_LIMITS"].startswith("cost/month=1.5 ")
    assert "default: INFO" in shown["GATEWAY_LOG_LEVEL"]
    assert shown["DATABASE_URL"].startswith("postgresql://db.example:5432/gateway ")
    assert "default: sqlite:///" in shown["DATABASE_URL"]
    assert "same@" not in response.text


def test_each_variable_is_shown_and_secrets_are_not(shown, settings):
    table = (settings.BASE_DIR / "docs/settings.md").read_text()
    first_cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    documented = {name for cell in first_cells for name in re.findall("`(.*?)`", cell)}
    assert len(documented) > 80
    assert documented <= shown.keys() == env.defaults.keys()
    for name in (
        *("SECRET_KEY", "SECRET_KEY_FALLBACKS", "GATEWAY_TOKEN_KEY", "GATEWAY_TOKEN_KEY_FALLBACKS"),
        *("GATEWAY_ENCRYPTION_KEYS", "GATEWAY_SCIM_TOKEN", "GATEWAY_OIDC_CLIENT_SECRET", "GATEWAY_METRICS_TOKEN"),
    ):
        assert shown[name] in {"set", "not set"}


def test_a_setting_that_only_sounds_like_a_secret_is_shown(shown):
    assert shown["GATEWAY_PASSWORD_LOGIN"] == "on"


def test_numbers_have_units(shown):
    assert shown["GATEWAY_REFRESH_TOKEN_SECONDS"] == "604,800 s (10,080 minutes)"
    assert shown["GATEWAY_RETRY_PERCENT"].endswith(" %")
    assert shown["GATEWAY_CACHE_TTL"].endswith(" s (60 minutes)")


@pytest.mark.parametrize(
    ("text", "name"), [("idle timeout", "GATEWAY_IDLE_TIMEOUT"), ("32 mib", "GATEWAY_MAX_BODY_BYTES"), ("zzz", "None")]
)
def test_settings_are_found_by_words_of_their_names_and_values(client, text, name):
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    rows = settings_of(client.get("/admin/system/", {"q": text}))
    assert list(rows)[:1] == [name]
    assert len(rows) < 5


class TestParts:
    """Each part says how it is, and what to do about it."""

    @pytest.fixture
    def process(self, monkeypatch):
        process = SimpleNamespace(
            follower=SimpleNamespace(fresh=True),
            state=SimpleNamespace(degraded=False, warning="", clock_offset=0.0),
            snapshot=SimpleNamespace(providers={7: SimpleNamespace(id=7, name="east")}),
            shipper=SimpleNamespace(backlog=lambda: Backlog(bytes=0, seconds=0.0)),
        )
        monkeypatch.setattr(parts, "present_health", lambda process: {"west": WELL})
        return process

    def words(self, process) -> dict[str, str]:
        return {part.name: part.badge.text for part in parts.parts_of(process)}

    def test_all_is_well(self, process, settings):
        settings.REDIS_URL = ""
        shown = self.words(process)
        assert shown.pop("Licence").startswith("Valid")
        assert shown == {
            "Database": "Answers", "Redis": "Not used", "Journal": "Up to date", "Providers": "Healthy",
            "Clocks": "Agree",
        }  # fmt: skip

    def test_what_is_not_well_says_what_to_do(self, process, settings, monkeypatch):
        settings.REDIS_URL = "redis://127.0.0.1:9/0"
        process.follower.fresh, process.state.degraded, process.state.clock_offset = False, True, -7.0
        process.shipper.backlog = lambda: Backlog(bytes=5_000, seconds=95.0)
        monkeypatch.setattr(parts, "present_health", lambda process: {"east": FAILING, "west": WELL})
        by_name = {part.name: part for part in parts.parts_of(process)}
        words = {name: part.badge.text for name, part in by_name.items() if name != "Licence"}
        assert words == {
            "Database": "Unavailable", "Redis": "Unavailable", "Journal": "Behind", "Providers": "Failing",
            "Clocks": "Differ",
        }  # fmt: skip
        assert "DATABASE_URL" in by_name["Database"].sentence
        assert "REDIS_URL" in by_name["Redis"].sentence
        assert "that of Redis by -7 s" in by_name["Clocks"].sentence
        assert by_name["Providers"].links == (("east", "/admin/providers/provider/7/change/"),)

    def test_a_licence_that_is_over(self, process, monkeypatch):
        over = community_terms(0, 60)
        monkeypatch.setattr(parts.licensing, "current_terms", lambda: replace(over, latest_time=time.time() + 10**6))
        licence = next(part for part in parts.parts_of(process) if part.name == "Licence")
        assert (licence.badge.text, licence.badge.kind) == ("Invalid", "danger")
        assert licence.links[0].address == "/admin/licence/"


def test_no_two_numbers_of_a_process_have_one_name():
    names = [_title(family.name) for family in GAUGES]
    assert len(set(names)) == len(names)
