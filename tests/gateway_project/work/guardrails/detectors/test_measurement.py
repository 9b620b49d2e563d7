"""Precision and recall, and what the page says of them."""

import base64
import codecs
import re

import pytest

from gateway_project.work.guardrails.detectors import compile_detector
from gateway_project.work.guardrails.detectors.compilation import LOCAL_TYPES
from gateway_project.work.guardrails.detectors.kinds.detectors import PII, SECRETS
from gateway_project.work.guardrails.detectors.kinds.national_kinds import NATIONAL_KINDS
from tests.support.detectors.measurement import TYPES, language_table, table
from tests.support.detectors.samples import labelled
from tests.support.running import ROOT

pytestmark = pytest.mark.embedded


@pytest.mark.long
def test_the_page_shows_what_is_measured():
    page = (ROOT / "docs/guardrails.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page
    assert "\n".join(language_table()) in page


def test_the_page_names_each_kind_and_there_are_as_many_as_promised():
    page = (ROOT / "docs/guardrails.md").read_text(encoding="utf-8")
    section = page.partition("## Kinds\n")[2].partition("Numbers with a common form")[0]
    assert re.findall("`([a-z_]+)`", section) == ["secrets", *SECRETS, "pii", *PII]
    assert len(SECRETS) >= 40
    assert len({kind.name[:2] for kind in NATIONAL_KINDS}) >= 10


def test_what_the_page_says_is_not_found_is_not_found():
    secret = next(sample.text for sample in labelled("secrets") if sample.parts).encode()
    detector = compile_detector("secrets", {})
    assert detector.scan(secret.decode())
    for encoded in (base64.b64encode(secret).decode(), secret.hex(), codecs.encode(secret.decode(), "rot13")):
        assert detector.scan(f"Here: {encoded}") == []


def test_each_type_has_texts_with_and_without_something():
    assert set(TYPES) == set(LOCAL_TYPES)
    for type in TYPES:
        assert {bool(sample.parts) for sample in labelled(type)} == {True, False}, type
