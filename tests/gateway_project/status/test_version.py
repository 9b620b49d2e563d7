"""Which code this is."""

import tomllib
from pathlib import Path

from gateway_project import PRODUCT_VERSION
from gateway_project.status.version import revision


def test_anybody_may_ask_in_either_form(nobody):
    for flat in (True, False):
        response = nobody.get("/version/", flat=flat)
        assert response.status_code == 200
        body = response.json()["data"]
        assert body.keys() == {"branch", "git", "productVersion", "updateAvailable"}
        assert all(isinstance(value, str) for value in body.values())
        assert body["productVersion"] == PRODUCT_VERSION


def test_the_version_is_the_packages():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["version"] == PRODUCT_VERSION


def test_an_image_names_its_revision_in_a_file(tmp_path):
    (tmp_path / "REVISION").write_text("main 0123abc\n")
    assert revision(tmp_path) == ("main", "0123abc")


def test_code_that_is_in_no_repository_does_not_know(tmp_path):
    assert revision(tmp_path) == ("", "")
