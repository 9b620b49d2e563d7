"""The console's cookie, with what no browser was ever given."""

import pytest

from tests.support.thoroughness import first_of

pytestmark = pytest.mark.django_db
COOKIES = [
    r'"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\000"',
    r'"\000"',
    r'"a\000aaaaaaaaaaaa"',
    "x" * 1000,
    r'"\351\351\351\351\351\351\351\351\351"',
]


@pytest.mark.parametrize("value", first_of(*COOKIES, values=2))
@pytest.mark.parametrize("path", ["/admin/", "/admin/login/", "/admin/logout/"])
def test_a_cookie_that_holds_no_key_of_ours_is_nobodys(client, value, path):
    answer = client.get(path, headers={"Cookie": f"SvcConsole={value}"})
    assert answer.status_code in (200, 302, 405), answer.text
