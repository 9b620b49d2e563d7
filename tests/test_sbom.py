"""`make sbom` lists what requirements.lock installs, no more and no less."""

import json
import re
import shutil
import subprocess

import pytest

from tests.support.pace import patience
from tests.support.running import ROOT

pytestmark = pytest.mark.either_store

PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==([^\s;]+)", re.MULTILINE | re.IGNORECASE)


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """What the command of the Makefile writes."""
    folder = tmp_path_factory.mktemp("sbom")
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    (recipe,) = re.findall(r"^\t(\$\(BIN\)/cyclonedx-py .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    subprocess.run(
        recipe.replace("$(BIN)", str(ROOT / ".venv/bin")).split(), cwd=folder, check=True, timeout=patience(20)
    )
    return json.loads((folder / "sbom.json").read_text())


@pytest.mark.long
def test_it_is_of_this_product(document):
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "language-model-gateway"


@pytest.mark.long
def test_it_lists_what_is_installed_with_version_and_hashes(document):
    listed = {(one["name"], one["version"]) for one in document["components"]}
    assert listed == set(PINNED.findall((ROOT / "requirements.lock").read_text()))
    for one in document["components"]:
        assert one["purl"].startswith("pkg:pypi/")
        hashes = [row["content"] for place in one["externalReferences"] for row in place.get("hashes", ())]
        assert hashes, one["name"]
