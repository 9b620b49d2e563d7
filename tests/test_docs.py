"""What the documentation claims."""

import re
import sys
from pathlib import Path

import pytest
from django.conf import settings

from gateway_project.api import strict_json
from gateway_project.work.pipeline import STAGES
from gateway_project.work.reading.headers import MAX_TAGS, TAG
from gateway_project.work.reading.request import MODEL_LENGTH
from providers.formats import FORMATS
from providers.formats.translated import CLIENT_NAMES, PARAMETERS, TranslatedFormat

pytestmark = pytest.mark.either_store

ROOT = Path(__file__).resolve().parent.parent
READ = re.compile(r'env\.\w+\(\s*"([A-Z_]+)"|self\.\w+\("([A-Z_]+)"')


def test_every_setting_is_listed_and_none_that_does_not_exist():
    source = (ROOT / "gateway_project/settings.py").read_text() + (ROOT / "gateway_project/env.py").read_text()
    read = {one or other for one, other in READ.findall(source)}
    lines = (ROOT / "docs/settings.md").read_text().splitlines()
    table = [line.split("|")[1] for line in lines if line.startswith("| `")]
    listed = {name for cell in table for name in re.findall(r"`([A-Z_]+)`", cell)}
    assert read == listed


def test_every_make_target_that_the_documents_name_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
        assert set(re.findall(r"^make ([a-z-]+)", (ROOT / name).read_text(), re.MULTILINE)) <= targets


def test_the_files_that_the_documents_point_to_exist():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for path in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert (document.parent / path).exists(), f"{document.name} points to {path}"


def headings(path):
    """The anchors of a page, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_the_headings_that_the_documents_point_to_exist():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for path, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)]+)\)", document.read_text()):
            page = document.parent / path if path else document
            assert anchor in headings(page), f"{document.name} points to {path}#{anchor}"


def test_the_page_about_access_has_two_pages_and_names_all_that_it_summarises():
    page = (ROOT / "docs/access.md").read_text()
    assert len(page.split()) <= 1000
    topics = (
        "keys",
        "groups",
        "sso",
        "second-factor",
        "scim",
        "workloads",
        "access-tests",
        "access-requests",
        "limits",
    )
    for topic in (*topics, "revocation", "explain", "management-api"):
        assert f"]({topic}.md" in page, topic


def test_the_path_of_a_request_has_every_stage():
    diagram = (ROOT / "docs/architecture.md").read_text().split("```")[1]
    shown = [name for name in re.findall(r"[a-z_]+", diagram) if name in {stage.run.__name__ for stage in STAGES}]
    assert shown == [stage.run.__name__ for stage in STAGES]


def test_the_code_that_the_documents_name_exists():
    documents = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "docs/architecture.md"]
    for document in documents:
        for path in re.findall(r"`([a-z_]+(?:/[a-z0-9_]+)+(?:/|\.py))`", document.read_text()):
            places = (ROOT / path, ROOT / "gateway_project" / path, ROOT / "providers" / path)
            assert any(place.exists() for place in places), f"{document.name} names {path}"


TRANSLATED = {name: format for name, format in FORMATS.items() if isinstance(format, TranslatedFormat)}


def parameter_rows():
    """Which format translates which parameter, as docs/formats.md shows it."""
    cells = {
        name: ["✓" if name in format.translated_parameters else "" for format in TRANSLATED.values()]
        for name in PARAMETERS
    }
    return [f"| `{CLIENT_NAMES.get(name, name)}` | {' | '.join(cells[name])} |" for name in sorted(PARAMETERS)]


def native_rows():
    """The parameters that each format lets pass."""

    def told(names):
        return ", ".join(f"`{name}`" for name in sorted(names)) or "–"

    return [
        f"| `{name}` | {told(one.native_parameters)} | {told(one.native_embedding_parameters)} |"
        for name, one in TRANSLATED.items()
    ]


def test_the_page_of_formats_says_what_they_translate():
    page = (ROOT / "docs/formats.md").read_text()
    heading = f"| parameter | {' | '.join(TRANSLATED)} |"
    for line in (heading, *parameter_rows(), *native_rows()):
        assert line in page, f"docs/formats.md lacks this line: {line}"
    assert set(re.findall(r"^### ([a-z-]+)$", page, re.MULTILINE)) == set(FORMATS)


def test_the_bounds_of_a_work_body_are_those_of_the_code():
    """Each figure in the table of docs/api.md."""
    size = settings.GATEWAY_MAX_BODY_BYTES // 1024**2
    tag_name, tag_value = re.findall(r"\{\d,(\d+)\}", TAG.pattern)
    bounds = {
        "Size of the body": f"{size} MiB (`GATEWAY_MAX_BODY_BYTES`)",
        "Depth of nesting": f"{strict_json.MAX_DEPTH} levels",
        "Objects and lists": f"{strict_json.MAX_CONTAINERS:,}",
        "Values": f"{strict_json.MAX_VALUES:,}, measured by the number of commas",
        "Digits of an integer": f"{sys.get_int_max_str_digits():,}",
        "Length of the model's name": f"{MODEL_LENGTH} characters",
        "Tags in `X-Svc-Tags`": (
            f"{MAX_TAGS}, with names of at most {tag_name} and values of at most {tag_value} characters"
        ),
    }
    table = (ROOT / "docs/api.md").read_text().partition("| Limit | Maximum |\n|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [f"| {name} | {figure} |" for name, figure in bounds.items()]
