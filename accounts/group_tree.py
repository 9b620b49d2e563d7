"""Groups above and below each other. No ORM."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

MAX_DEPTH = 10


def with_ancestors(group_ids: Iterable[int], parents: Mapping[int, int]) -> tuple[int, ...]:
    """The groups and all groups above them, each once, those that were given first; `parents` by the child's id."""
    result = dict.fromkeys(group_ids)
    for group_id in list(result):
        above = parents.get(group_id)
        while above is not None and above not in result:
            result[above] = None
            above = parents.get(above)
    return tuple(result)


def with_descendants(group_ids: Iterable[int], parents: Mapping[int, int]) -> frozenset[int]:
    """The groups and all groups below them."""
    children = defaultdict(list)
    for child, parent in parents.items():
        children[parent].append(child)
    result: set[int] = set()
    waiting = list(group_ids)
    while waiting:
        group_id = waiting.pop()
        if group_id not in result:
            result.add(group_id)
            waiting += children[group_id]
    return frozenset(result)


def depth(group_id: int, parents: Mapping[int, int]) -> int:
    """The number of levels from the top down to the lowest group below this one."""
    below = [depth(child, parents) for child, parent in parents.items() if parent == group_id]
    return 1 + max(below, default=0)
