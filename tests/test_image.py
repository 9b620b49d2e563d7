"""An image has all that the gateway serves with, and nothing else that lies beside it."""

import shutil
import tomllib
from contextlib import ExitStack

import pytest
import requests

from tests.support.running import ROOT, RunningGateway
from tests.support.world import World

pytestmark = pytest.mark.either_store

IGNORED, *RULES = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
TAKEN = [rule.removeprefix("!") for rule in RULES if rule.startswith("!")]


def test_what_is_not_named_stays_out():
    assert IGNORED == "*"
    assert not [name for name in TAKEN if name.startswith((".", "*")) or not (ROOT / name).exists()]


def test_every_package_is_taken():
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    assert {*layers} <= {*TAKEN}


@pytest.fixture
def image(tmp_path):
    """The folder /app of an image."""
    folder = tmp_path / "app"
    folder.mkdir()
    for name in TAKEN:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


def test_a_gateway_serves_from_it(store, orm, tmp_path, image):
    gateway = RunningGateway(store, tmp_path)
    gateway.code = image
    with gateway, ExitStack() as resources:
        world = World(gateway, resources)
        world.allow()
        world.provider()
        assert world.ask("hello").status_code == 200
        for page in ("/admin/login/", "/static/gateway/console.css", "/docs/", "/schema/", "/version"):
            assert requests.get(gateway.url + page, timeout=20).status_code == 200, page
