"""Keys that are changed together, from the list of the console."""

from datetime import timedelta

import pytest
from django.utils import timezone

from keys.models import ApiKey
from keys.services import issue_key, update_key
from tests.support.management import new_user

pytestmark = pytest.mark.either_store


class TestSelectedKeys:
    """Keys that are changed together from the list."""

    @pytest.fixture
    def keys(self):
        ann = new_user()
        return [issue_key(owner=ann, name=name).key for name in ("a", "b", "c")]

    def act(self, console, action, keys, **values):
        selected = {"action": action, "_selected_action": [key.pk for key in keys]}
        return console.post("/admin/keys/apikey/", selected | values)

    def test_nothing_happens_before_the_page_is_confirmed(self, console, keys):
        page = self.act(console, "lock_selected", keys[:2]).text
        assert "Lock 2 API keys" in page
        assert "until they are unlocked" in page
        assert not ApiKey.objects.exclude(locked_time=None).exists()

    def test_they_are_locked_and_the_others_are_not(self, console, keys):
        update_key(keys[0], locked=True)
        self.act(console, "lock_selected", keys[:2], post="yes")
        assert set(ApiKey.objects.filter(locked_time=None)) == {keys[2]}

    def test_they_expire(self, console, keys):
        self.act(console, "expire_selected", keys[:2], post="yes")
        assert set(ApiKey.objects.expired()) == set(keys[:2])

    def test_they_are_extended_to_the_end_of_a_day(self, console, keys):
        update_key(keys[0], expire=True)
        self.act(console, "extend_selected", keys, post="yes", last_day="2100-12-31")
        ends = dict(ApiKey.objects.values_list("name", "expiry"))
        assert ends["a"] <= timezone.now(), "an expired key stays expired"
        assert {ends[name].strftime("%Y-%m-%d %H:%M") for name in "bc"} == {"2100-12-31 23:59"}

    def test_an_extension_shortens_no_key(self, console, keys):
        update_key(keys[0], expiry=None)
        update_key(keys[1], expiry=timezone.now() + timedelta(days=700))
        update_key(keys[2], expiry=timezone.now() + timedelta(days=1))
        before = dict(ApiKey.objects.values_list("name", "expiry"))
        last_day = (timezone.now() + timedelta(days=30)).date()
        self.act(console, "extend_selected", keys, post="yes", last_day=last_day.isoformat())
        after = dict(ApiKey.objects.values_list("name", "expiry"))
        assert [name for name in "abc" if after[name] != before[name]] == ["c"]
        assert after["c"].date() == last_day
        assert "1 of 3 API keys changed. 2 stay as they are." in console.get("/admin/keys/apikey/").text

    @pytest.mark.parametrize("last_day", ["", "tomorrow", "2100-02-30"])
    def test_a_day_that_is_none_is_refused_beside_the_field(self, console, keys, last_day):
        answer = self.act(console, "extend_selected", keys, post="yes", last_day=last_day)
        assert 'role="alert"' in answer.text
        assert ApiKey.objects.filter(expiry__year=2100).count() == 0

    def test_a_day_beyond_the_bound_is_refused_for_each_key(self, console, keys, settings):
        settings.GATEWAY_KEY_MAX_DAYS = 30
        self.act(console, "extend_selected", keys, post="yes", last_day="2100-12-31")
        messages = console.get("/admin/keys/apikey/").text
        assert "within 30 days" in messages
        assert "0 of 3 API keys changed." in messages
