"""Exports of log entries and usage: JSON lines, or CSV that is safe against formula injection."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import orjson
from django.db.models import Q, QuerySet

from gateway_project.api.names import camel
from gateway_project.json_types import JsonObject
from telemetry.models import LogEntry
from telemetry.paging import statement_timeout
from telemetry.querysets import EntryQuerySet, newest_of

BATCH, BATCH_MS = 1000, 30_000
COLUMNS = tuple(field.attname for field in LogEntry._meta.concrete_fields)
# What a spreadsheet takes for a formula (OWASP, CSV injection), wherever it may begin a cell: one whose separator is a
# semicolon or a tab (locales that write 0,5) splits cells there, however a comma-separated file quotes them.
FORMULA = re.compile(r'\A(?=[\t\r\n])|(?<![^;\t\r\n])(?=(?:[^\S\t\r\n]|")*[=+\-@＝＋－＠])')


def log_as_json_lines(entries: EntryQuerySet[LogEntry]) -> Iterator[bytes]:
    """One JSON object a line, newest first, with the table's columns. Raises QueryTimeout, as log_as_csv() does."""
    return (b"".join(orjson.dumps(row, default=str) + b"\n" for row in batch) for batch in _batches(entries))


def log_as_csv(entries: EntryQuerySet[LogEntry]) -> Iterator[bytes]:
    """A line of names, and one line an entry, newest first.

    Raises QueryTimeout where finding the first entries takes too long, and also later, while they are read: so a
    truncated file does not look complete.
    """
    lines = (
        b"".join(_line([csv_cell(row[column]) for column in COLUMNS]) for row in batch) for batch in _batches(entries)
    )
    return chain([_line(COLUMNS)], lines)


def _batches(entries: EntryQuerySet[LogEntry]) -> Iterator[list[JsonObject]]:
    """Keyset pagination: an export holds no cursor and no connection while its client reads."""
    rows = entries.newest_first().values(*COLUMNS)
    return _following_batches(rows, _newest_batch(rows))


def _following_batches(rows: QuerySet[Any, JsonObject], batch: list[JsonObject]) -> Iterator[list[JsonObject]]:
    while batch:
        yield batch
        last = batch[-1]
        before = Q(timestamp__lt=last["timestamp"]) | Q(timestamp=last["timestamp"], id__lt=last["id"])
        batch = _newest_batch(rows.filter(before, timestamp__lte=last["timestamp"]), last["timestamp"])


def _newest_batch(rows: QuerySet[Any, JsonObject], until: datetime | None = None) -> list[JsonObject]:
    with statement_timeout(BATCH_MS):
        return newest_of(rows, 0, BATCH, until=until)


def _line(cells: Iterable[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode("utf-8", "replace")


def csv_cell(value: object) -> object:
    """A value as CSV holds it; a text that a spreadsheet would run as a formula gets an apostrophe before it."""
    if isinstance(value, dict | list):
        value = orjson.dumps(value).decode()
    return FORMULA.sub("'", value) if isinstance(value, str) else value


def usage_as_csv(rows: Sequence[JsonObject], names: Sequence[str]) -> str:
    """A line for each row, with the named columns and three cost columns for each currency."""
    currencies = sorted({cost["currency"] for row in rows for cost in row["costs"]})
    costs = [f"{kind}{currency}" for currency in currencies for kind in ("cost", "estimatedCost", "savedCost")]
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([*map(camel, names), *costs])
    for row in rows:
        writer.writerow([*(csv_cell(row[name]) for name in names), *_costs(row, currencies)])
    return file.getvalue()


def _costs(row: JsonObject, currencies: Sequence[str]) -> Iterator[str]:
    by_currency = {cost["currency"]: cost for cost in row["costs"]}
    for currency in currencies:
        cost = by_currency.get(currency, {})
        yield from (cost.get(kind, "") for kind in ("known", "estimated", "saved"))
