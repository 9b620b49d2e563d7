"""docs/api.md: every operation has a curl, and each is executed as written, in order; the answers are those shown."""

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import resolve

from gateway_project.api.access import DIRECTORY, TABLE
from gateway_project.api.routes import routes
from tests.support.running import ROOT
from tests.test_newcomer import machine, served  # noqa: F401  fixtures

pytestmark = [pytest.mark.embedded, pytest.mark.long]

PAGE = ROOT / "docs/api.md"
BLOCK = re.compile(r"^```(sh|http)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END = "-- the end of a block --"
SHOWN_BASE = "http://127.0.0.1:8000"


@dataclass
class Step:
    """What is pasted into a shell, and the answer that is shown below it."""

    command: str
    shown: str = ""

    def requests(self) -> list[tuple[str, str]]:
        """(method, path with query) of each curl."""
        lines = self.command.replace("\\\n", " ")
        curls = re.findall(r"^curl .*?(?=^\S|\Z)", lines, re.MULTILINE | re.DOTALL)
        return [_request(shlex.split(curl)) for curl in curls]


def _request(words: list[str]) -> tuple[str, str]:
    (url,) = [word for word in words if word.startswith("$GATEWAY/")]
    method = words[words.index("-X") + 1] if "-X" in words else "POST" if "-d" in words else "GET"
    return method, url.removeprefix("$GATEWAY")


@dataclass
class Reply:
    """A response as curl -i prints it, or as the page shows it."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: str = ""

    @classmethod
    def read(cls, text: str) -> "Reply":
        head, _, body = text.replace("\r\n", "\n").strip().partition("\n\n")
        first, *lines = head.split("\n")
        return cls(int(first.split()[1]), [tuple(line.split(": ", 1)) for line in lines], body)


def steps() -> list[Step]:
    results: list[Step] = []
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "sh":
            results.append(Step(text))
        else:
            results[-1].shown = text
    return results


def executed(commands: list[Step], environment: dict[str, str], directory: Path) -> list[str]:
    """What each step prints, all in one shell; curl is told by its own configuration to print headers."""
    (directory / ".curlrc").write_text("silent\ninclude\nmax-time = 30\n")
    script = "".join(f"{step.command}\nprintf '\\n{END}\\n'\n" for step in commands)
    environment = environment | {"CURL_HOME": str(directory)}
    options = {"cwd": directory, "env": environment, "capture_output": True, "text": True, "timeout": 300}
    process = subprocess.run(["bash", "-euo", "pipefail", "-c", script], check=False, **options)
    outputs = process.stdout.split(f"\n{END}\n")[:-1]
    assert process.returncode == 0, f"{commands[len(outputs)].command}\n{process.stdout[-2000:]}{process.stderr}"
    return outputs


def fits(shown: str, real: str) -> bool:
    """Whether a text is the one shown, where … stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), real, re.DOTALL) is not None


def same_shape(shown: object, real: object) -> bool:
    """The same names and the same sorts of values, or null; a list may be longer than is shown."""
    if shown is None or real is None:
        return True
    if isinstance(shown, dict) and isinstance(real, dict):
        return shown.keys() == real.keys() and all(same_shape(shown[name], real[name]) for name in shown)
    if isinstance(shown, list) and isinstance(real, list):
        return len(real) >= len(shown) and all(map(same_shape, shown, real))
    numbers = isinstance(shown, int | float) and isinstance(real, int | float)
    return type(shown) is type(real) or (numbers and not isinstance(shown, bool) and not isinstance(real, bool))


def differences(shown: Reply, real: Reply) -> list[str]:
    status = [] if shown.status == real.status else [f"status {real.status}, not {shown.status}"]
    for name, value in shown.headers:
        if not any(values == name and fits(value, result) for values, result in real.headers):
            status.append(f"no header {name}: {value} in {real.headers}")
    if shown.body.startswith("{") and not same_shape(json.loads(shown.body), json.loads(real.body)):
        status.append(f"body {real.body}")
    elif shown.body and not shown.body.startswith("{") and not fits(shown.body.strip(), real.body.strip()):
        status.append(f"text {real.body[:1000]}")
    return status


@pytest.mark.timeout(400)
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_every_curl_is_answered_as_the_page_shows(served, tmp_path):  # noqa: F811
    address, _ = served
    prepared = json.loads((tmp_path / "secrets/quickstart.json").read_text())
    environment = {
        "PATH": os.environ["PATH"],
        "GATEWAY": address,
        "GATEWAY_KEY": prepared["apiKey"],
        "ADMIN_PASSWORD": prepared["adminPassword"],
    }
    commands = steps()
    for step, output in zip(commands, executed(commands, environment, tmp_path), strict=True):
        if not step.shown:
            assert not step.requests(), f"no answer is shown for:\n{step.command}"
            continue
        text = output or (tmp_path / "refreshed.txt").read_text()
        real = Reply.read(text.replace(address, SHOWN_BASE))
        assert differences(Reply.read(step.shown), real) == [], step.command


def test_every_operation_has_a_curl():
    shown = {operation for step in steps() for request in step.requests() for operation in operations(*request)}
    routed = {(route.resource or route.name) for route in routes() if route.method}
    needed = {(name, operation) for name in TABLE.keys() & routed for operation in TABLE[name]}
    # docs/scim.md is for directories: SCIM describes itself.
    others = [route for route in routes() if route.method and not route.resource and route.who != DIRECTORY]
    needed |= {(route.name, route.method) for route in others}
    assert needed - shown == set()


def operations(method: str, path: str) -> list[tuple[str, str]]:
    """What a request asks for, as (resource, operation) of the table or (name, method) of another route."""
    url = urlsplit(path)
    result = resolve(url.path)
    actions = getattr(result.func, "actions", None)
    if actions is None:
        return [(result.url_name, method.lower())]
    current = parse_qs(url.query).get("currentUser") == ["true"]
    return [(result.func.cls.resource_name, "current" if current else actions[method.lower()])]
