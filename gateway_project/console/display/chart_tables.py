"""The numbers of a chart as a table, for people who do not see it: `{% chart_table data title %}` in all templates."""

import json
from decimal import Decimal

from django import template

from gateway_project.console.display.money import money
from gateway_project.json_types import JsonObject

register = template.Library()


@register.inclusion_tag("console/chart_table.html")
def chart_table(data: str, title: str, *, has_costs: bool = False) -> JsonObject:
    """The context of the table: a row for each label, a column for each set of numbers (charts.py).

    With `has_costs` each set has the name of its currency.
    """
    chart = json.loads(data)
    columns = [
        [_cost(number, dataset["label"]) if has_costs else _text(number) for number in dataset["data"]]
        for dataset in chart["datasets"]
    ]
    rows = [(label, texts) for label, *texts in zip(chart["labels"], *columns, strict=True)]
    return {"title": title, "headings": [dataset["label"] for dataset in chart["datasets"]], "rows": rows}


def _cost(amount: float | None, currency: str) -> str:
    return "" if amount is None else money(Decimal(str(amount)), currency)


def _text(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6f}".rstrip("0").rstrip(".")
