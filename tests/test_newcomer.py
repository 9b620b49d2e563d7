"""What somebody does who has just cloned this: quickstart, serve, and the curl that was printed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from tests.support.running import ROOT, free_port

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine"),
    pytest.mark.embedded,
]


@pytest.fixture
def machine(tmp_path: Path):
    """The environment of a machine on which nothing is configured."""
    ports = {"PORT": str(free_port()), "GATEWAY_DEMO_PORT": str(free_port())}
    unset = {"DATABASE_URL": "", "REDIS_URL": "", "SECRET_KEY": "", "GATEWAY_ENCRYPTION_KEYS": ""}
    return os.environ | unset | ports | {"GATEWAY_VAR_DIR": str(tmp_path)}


def run(machine: dict, *arguments: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=machine, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def served(machine):
    """A prepared gateway that serves: its base address, and what quickstart printed."""
    printed = run(machine, "quickstart")
    process = subprocess.Popen([sys.executable, "manage.py", "serve"], cwd=ROOT, env=machine)
    address = f"http://127.0.0.1:{machine['PORT']}"
    try:
        wait_for(f"{address}/readyz")
        wait_for(f"http://127.0.0.1:{machine['GATEWAY_DEMO_PORT']}/v1/models")
        yield address, printed
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def wait_for(url: str) -> None:
    for _ in range(200):
        try:
            if requests.get(url, timeout=1).status_code == 200:
                return
        except requests.RequestException:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


def pasted(printed: str, *options: str) -> str:
    """The printed curl, as pasted into a shell."""
    command = printed[printed.index("curl ") :].replace("curl ", f"curl -s {' '.join(options)} ", 1)
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=30).stdout


def test_the_printed_curl_is_answered_and_then_answered_from_the_cache(served):
    _, printed = served
    answer = json.loads(pasted(printed))
    assert "Hello!" in answer["choices"][0]["message"]["content"]
    again = pasted(printed, "-i")
    assert "X-Svc-Cache: HIT" in again
    assert json.loads(again.split("\n\n")[-1].split("\r\n\r\n")[-1]) == answer


def test_the_same_as_a_stream_arrives_in_pieces(served):
    _, printed = served
    streamed = pasted(printed.replace('{"model"', '{"stream": true, "model"'), "-N")
    assert streamed.count("data: ") > 3
    assert streamed.rstrip().endswith("data: [DONE]")


@pytest.mark.slow
def test_quickstart_again_says_the_same_and_changes_nothing(machine):
    first = run(machine, "quickstart", "--json")
    assert run(machine, "quickstart", "--json") == first
    assert json.loads(first).keys() == {"baseUrl", "adminUser", "adminPassword", "apiKey", "model"}


@pytest.mark.slow
def test_the_demonstration_provider_ends_with_the_gateway(machine):
    run(machine, "quickstart")
    process = subprocess.Popen([sys.executable, "manage.py", "serve"], cwd=ROOT, env=machine)
    wait_for(f"http://127.0.0.1:{machine['GATEWAY_DEMO_PORT']}/v1/models")
    wait_for(f"http://127.0.0.1:{machine['PORT']}/healthz")
    os.kill(process.pid, signal.SIGKILL)  # its worker notices that its parent is gone
    process.wait()
    for _ in range(100):
        try:
            requests.get(f"http://127.0.0.1:{machine['GATEWAY_DEMO_PORT']}/v1/models", timeout=1)
        except requests.RequestException:
            return
        time.sleep(0.1)
    raise AssertionError("the demonstration provider outlived its gateway")
