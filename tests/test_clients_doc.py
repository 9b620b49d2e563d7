"""docs/clients.md: every snippet is run as written, and prints what is shown below it."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.clients.test_openai_node import FOLDER, installed  # noqa: F401  a fixture
from tests.support.pace import patience
from tests.support.running import ROOT
from tests.test_api_doc import fits
from tests.test_newcomer import machine, served  # noqa: F401  fixtures

pytestmark = [pytest.mark.embedded, pytest.mark.long]

PAGE = (ROOT / "docs/clients.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def snippets(*languages):
    """What is to be run, each with what is shown below it."""
    blocks = BLOCK.findall(PAGE)
    shown = [text if kind == "text" else "" for kind, text in [*blocks[1:], ("", "")]]
    return [(text, result) for (kind, text), result in zip(blocks, shown, strict=True) if kind in languages]


@pytest.fixture
def environment(served, tmp_path):  # noqa: F811
    """What the first block of the page exports, with the address of the gateway that runs."""
    address, _ = served
    key = json.loads((tmp_path / "secrets/quickstart.json").read_text())["apiKey"]
    own = {"GATEWAY": address, "GATEWAY_KEY": key}
    exported = snippets("sh")[0][0]
    printed = subprocess.run(["bash", "-c", f"{exported}env"], env=own, check=True, capture_output=True, text=True)
    output = dict(line.split("=", 1) for line in printed.stdout.splitlines() if "_" in line.partition("=")[0][1:])
    return os.environ | output


def check(command, shown, environment):
    process = subprocess.run(
        command, env=environment, cwd=FOLDER, check=False, capture_output=True, text=True, timeout=patience(20)
    )
    assert process.returncode == 0, f"{command[-1]}\n{process.stderr}"
    assert process.stdout.strip()
    assert not shown or fits(shown.strip(), process.stdout.strip()), f"{command[-1]}\nprints\n{process.stdout}"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_every_curl_and_every_python_snippet(environment):
    for text, shown in snippets("sh")[1:]:
        check(["bash", "-euo", "pipefail", "-c", text], shown, environment)
    for text, shown in snippets("python"):
        check([sys.executable, "-c", text], shown, environment)


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no node on this machine")
def test_every_javascript_snippet(environment, installed):  # noqa: F811
    for text, shown in snippets("js"):
        check(["node", "--input-type=module", "-e", text], shown, environment)
