"""The numbers of charts as tables."""

import pytest
from django.template import engines

from gateway_project.console.display import charts

pytestmark = pytest.mark.either_store

HOSTILE = "</table><img src=x>"


def render(data: str) -> str:
    return engines["django"].from_string("{% chart_table data title %}").render({"data": data, "title": HOSTILE})


def test_a_chart_has_a_row_for_each_label_and_a_column_for_each_set():
    html = render(charts.bars(["10:00", HOSTILE], {"Requests": [1200, 0], HOSTILE: [0.000125, None]}))
    rows = [row.split("</t") for row in html.split("<tr>")[1:]]
    texts = [[cell.rpartition(">")[2] for cell in row if cell.rpartition(">")[2].strip()] for row in rows]
    escaped = "&lt;/table&gt;&lt;img src=x&gt;"
    assert texts == [["Time (UTC)", "Requests", escaped], ["10:00", "1,200", "0.000125"], [escaped, "0"]]
    assert "<img" not in html


def test_costs_have_their_currency_and_are_exact_on_hover():
    chart = charts.bars(["10:00", "11:00"], {"USD": [0.0000004, None], "CHF": [1234567.8915, 0]})
    html = engines["django"].from_string('{% chart_table data "Cost" has_costs=True %}').render({"data": chart})
    assert "$0.00000040" in html
    assert '<span title="1234567.8915 CHF">1,234,567.89 CHF</span>' in html
    assert ">0.00 CHF<" in html


def test_the_table_is_read_without_scripts():
    html = render(charts.lines([], {"Requests": []}))
    assert html.startswith("<details")
    assert "<summary" in html
