"""Every question to the database about what happened."""

import json
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import ClassVar, Self

from django.db import connection, models
from django.db.models import Q
from django.utils import timezone

from gateway_project.naming import upper_case

# Of so many days the newest entries are looked for, before they are among all.
LOOKED_AT_FIRST = (1, 16)


class EntryQuerySet(models.QuerySet):
    """What log and cache entries have in common: somebody left them at some moment."""

    moment: ClassVar[str]  # the field that says when

    def newest_first(self) -> Self:
        """The order of every list of entries, as their indexes have it."""
        return self.order_by(f"-{self.moment}", "-id")

    def of_user(self, user_id: int) -> Self:
        """Entries that one user left."""
        return self.filter(user_id=user_id)

    def between(self, start: datetime | None = None, end: datetime | None = None) -> Self:
        """Entries from start on and before end; either may be left open."""
        after = Q(**{f"{self.moment}__gte": start}) if start else Q()
        return self.filter(after & (Q(**{f"{self.moment}__lt": end}) if end else Q()))

    def slice(self, first: int, end: int) -> list:
        """These rows of the list; what comes before them is passed over in the index, and never read."""
        places = self.values_list("pk", self.moment).newest(first, end)
        times = [moment for _, moment in places]
        within = {f"{self.moment}__range": (min(times), max(times))} if times else {}
        found = self.order_by().filter(**within).in_bulk([row_id for row_id, _ in places])
        return [found[row_id] for row_id, _ in places if row_id in found]

    def newest(self, first: int, end: int, until: datetime | None = None) -> list:
        """These rows of the list; `until` is the time of the newest, if one knows it."""
        return list(self[first:end])


class LogEntryQuerySet(EntryQuerySet):
    moment = "timestamp"
    everywhere = False  # whether all partitions are asked at once

    def _clone(self) -> Self:
        made = super()._clone()
        made.everywhere = self.everywhere
        return made

    def newest(self, first: int, end: int, until: datetime | None = None) -> list:
        """The same, of the newest times first: so PostgreSQL plans and opens a few partitions, not all of them."""
        in_order = self.query.order_by[:1] == (f"-{self.moment}",) and not self.everywhere
        for days in LOOKED_AT_FIRST if in_order and connection.vendor == "postgresql" else ():
            found = list(self.between(start=(until or timezone.now()) - timedelta(days=days))[first:end])
            if len(found) == end - first:
                return found
        return super().newest(first, end)

    def telling(self, text: str) -> Self:
        """Entries with this text in the model, the correlation id or the payload."""
        told = Q(model__icontains=text) | Q(correlation_id__icontains=text) | _in_json("payload", text)
        found = self.filter(told)
        # PostgreSQL takes any text for a rare one: of a day it would rather read all entries than the newest with it.
        found.everywhere = True
        return found


class CacheEntryQuerySet(EntryQuerySet):
    moment = "created_at"

    def telling(self, text: str) -> Self:
        """Entries with this text in the model or the response."""
        return self.filter(Q(model__icontains=text) | _in_json("response", text))


def _in_json(field: str, text: str) -> Q:
    """Whether the field, which is JSON as somebody wrote it, has the text: as it stands, or said by one of its strings.

    There quotes, backslashes and line breaks are escaped by everybody, and what is not ASCII by some: in the case that
    it has, of which an escape tells nothing to who looks for it in any.
    """
    cases = [text] if text.isascii() else [text, text.lower(), upper_case(text)]
    written = [text, json.dumps(text, ensure_ascii=False)[1:-1], *(json.dumps(case)[1:-1] for case in cases)]
    return reduce(or_, (Q(**{f"{field}__icontains": form}) for form in dict.fromkeys(written)))
