"""Precision and recall, and what the page says of them."""

import pytest

from gateway_project.work.guardrails.detectors.compilation import LOCAL_TYPES
from tests.gateway_project.work.guardrails.detectors.measurement import TYPES, table
from tests.gateway_project.work.guardrails.detectors.samples import labelled
from tests.support.running import ROOT

pytestmark = pytest.mark.embedded


def test_the_page_shows_what_is_measured():
    page = (ROOT / "docs/guardrails.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page


def test_each_type_has_texts_with_and_without_something():
    assert set(TYPES) == set(LOCAL_TYPES)
    for type in TYPES:
        assert {bool(sample.parts) for sample in labelled(type)} == {True, False}, type
