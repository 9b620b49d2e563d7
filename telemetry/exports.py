"""Usage as comma-separated values, for people who open it in a spreadsheet."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway_project.jsonapi.names import camel
from telemetry.export import cell


def as_csv(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """A line for each row with the columns of these names, and with three for each currency that costs are in."""
    currencies = sorted({cost["currency"] for row in rows for cost in row["costs"]})
    costs = [f"{kind}{currency}" for currency in currencies for kind in ("cost", "estimatedCost", "savedCost")]
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([*map(camel, names), *costs])
    for row in rows:
        writer.writerow([*(cell(row[name]) for name in names), *_costs(row, currencies)])
    return file.getvalue()


def _costs(row: Mapping[str, Any], currencies: Sequence[str]) -> Iterator[str]:
    by_currency = {cost["currency"]: cost for cost in row["costs"]}
    for currency in currencies:
        cost = by_currency.get(currency, {})
        yield from (cost.get(kind, "") for kind in ("known", "estimated", "saved"))
