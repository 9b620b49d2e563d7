"""The console in a real browser: Debian's Chromium, driven over a running gateway."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path

import pytest
import requests

from tests.support.console.checks import findings, problems_on
from tests.support.pace import patience, slowness
from tests.support.running import RunningGateway, Store, fresh_store
from tests.support.thoroughness import THOROUGH

# The first has no windows of its own, and takes half as long.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
# It asks its maker's servers for this and that, which a machine without the outside world refuses many at a time.
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
TURNS = cycle(LOOKS)
# The theme asks for the colours of the system once, when a page is loaded; changes of colours take their time.
SWITCH = """
isDark => {
  document.documentElement.classList.toggle("dark", isDark);
  const shown = new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const still = shown.then(() => Promise.allSettled(document.getAnimations().map(animation => animation.finished)));
  const late = new Promise(done => setTimeout(done, 1000));  // some animations never finish
  return Promise.race([still, late]).then(() => null);
}
"""
QUIET_SECONDS = 0.15  # a page that asks for nothing so long has what it needs
USERNAME, PASSWORD = "console-admin", "a long pass phrase for tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_of_console(item.path):
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="needs Chromium"))


@cache
def is_of_console(path: Path) -> bool:
    return path.is_relative_to(Path(__file__).parent)


def stand_still(page: object) -> None:
    """Wait until a page has loaded and asks for nothing more; the browser forgets now and then to say the latter."""
    from playwright.sync_api import TimeoutError as NeverSaid

    page.wait_for_load_state("load")
    with suppress(NeverSaid):
        page.wait_for_load_state("networkidle", timeout=15_000)


@dataclass
class Console:
    """A browser's window at the console, signed in unless told otherwise; it notes what goes wrong on its pages."""

    page: object
    url: str
    problems: list[str] = field(default_factory=list)
    open_requests: set = field(default_factory=set)  # requests that are not answered yet
    latest: float = 0.0  # when the last request began or ended
    site: str = "admin"  # or "me": the user's own pages

    def __post_init__(self) -> None:
        self.page.set_default_timeout(30_000 * slowness())
        self.page.on("request", self._ask)
        self.page.on("requestfinished", self._end)
        self.page.on("requestfailed", self._end)
        self.page.on("pageerror", lambda error: self.problems.append(f"error on {self.page.url}: {error}"))
        self.page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        self.page.on("response", self._note)

    def _ask(self, request) -> None:
        self.open_requests.add(request)
        self.latest = time.monotonic()

    def _end(self, request) -> None:
        self.open_requests.discard(request)
        self.latest = time.monotonic()

    def _note(self, response) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.status} {response.url}")
        if not response.url.startswith((self.url, "data:")):
            self.problems.append(f"went outside: {response.url}")

    def open(self, path: str) -> None:
        """Go to a path of the site and wait until it stands still."""
        self.page.goto(f"{self.url}/{self.site}/{path}")
        if self.page.query_selector("[data-refresh]") is None:  # what asks again and again never stands still
            self._wait_for_answers()

    def _wait_for_answers(self) -> None:
        """Wait until nothing is under way. The browser waits half a second more, and forgets now and then to say so."""
        deadline = time.monotonic() + patience(5)
        while self.open_requests or time.monotonic() - self.latest < QUIET_SECONDS:
            unanswered = [request.url for request in self.open_requests]
            assert time.monotonic() < deadline, f"not answered on {self.page.url}: {unanswered}"
            self.page.wait_for_timeout(25)

    def sign_in(self, username: str = USERNAME, password: str = PASSWORD) -> None:
        self.open("")
        self.page.fill("input[name=username]", username)
        self.page.fill("input[name=password]", password)
        self.page.click("button[type=submit]")
        stand_still(self.page)

    def check(self) -> list[str]:
        """What is wrong with the page as it stands: errors, overlaps, findings of axe."""
        return [*self.problems, *problems_on(self.page)]

    def check_looks(self, *, every: bool = THOROUGH) -> dict[str, list[str]]:
        """The same of each look in which something is wrong; the page is loaded once, and ends as it was: light.

        In `make test` a page has one look, and the next page the next one.
        """
        problems = {}
        looks = list(reversed(LOOKS)) if every else [next(TURNS)]
        for look in looks:
            self._show(look)
            # The dark page differs from the light one in its colours alone.
            own = findings(self.page, "color-contrast") if look == "dark" else problems_on(self.page)
            if self.problems or own:
                problems[look] = [*self.problems, *own]
        if looks[-1] != "light":
            self._show("light")
        return problems

    def _show(self, look: str) -> None:
        self.page.emulate_media(color_scheme=LOOKS[look]["color_scheme"])
        self.page.set_viewport_size(LOOKS[look]["viewport"])
        self.page.evaluate(SWITCH, look == "dark")


class Visitor:
    """A client of the console, or of a user's own pages, without a browser."""

    def __init__(self, url: str, site: str = "admin") -> None:
        self.url, self.site = url, site
        self.session = requests.Session()

    def get(self, path: str, **options) -> requests.Response:
        return self.session.get(
            f"{self.url}/{self.site}/{path}", allow_redirects=False, timeout=patience(20), **options
        )

    def post(self, path: str, *, forged: bool = False, **fields) -> requests.Response:
        token = "x" * 64 if forged else self.session.cookies.get("csrftoken", "")
        headers = {"Origin": self.url}
        data = {"csrfmiddlewaretoken": token, **fields}
        where = f"{self.url}/{self.site}/{path}"
        return self.session.post(where, data=data, headers=headers, allow_redirects=False, timeout=patience(20))

    def sign_in(self, username: str = USERNAME, **more) -> requests.Response:
        self.get("login/")
        return self.post("login/", username=username, password=PASSWORD, **more)


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A database of the console's own: what administrators allow in the browser must not reach other tests."""
    with fresh_store(tmp_path_factory.mktemp("console-store")) as row:
        yield row


@pytest.fixture(scope="package")
def gateway(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """The gateway whose console is looked at."""
    with RunningGateway(store, tmp_path_factory.mktemp("console-gateway")) as running:
        yield running


@pytest.fixture(scope="package")
def browser() -> Iterator:
    """One Chromium for the tests of this folder that a process runs; its event loop ends before other tests begin."""
    from playwright.sync_api import sync_playwright

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # playwright runs a loop in this thread; the ORM has nothing to fear
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture
def visitor(browser, gateway: RunningGateway, orm: None) -> Iterator:
    """Opens windows at the console that nobody has signed in at: visitor("phone") -> Console."""
    from accounts import services
    from accounts.models import User

    if not User.objects.with_username(USERNAME).exists():
        services.create_user(username=USERNAME, password=PASSWORD, roles=["admin"])
    contexts = []

    def window(look: str = "light", **options: object) -> Console:
        contexts.append(browser.new_context(**LOOKS[look] | options))
        return Console(contexts[-1].new_page(), gateway.url)

    yield window
    for context in contexts:
        context.close()


@pytest.fixture(scope="package")
def signed_in(browser) -> dict[str, object]:
    """For each look what an administrator's windows share: the session, and what the browser has loaded already."""
    return {}


@pytest.fixture
def console(browser, visitor, signed_in, gateway: RunningGateway) -> Iterator:
    """Opens windows that an administrator has signed in at: console("dark") -> Console."""
    pages = []

    def window(look: str = "light") -> Console:
        if look not in signed_in:
            signed_in[look] = browser.new_context(**LOOKS[look])
        # Other tests may have ended the administrator's logins. Whoever has one is led on from its page.
        if signed_in[look].request.get(f"{gateway.url}/admin/login/", max_redirects=0).status != 302:
            Console(signed_in[look].new_page(), gateway.url).sign_in()
        pages.append(signed_in[look].new_page())
        return Console(pages[-1], gateway.url)

    yield window
    for page in pages:
        page.evaluate("location.protocol.startsWith('http') && localStorage.clear()")
        page.close()


@pytest.fixture
def hand(console) -> Iterator:
    """The hand of an administrator who has opened the first page."""
    from tests.support.console.hand import Hand

    hand = Hand(console())
    hand.window.open("")
    yield hand
    assert hand.window.problems == []


@pytest.fixture
def visitor_without_a_browser(visitor, gateway: RunningGateway) -> Visitor:
    return Visitor(gateway.url)


@pytest.fixture
def administrator(visitor_without_a_browser) -> Visitor:
    assert visitor_without_a_browser.sign_in().status_code == 302
    return visitor_without_a_browser
