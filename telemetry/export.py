"""Files of log entries and of usage: lines of JSON, or CSV that no spreadsheet executes."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import orjson
from django.db.models import Q

from gateway_project.jsonapi.names import camel
from telemetry.models import LogEntry
from telemetry.paging import at_most
from telemetry.querysets import LogEntryQuerySet

BATCH, BATCH_MS = 1000, 30_000
COLUMNS = tuple(field.attname for field in LogEntry._meta.concrete_fields)
# What a spreadsheet takes for a formula (OWASP, CSV injection), wherever it may see a cell begin: one whose separator
# is a semicolon or a tab, as in countries that write 0,5, ends cells there however a file of commas quotes them.
FORMULA = re.compile(r'\A(?=[\t\r\n])|(?<![^;\t\r\n])(?=(?:[^\S\t\r\n]|")*[=+\-@＝＋－＠])')


def log_as_json_lines(entries: LogEntryQuerySet) -> Iterator[bytes]:
    """One JSON object a line, newest first, with the columns of the table. Raises TookTooLong, as log_as_csv() does."""
    return (b"".join(orjson.dumps(row, default=str) + b"\n" for row in batch) for batch in _batches(entries))


def log_as_csv(entries: LogEntryQuerySet) -> Iterator[bytes]:
    """A line of names, and one line an entry, newest first.

    Raises TookTooLong where it takes too long to find the first ones; and later while they are read, so that what is
    not whole does not look as if it were.
    """
    lines = (b"".join(_line([cell(row[column]) for column in COLUMNS]) for row in batch) for batch in _batches(entries))
    return chain([_line(COLUMNS)], lines)


def _batches(entries: LogEntryQuerySet) -> Iterator[list[dict[str, Any]]]:
    """By the place of the last entry: an export holds no cursor and no connection while its client reads."""
    rows = entries.newest_first().values(*COLUMNS)
    return _onwards(rows, _newest(rows))


def _onwards(rows: LogEntryQuerySet, batch: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch:
        yield batch
        last = batch[-1]
        before = Q(timestamp__lt=last["timestamp"]) | Q(timestamp=last["timestamp"], id__lt=last["id"])
        batch = _newest(rows.filter(before, timestamp__lte=last["timestamp"]), last["timestamp"])


def _newest(rows: LogEntryQuerySet, until: datetime | None = None) -> list[dict[str, Any]]:
    with at_most(BATCH_MS):
        return rows.newest(0, BATCH, until=until)


def _line(cells: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode("utf-8", "replace")


def cell(value: Any) -> Any:
    """A value as CSV holds it; a text that a spreadsheet would run is shown as the text that it is."""
    if isinstance(value, dict | list):
        value = orjson.dumps(value).decode()
    return FORMULA.sub("'", value) if isinstance(value, str) else value


def usage_as_csv(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
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
