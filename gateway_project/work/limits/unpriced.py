"""Requests that cost limits do not count: those of their present window whose cost is unknown."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.utils import timezone

from licensing.models import Limit, Measure, Unpriced, UnpricedWork, Window
from telemetry.usage.unpriced import UnpricedModel, unpriced_models

Models = Mapping[int, Sequence[UnpricedModel]]  # by the id of the subject


def unpriced_work(limits: Sequence[Limit]) -> list[UnpricedWork | None]:
    """What each limit does not count, in full hours; of a window of a minute, that of the present hour.

    One query for all limits of one kind of subject and one window; None if it takes too long. A limit that counts such
    work at a fixed price leaves nothing out.
    """
    now, subjects = timezone.now(), defaultdict(set)
    for limit in limits:
        if _leaves_out(limit):
            subjects[limit.subject_kind, limit.window].add(limit.subject.pk)
    models = {
        (kind, window): unpriced_models(kind, ids, _start(window, now), now) for (kind, window), ids in subjects.items()
    }
    return [
        _work(limit, models[limit.subject_kind, limit.window]) if _leaves_out(limit) else UnpricedWork()
        for limit in limits
    ]


def _leaves_out(limit: Limit) -> bool:
    return limit.measure == Measure.COST and limit.unpriced != Unpriced.COUNT


def _work(limit: Limit, by_subject: Models | None) -> UnpricedWork | None:
    if by_subject is None:
        return None
    models = by_subject.get(limit.subject.pk)
    if not models:
        return UnpricedWork()
    unknown, unpriced = (
        sum(model.unknown_cost_requests for model in models),
        sum(model.unpriced_requests for model in models),
    )
    return UnpricedWork(unpriced, models[0].model, models[0].provider_id, unknown - unpriced)


def _start(window: str, now: datetime) -> datetime:
    start = now if window == Window.MINUTE else now.replace(hour=0)
    return start.replace(day=1) if window == Window.MONTH else start
