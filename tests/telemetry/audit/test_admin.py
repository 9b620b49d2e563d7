"""The page that proves the chain, and what it does not do."""

import pytest

from telemetry.audit import admin

pytestmark = pytest.mark.django_db
PATH = "/admin/telemetry/auditentry/verify/"


def test_the_page_says_how_many_entries_it_verifies_and_what_verifies_all(console):
    page = console.get(PATH).text
    assert f"at most {admin.MAX_VERIFIED:,} entries" in page
    assert "manage.py audit verify" in page


def test_beyond_that_the_command_is_named_and_nothing_is_read(console, monkeypatch):
    assert "The chain holds" in console.post(PATH, follow=True).text
    monkeypatch.setattr(admin, "MAX_VERIFIED", 0)
    page = console.post(PATH, follow=True).text
    assert "manage.py audit verify" in page
    assert "The chain holds" not in page
