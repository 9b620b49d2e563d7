"""The licence over HTTP: its status, and keys that are installed or refused."""

import pytest

from licensing.models import Licence
from telemetry.models import LogEntry
from tests.support.licences import Vendor, in_days
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store


def status(client, *, flat: bool = False):
    response = client.get("/licence/", flat=flat)
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == (
        "application/json" if flat else "application/vnd.api+json; charset=utf-8"
    )
    body = response.json()
    assert body.keys() == {"data"}
    assert body["data"].keys() == {"attributes"}
    return body["data"]["attributes"]


@pytest.mark.parametrize("flat", [True, False])
def test_without_one_this_is_a_community_installation(nobody, settings, flat):
    settings.GATEWAY_MAX_ACTIVE_USES, settings.GATEWAY_ACTIVE_USE_SECONDS = 7, 90
    assert status(nobody.as_user(new_user()), flat=flat) == {
        "hasKey": False,
        "type": "community",
        "valid": True,
        "expiry": None,
        "expiresIn": None,
        "maxActiveUses": 7,
        "activeUseLifeTime": 90,
    }


@pytest.mark.parametrize("flat", [True, False])
def test_an_admin_installs_a_licence_and_any_user_sees_it(nobody, admin, vendor, flat):
    body = {"data": {"attributes": {"licenceKey": vendor.licence()}}}
    response = admin.send("POST", "/licence", json=body, flat=flat)
    assert response.status_code == 200, response.text
    document = response.json()
    assert document.keys() == {"code", "message"}
    assert document["code"] == 200
    assert "enterprise, for Example Ltd" in document["message"]
    assert status(nobody.as_user(new_user()), flat=flat) == {
        "hasKey": True,
        "type": "enterprise",
        "valid": True,
        "expiry": in_days(400).isoformat(),
        "expiresIn": 400,
        "maxActiveUses": 100,
        "activeUseLifeTime": 60,
    }


def test_another_one_takes_its_place(admin, vendor):
    admin.post("/licence/", licenceKey=vendor.licence())
    admin.post("/licence/", licenceKey=f"  {vendor.licence(type='trial', max_active_uses=3)}\n")
    assert Licence.objects.count() == 1
    assert (status(admin)["type"], status(admin)["maxActiveUses"]) == ("trial", 3)


FOREIGN = Vendor()
BAD_KEYS = {
    "empty": "",
    "blank": " ",
    "nonsense": "nonsense",
    "parts": "a.b.c",
    "long": "x" * 5000,
    "longer": "x" * 100_000,
    "foreign": FOREIGN.licence(),
    "nul": "a\u0000.b.c",
}


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_does_not_verify_changes_nothing(admin, vendor, key):
    admin.post("/licence/", licenceKey=vendor.licence())
    before = Licence.objects.get()
    refused(admin.post("/licence/", licenceKey=BAD_KEYS[key]), 400, "ValidationError", "licenceKey")
    after = Licence.objects.get()
    assert (after.key, after.installed_at) == (before.key, before.installed_at)
    assert LogEntry.objects.filter(message__contains="licence").count() == 1


@pytest.mark.parametrize("key", [5, None, True, ["a"], {"key": "a"}])
def test_a_key_is_a_text(admin, vendor, key):
    refused(admin.post("/licence/", licenceKey=key), 400, "ValidationError", "licenceKey")


def test_a_key_has_to_be_sent(admin, vendor):
    refused(admin.post("/licence/"), 400, "ValidationError", "licenceKey")
    refused(admin.post("/licence/", licenceKey=vendor.licence(), valid=True), 400, "ValidationError", "valid")
    refused(admin.get("/licence/?id=1"), 400, "ValidationError", "id")


def test_without_the_vendors_public_key_no_key_verifies(admin, settings):
    settings.GATEWAY_LICENCE_PUBLIC_KEY = ""
    response = admin.post("/licence/", licenceKey=FOREIGN.licence())
    refused(response, 400, "ValidationError", "GATEWAY_LICENCE_PUBLIC_KEY")


def test_a_changed_public_key_makes_the_installed_licence_invalid(admin, vendor, settings):
    admin.post("/licence/", licenceKey=vendor.licence())
    settings.GATEWAY_LICENCE_PUBLIC_KEY = FOREIGN.public_key
    result = status(admin)
    assert (result["hasKey"], result["valid"], result["type"], result["expiry"]) == (True, False, "invalid", None)
    settings.GATEWAY_LICENCE_PUBLIC_KEY = vendor.public_key
    assert status(admin)["valid"] is True


def test_one_that_has_expired_is_installed_as_what_it_is(admin, vendor):
    response = admin.post("/licence/", licenceKey=vendor.licence(expiry=in_days(-3)))
    assert response.status_code == 200
    assert "expired" in response.json()["message"]
    result = status(admin)
    assert (result["valid"], result["expiresIn"], result["expiry"]) == (False, -3, in_days(-3).isoformat())


def test_it_is_good_on_its_last_day(admin, vendor):
    admin.post("/licence/", licenceKey=vendor.licence(expiry=in_days(0)))
    assert status(admin)["valid"] is True
    assert status(admin)["expiresIn"] <= 0  # midnight may come in between


def test_who_installed_it_is_in_the_log_and_the_key_is_not(admin, vendor):
    key = vendor.licence()
    admin.post("/licence/", licenceKey=key)
    entry = LogEntry.objects.get(entry_type="Message")
    assert entry.username in entry.message
    assert '"after":{"hasKey":true' in entry.payload
    assert '"before":{"hasKey":false' in entry.payload
    assert entry.address == "127.0.0.1"
    assert key not in entry.payload + entry.message
    assert Licence.objects.get().installed_by_id == entry.user_id
