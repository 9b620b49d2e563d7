"""Which values of tags statistics list: the first GATEWAY_STATS_TAG_VALUES of each name.

Clients choose tags, so their number is bounded. Listed values are stored before the entries that have them, in the same
transaction: so the log can be aggregated again with the same result. Later values count as OTHER. Tags beyond the first
GATEWAY_STATS_TAG_NAMES names do not count at all.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import orjson
from django.conf import settings
from django.db import transaction
from django.db.models import Count

from telemetry.models import TagValue

OTHER = "other"
ALL_TAGS = "*"
MAX_REMEMBERED = 200_000
HAS_TAGS = b'"tags":{"'  # never in a client's text: there, quotation marks are escaped
Pair = tuple[str, str]
# Values that are stored, as far as this process knows: these need no query.
_stored_pairs: set[Pair] = set()


def admit_tags(records: Sequence[bytes]) -> bool:
    """Store the tag values of these entries, as far as there is room; returns whether some had no room.

    The caller stores the entries in the same transaction.
    """
    pairs = {pair for record in records if HAS_TAGS in record for pair in _pairs(record)} - _stored_pairs
    if not pairs:
        return False
    # Sorted: two processes that insert the same values in different orders could deadlock.
    missing = sorted(pairs - _rows(pairs))
    new = _with_room(missing)
    TagValue.objects.bulk_create((TagValue(name=name, value=value) for name, value in new), ignore_conflicts=True)
    transaction.on_commit(lambda: _remember(pairs - set(missing) | set(new)))
    return len(new) < len(missing)


def have_overflowed() -> bool:
    """Whether there is no more room for names, or for the values of some name."""
    counts = TagValue.objects.values("name").annotate(number=Count("pk")).values_list("number", flat=True)
    return any(map(_is_full, counts)) or _is_last_name(len(counts))


def _pairs(record: bytes) -> Iterable[Pair]:
    tags = orjson.loads(record).get("tags") or {}
    names = settings.GATEWAY_STATS_TAGS
    return [(name, str(value)) for name, value in tags.items() if names == [ALL_TAGS] or name in names]


def _rows(pairs: set[Pair]) -> set[Pair]:
    names, values = {name for name, _ in pairs}, {value for _, value in pairs}
    rows = TagValue.objects.filter(name__in=names, value__in=values).values_list("name", "value")
    return pairs & set(rows)


def _with_room(pairs: list[Pair]) -> list[Pair]:
    """The new pairs that there is room for."""
    if not pairs:
        return []
    names = {name for name, _ in pairs}
    rows = TagValue.objects.filter(name__in=names).values_list("name").annotate(number=Count("pk"))
    counts, admitted = Counter(dict(rows)), []
    number_of_names = TagValue.objects.values("name").distinct().count()
    for name, value in pairs:
        if _is_full(counts[name]) or (not counts[name] and _is_last_name(number_of_names)):
            continue
        number_of_names += not counts[name]
        counts[name] += 1
        admitted.append((name, value))
    return admitted


def _is_full(values: int) -> bool:
    return 0 < settings.GATEWAY_STATS_TAG_VALUES <= values


def _is_last_name(names: int) -> bool:
    return 0 < settings.GATEWAY_STATS_TAG_NAMES <= names


def _remember(pairs: set[Pair]) -> None:
    if len(_stored_pairs) > MAX_REMEMBERED:
        _stored_pairs.clear()
    _stored_pairs.update(pairs)
