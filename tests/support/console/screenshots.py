"""`make screenshots`: the pictures of docs/console.md, of a gateway of its own with a day's work in it."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import requests
from playwright.sync_api import Page, sync_playwright

from tests.console.conftest import CHROMIUM, LOOKS, OPTIONS
from tests.support.running import ROOT, free_port

IMAGES = ROOT / "docs" / "images"
# Name of the picture: path below /admin/, look.
PICTURES = {
    "overview": ("", "light"),
    "overview-dark": ("", "dark"),
    "overview-phone": ("", "phone"),
    "log": ("telemetry/logentry/", "light"),
    "log-entry": ("telemetry/logentry/80/change/", "light"),
    "statistics": ("statistics/?by=model", "light"),
    "provider": ("providers/provider/1/change/", "light"),
    "rule": ("rules/rule/1/change/", "light"),
    "system": ("system/", "light"),
    "me": ("../me/", "light"),
}
PROMPTS = ("Capital of Portugal?", "Translate: good morning", "Summarise the minutes", "Write a haiku on rain")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        environ = os.environ | {
            "GATEWAY_VAR_DIR": directory,
            "PORT": str(port),
            "GATEWAY_DEMO_PORT": str(free_port()),
            "GATEWAY_LOG_INTERVAL": "0.05",
            "GIT_DIR": directory,  # pictures tell the version, and not from which commit they are
        }
        command = [sys.executable, "manage.py", "quickstart", "--json"]
        body = json.loads(subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True).stdout)
        server = subprocess.Popen([sys.executable, "manage.py", "serve"], cwd=ROOT, env=environ)
        try:
            work(body)
            draw(body)
        finally:
            server.terminate()
            server.wait(20)


def work(values: dict[str, str]) -> None:
    """Send some requests, so that there is something to see."""
    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=requests.adapters.Retry(20, backoff_factor=0.2)))
    session.headers["Authorization"] = f"Bearer {values['apiKey']}"
    for number in range(80):
        prompt = f"{PROMPTS[number % len(PROMPTS)]} ({number // 8})"
        body = {"model": values["model"], "messages": [{"role": "user", "content": prompt}]}
        session.post(f"{values['baseUrl']}/work", json=body, timeout=30)


def draw(values: dict[str, str]) -> None:
    """Take all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        pages = {look: browser.new_context(**options).new_page() for look, options in LOOKS.items()}
        for page in pages.values():
            sign_in(page, values)
        for name, (path, look) in PICTURES.items():
            pages[look].goto(f"{values['baseUrl']}/admin/{path}")
            pages[look].wait_for_load_state("networkidle")
            pages[look].screenshot(path=IMAGES / f"{name}.png")
        playground(pages["light"], values)
        browser.close()


def sign_in(page: Page, values: dict[str, str]) -> None:
    page.goto(f"{values['baseUrl']}/admin/")
    page.fill("input[name=username]", values["adminUser"])
    page.fill("input[name=password]", values["adminPassword"])
    page.click("button[type=submit]")
    page.wait_for_load_state("networkidle")


def playground(page: Page, values: dict[str, str]) -> None:
    page.goto(f"{values['baseUrl']}/admin/playground/")
    page.fill("[name=model]", values["model"])
    page.fill("[name=second]", values["model"])
    page.fill("[name=prompt]", "What is a gateway for?")
    page.click("button[type=submit] >> text=Send")
    # Both sides have their time, cost and link to the log.
    page.wait_for_function("document.querySelectorAll('[data-note] a').length > 1")
    page.screenshot(path=Path(IMAGES / "playground.png"))


if __name__ == "__main__":
    main()
