"""Times in UTC, as the script of the console finds them."""

import re
from datetime import datetime, timedelta, timezone

import pytest
from django.template import engines

from gateway_project.console.display.times import EXACT, MINUTES, utc_time
from tests.support.running import ROOT

pytestmark = pytest.mark.either_store

TOKYO = timezone(timedelta(hours=9))


def test_a_time_of_any_zone_is_in_utc():
    moment = datetime(2026, 1, 6, 7, 30, 15, 5, tzinfo=TOKYO)
    assert utc_time(moment) == '<time datetime="2026-01-05T22:30:15Z">2026-01-05 22:30</time>'
    assert ">2026-01-05 22:30:15.000005<" in utc_time(moment, EXACT)
    assert ">2026-01-05 22:30 (UTC)<" in utc_time(moment, f"{MINUTES} (UTC)")


def test_templates_show_it_and_another_word_for_none():
    template = engines["django"].from_string('{{ moment|utc_time:"%H:%M"|default:"never" }}')
    assert template.render({"moment": None}) == "never"
    assert ">22:30</time>" in template.render({"moment": datetime(2026, 1, 6, 7, 30, tzinfo=TOKYO)})


def times_in_attributes(template: str) -> list[str]:
    """The attributes of a template in whose values a time is shown."""
    html = re.sub(r"\{%.*?%\}", "", template)
    html = re.sub(r"\{\{.*?\}\}", lambda match: "TIME" if "utc_time" in match[0] else "", html)
    return re.findall(r'[\w-]+="[^"]*TIME', html)


def test_no_attribute_has_one():
    """It is an element: in the value of an attribute its quotes would end that."""
    assert times_in_attributes('<a aria-label="since {{ row.at|default:"x" }} {{ row.at|utc_time }}">')
    templates = [path.read_text(encoding="utf-8") for path in (ROOT / "templates").rglob("*.html")]
    assert [attribute for template in templates for attribute in times_in_attributes(template)] == []
