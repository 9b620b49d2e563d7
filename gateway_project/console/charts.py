"""Charts as the theme draws them: JSON for the data of a canvas."""

import json
from collections.abc import Sequence
from itertools import cycle
from typing import Any

COLORS = ("var(--color-primary-600)", "#c2410c", "#047857", "#7e22ce")


def bars(labels: Sequence[str], sets: dict[str, Sequence[float]]) -> str:
    """Bars of one colour for each set of numbers, by its name."""
    return _chart(labels, sets, {"maxBarThickness": 24, "borderRadius": 2})


def lines(labels: Sequence[str], sets: dict[str, Sequence[float]]) -> str:
    """A line for each set of numbers, by its name."""
    return _chart(labels, sets, {})


def _chart(labels: Sequence[str], sets: dict[str, Sequence[float]], look: dict[str, Any]) -> str:
    shown = [
        {"label": name, "data": data, "borderColor": color, "backgroundColor": color, "displayYAxis": True} | look
        for (name, data), color in zip(sets.items(), cycle(COLORS), strict=False)
    ]
    return json.dumps({"labels": labels, "datasets": shown})
