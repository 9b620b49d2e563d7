"""Charts as the theme draws them: JSON for the data of a canvas."""

import json
from collections.abc import Sequence
from typing import Any

MAIN, WARNING = "var(--color-primary-600)", "#c2410c"
COLORS = (MAIN, WARNING, "#047857", "#7e22ce")


def bars(labels: Sequence[str], sets: dict[str, Sequence[float]]) -> str:
    """Bars of one colour for each set of numbers, by its name."""
    look = {"displayYAxis": True, "maxBarThickness": 24, "borderRadius": 2}
    return _chart(labels, [_set(name, data, place) | look for place, (name, data) in enumerate(sets.items())])


def lines(labels: Sequence[str], sets: dict[str, Sequence[float]]) -> str:
    """A line for each set of numbers, by its name."""
    look = {"displayYAxis": True}
    return _chart(labels, [_set(name, data, place) | look for place, (name, data) in enumerate(sets.items())])


def _set(name: str, data: Sequence[float], place: int) -> dict[str, Any]:
    color = COLORS[place % len(COLORS)]
    return {"label": name, "data": data, "borderColor": color, "backgroundColor": color}


def _chart(labels: Sequence[str], sets: list[dict[str, Any]]) -> str:
    return json.dumps({"labels": labels, "datasets": sets})
