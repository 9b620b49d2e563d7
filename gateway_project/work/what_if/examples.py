"""The entries behind the numbers of a result."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from gateway_project.work.what_if.traffic import Traffic

Number = TypeVar("Number", bound=Hashable)


class Examples(Generic[Number]):
    """The ids of the first entries behind each of some numbers, up to a bound."""

    __slots__ = ("_bound", "_ids")

    def __init__(self, numbers: Iterable[Number], bound: int) -> None:
        self._bound = bound
        self._ids: dict[Number, list[int]] = {number: [] for number in numbers}

    def add(self, number: Number, traffic: Traffic) -> None:
        """Add the entries of requests that are alike, as far as there is room."""
        ids = self._ids[number]
        if len(ids) < self._bound:
            ids.extend(traffic.entries(self._bound - len(ids)))

    def sorted_ids(self) -> dict[Number, list[int]]:
        """The ids behind each number, in ascending order."""
        return {number: sorted(ids) for number, ids in self._ids.items()}
