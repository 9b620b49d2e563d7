"""The data of charts, as JSON for the theme."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from gateway_project.json_types import JsonObject

COLORS = (
    "var(--color-primary-600)", "#c2410c", "#047857", "#7e22ce", "#a16207", "#be185d", "#0e7490", "#4d7c0f",
)  # fmt: skip


class LegendEntry(NamedTuple):
    """A set of a chart, its colour, and the page of what it names."""

    name: str
    color: str
    page: str = ""


def bars(
    labels: Sequence[str],
    sets: Mapping[str, Sequence[float | None]],
    *,
    stacked: bool = False,
    unit: str = "",
    pages: Sequence[str] = (),
) -> str:
    """Bars of one colour for each set of numbers, by its name: beside each other, or one on top of the other.

    The axis shows the unit, such as a currency. A click on a bar opens the page of its label.
    """
    place: JsonObject = {"stack": "all"} if stacked else {"grouped": True}
    return _chart(labels, sets, {"maxBarThickness": 24, "borderRadius": 2, "suffixYAxis": unit, **place}, pages)


def lines(labels: Sequence[str], sets: Mapping[str, Sequence[float | None]]) -> str:
    """A line for each set of numbers, by its name."""
    return _chart(labels, sets, {})


def marked_lines(labels: Sequence[str], sets: Mapping[str, Sequence[float | None]], pages: Sequence[str] = ()) -> str:
    """The same in the place of bars, with a mark at each number: None beside it leaves a gap."""
    return _chart(labels, sets, {"type": "line", "pointStyle": "circle", "pointRadius": 2}, pages)


def legend(names: Iterable[str], pages: Mapping[str, str] | None = None) -> list[LegendEntry]:
    """The sets of a chart, with the pages of those that have one."""
    return [LegendEntry(name, color, (pages or {}).get(name, "")) for name, color in zip(names, cycle(COLORS))]


def _chart(
    labels: Sequence[str],
    sets: Mapping[str, Sequence[float | None]],
    look: JsonObject,
    pages: Sequence[str] = (),
) -> str:
    datasets = [
        {"label": name, "data": data, "borderColor": color, "backgroundColor": color, "displayYAxis": True} | look
        for (name, color, _), data in zip(legend(sets), sets.values(), strict=True)
    ]
    return json.dumps({"labels": labels, "datasets": datasets, "pages": pages})
