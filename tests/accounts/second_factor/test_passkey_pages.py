"""The pages for passkeys, in the console and among those for users: setup, login, removal."""

import json

import pytest
from django.contrib.sessions.models import Session as BrowserSession
from django.test import Client
from fido2.utils import websafe_encode

from accounts.models import Passkey, RecoveryCode
from telemetry.audit.models import AuditEntry
from tests.support.management import PASSWORD, new_user
from tests.support.second_factor import Device, codes_on
from tests.support.second_factor_pages import ORIGIN, actions, enter, give, is_in, options_on

pytestmark = [pytest.mark.django_db, pytest.mark.either_store, pytest.mark.usefixtures("own_throttle")]


class TestPasskeys:
    @pytest.fixture
    def device(self) -> Device:
        return Device(ORIGIN)

    def register(self, browser, site, device, **values):
        path = f"/{site}/second-factor/passkeys/new/"
        answer = device.make(options_on(browser.get(path)))
        return browser.post(path, {"name": "key", "current_password": PASSWORD, "credential": answer, **values})

    @pytest.fixture
    def registered(self, browser, user, site, device) -> Device:
        assert len(codes_on(self.register(browser, site, device).text)) == 10
        browser.logout()
        return device

    @pytest.mark.long
    def test_one_is_added_and_logs_in(self, registered, browser, user, site):
        assert actions() == ["add passkey"]
        assert enter(browser, site).headers["Location"] == f"/{site}/login/code/"
        options = options_on(browser.get(f"/{site}/login/code/"))
        assert options["userVerification"] == "preferred"
        response = give(browser, site, credential=registered.sign(options))
        assert (response.status_code, response.headers["Location"]) == (302, f"/{site}/")
        assert is_in(browser, site)
        passkey = Passkey.objects.get()
        assert (passkey.sign_count, passkey.rp_id) == (1, "testserver")
        assert passkey.last_used_at

    @pytest.mark.long
    def test_a_count_that_does_not_rise_is_refused(self, registered, browser, user, site):
        Passkey.objects.update(sign_count=5)
        enter(browser, site)
        options = options_on(browser.get(f"/{site}/login/code/"))
        assert "not accepted" in give(browser, site, credential=registered.sign(options)).text
        assert AuditEntry.objects.filter(message__contains="may be a copy").exists()
        assert not is_in(browser, site)

    @pytest.mark.long
    @pytest.mark.parametrize("field", ["authenticatorData", "signature", "clientDataJSON"])
    def test_an_answer_of_a_wrong_form_is_refused(self, registered, browser, user, site, field):
        enter(browser, site)
        answer = json.loads(registered.sign(options_on(browser.get(f"/{site}/login/code/"))))
        # CBOR that ends in the middle, behind the flag that an extension follows.
        answer["response"][field] = websafe_encode(bytes(32) + b"\x81" + bytes(4) + b"\xb9\x00")
        response = give(browser, site, credential=json.dumps(answer))
        assert response.status_code == 200
        assert "not accepted" in response.text

    def test_a_new_one_of_a_wrong_form_is_refused(self, browser, user, site, device):
        path = f"/{site}/second-factor/passkeys/new/"
        answer = json.loads(device.make(options_on(browser.get(path))))
        answer["response"]["attestationObject"] = websafe_encode(b"\xb9\x00")
        values = {"name": "key", "current_password": PASSWORD, "credential": json.dumps(answer)}
        assert browser.post(path, values).status_code == 200
        assert not Passkey.objects.exists()

    @pytest.mark.long
    def test_a_challenge_is_for_one_use_in_one_browser(self, registered, browser, user, site):
        enter(browser, site)
        options = options_on(browser.get(f"/{site}/login/code/"))
        answer = registered.sign(options)
        other = Client()
        enter(other, site)
        other.get(f"/{site}/login/code/")
        assert "not accepted" in give(other, site, credential=answer).text
        between = browser.cookies["SvcConsole"].value
        row = BrowserSession.objects.get(pk=browser.session._get_session_from_db().pk)
        assert give(browser, site, credential=answer).status_code == 302
        BrowserSession(session_key=row.session_key, session_data=row.session_data, expire_date=row.expire_date).save()
        thief = Client()  # the same session and the same answer once more, as if both had come at once
        thief.cookies["SvcConsole"] = between
        Passkey.objects.update(sign_count=0)
        assert "not accepted" in give(thief, site, credential=answer).text

    @pytest.mark.parametrize("origin", ["http://evil.example", "http://testserver.evil.example", "https://testserver"])
    def test_the_page_must_be_ours(self, browser, site, origin):
        assert "not accepted" in self.register(browser, site, Device(origin)).text
        assert not Passkey.objects.exists()

    @pytest.mark.long
    def test_another_device_is_refused(self, registered, browser, site):
        enter(browser, site)
        options = options_on(browser.get(f"/{site}/login/code/"))
        other = Device(ORIGIN, id=registered.id)
        assert "not accepted" in give(browser, site, credential=other.sign(options)).text

    @pytest.mark.long
    @pytest.mark.parametrize("answer", ["x", "{}", "[]", "null", "1", '{"id": 1}', "[" * 30_000, '{"rawId": "é"}'])
    def test_any_answer_gets_a_page(self, registered, browser, site, answer):
        enter(browser, site)
        browser.get(f"/{site}/login/code/")
        assert "not accepted" in give(browser, site, credential=answer).text

    @pytest.mark.parametrize("answer", ["", "x", "{}", "[]", "null", '{"id": 1, "rawId": 1, "response": 1}'])
    def test_any_new_passkey_gets_a_page(self, browser, site, answer):
        browser.get(f"/{site}/second-factor/passkeys/new/")
        values = {"name": "key", "current_password": PASSWORD, "credential": answer}
        assert "not accepted" in browser.post(f"/{site}/second-factor/passkeys/new/", values).text

    @pytest.mark.long
    def test_there_can_be_several_and_each_can_be_removed(self, browser, user, site, device):
        self.register(browser, site, device)
        assert self.register(browser, site, Device(ORIGIN), name="spare").status_code == 302
        assert "with this name" in self.register(browser, site, Device(ORIGIN), name="spare").text
        assert "with this name" in self.register(browser, site, device, name="third").text
        for passkey in Passkey.objects.all():
            path = f"/{site}/second-factor/passkeys/{passkey.pk}/remove/"
            assert browser.post(path, {"current_password": PASSWORD}).status_code == 302
        assert not Passkey.objects.exists()
        assert not RecoveryCode.objects.exists()
        assert actions() == ["add passkey", "add passkey", "remove passkey", "remove passkey"]

    @pytest.mark.long
    def test_nobody_removes_that_of_another_user(self, browser, site, device):
        self.register(browser, site, device)
        row = Passkey.objects.get()
        row.user = new_user()
        row.save()
        for row_id in (row.pk, 2**70):
            path = f"/{site}/second-factor/passkeys/{row_id}/remove/"
            assert browser.post(path, {"current_password": PASSWORD}).status_code == 404
        assert Passkey.objects.exists()
