"""Usage for the page of statistics, and what the page shows of it."""

import json
from datetime import UTC, datetime, timedelta

from telemetry.journal.batches import insert_log_entries
from tests.support.usage_entries import done

PAGE = "/admin/statistics/"
MONDAY = datetime(2026, 1, 5, 8, tzinfo=UTC)
WEEK = "start=2026-01-05&end=2026-01-11"


def use(day=0, model="m", **fields):
    insert_log_entries([done("r", MONDAY + timedelta(days=day), model=model, served_model=model, **fields)])


def table(response) -> list[list[str]]:
    """The names of each row of the table, and its number of requests."""
    rows = response.context["rows"]
    return [[*(name.title for name in names), cells[0].lines[0].text] for names, cells in rows]


def charts(response) -> dict[str, dict[str, list[float]]]:
    """The values of each set of each chart, by their names."""
    result = {}
    for chart in response.context["charts"]:
        data = json.loads(chart.data)
        result[chart.title] = {one["label"]: one["data"] for one in data["datasets"]}
    return result


def labels(response) -> list[str]:
    return json.loads(response.context["charts"][0].data)["labels"]
