"""Sessions name the browser and its system, not the whole header that it sent."""

import pytest

from gateway_project.console.display.devices import device_name

MOZILLA = "Mozilla/5.0 "
WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko) "


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (f"{MOZILLA}(X11; Linux x86_64) {WEBKIT}Chrome/140.0.0.0 Safari/537.36", "Chrome on Linux"),
        (f"{MOZILLA}(Windows NT 10.0; Win64; x64) {WEBKIT}Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        (f"{MOZILLA}(Linux; Android 14) {WEBKIT}Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
        (f"{MOZILLA}(iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari on iPhone"),
        (f"{MOZILLA}(Macintosh; Intel Mac OS X 14.7; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on macOS"),
        ("python-requests/2.32", "python-requests/2.32"),
        ("", ""),
    ],
)
def test_a_header_in_words(header, name):
    device = device_name(header)
    assert (device, device.exact) == (name, header)


@pytest.mark.django_db
def test_the_own_sessions_show_it(ann):
    from tests.support.user_pages import log_in

    browser = log_in(ann)
    agent = f"{MOZILLA}(X11; Linux x86_64) {WEBKIT}Chrome/140.0.0.0 Safari/537.36"
    ann.sessions.update(device=agent)
    assert f'<span title="{agent}">Chrome on Linux</span>' in browser.get("/me/account/").text
