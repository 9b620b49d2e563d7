"""Precision and recall, and what the page says of them."""

import pytest

from tests.gateway_project.work.guardrails.detectors.measurement import table
from tests.support.running import ROOT

pytestmark = pytest.mark.embedded


def test_the_page_shows_what_is_measured():
    page = (ROOT / "docs/guardrails.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page
