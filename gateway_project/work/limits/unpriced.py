"""Requests that cost limits do not count: those of their present window whose cost is unknown."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.utils import timezone

from licensing.models import Limit, Measure, UnpricedWork, Window
from telemetry.usage.unpriced import UnpricedModel, unpriced_models


def unpriced_work(limits: Sequence[Limit]) -> list[UnpricedWork]:
    """What each limit does not count, in full hours; of a window of a minute, that of the present hour.

    One query for all limits of one kind of subject and one window.
    """
    now, subjects = timezone.now(), defaultdict(set)
    for limit in limits:
        if limit.measure == Measure.COST:
            subjects[limit.subject_kind, limit.window].add(limit.subject.pk)
    models = {
        (kind, window, row_id): of_one
        for (kind, window), ids in subjects.items()
        for row_id, of_one in unpriced_models(kind, ids, _start(window, now), now).items()
    }
    return [_work(limit, models.get((limit.subject_kind, limit.window, limit.subject.pk), [])) for limit in limits]


def _work(limit: Limit, models: Sequence[UnpricedModel]) -> UnpricedWork:
    if limit.measure != Measure.COST or not models:
        return UnpricedWork()
    unknown, unpriced = (sum(one.unknown_cost_requests for one in models), sum(one.unpriced_requests for one in models))
    return UnpricedWork(unpriced, models[0].model, models[0].provider_id, unknown - unpriced)


def _start(window: str, now: datetime) -> datetime:
    start = now if window == Window.MINUTE else now.replace(hour=0)
    return start.replace(day=1) if window == Window.MONTH else start
