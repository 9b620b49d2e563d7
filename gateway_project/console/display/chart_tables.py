"""The numbers of a chart as a table, for people who do not see it: `{% chart_table data title %}` in all templates."""

import json

from django import template

from gateway_project.json_types import JsonObject

register = template.Library()


@register.inclusion_tag("console/chart_table.html")
def chart_table(data: str, title: str) -> JsonObject:
    """The context of the table: a row for each label, a column for each set of numbers (charts.py)."""
    chart = json.loads(data)
    columns = [one["data"] for one in chart["datasets"]]
    rows = [(label, list(map(_text, numbers))) for label, *numbers in zip(chart["labels"], *columns, strict=True)]
    return {"title": title, "headings": [one["label"] for one in chart["datasets"]], "rows": rows}


def _text(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6f}".rstrip("0").rstrip(".")
