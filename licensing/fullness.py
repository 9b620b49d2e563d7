"""How full a limit is, as every page shows it: a bar, used of total, and when it resets."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from gateway_project.console.display.badges import Badge
from gateway_project.console.display.measures import short_amount
from gateway_project.console.display.money import NOT_COUNTED, Figure, of_unknown_cost, without_price
from gateway_project.console.display.times import utc_time
from gateway_project.console.links import link
from licensing.models import Limit, LimitStatus, UnpricedWork
from licensing.status import read_unpriced
from providers.console.model_links import price_form

NOT_COUNTED_NOTE = f"requests of unknown cost: {NOT_COUNTED}"
NEARLY = Decimal("0.9")


class Fullness(NamedTuple):
    """`width` of a bar of a hundred parts; the badge says the state in words."""

    badge: Badge
    used: str
    total: str
    width: int
    resets: str

    @property
    def html(self) -> SafeString:
        return render_to_string("console/fullness.html", {"full": self})

    @property
    def is_scarce(self) -> bool:
        """Whether almost all or all of it is used."""
        return self.badge.kind in ("warning", "danger")


def fullness(limit: Limit, status: LimitStatus) -> Fullness:
    """The state of a limit."""
    usage = status.used
    part = usage / limit.amount if usage is not None and limit.amount else Decimal(0)
    resets = format_html("{} UTC", utc_time(status.resets_at)) if status.resets_at else ""
    total = _amount(limit, limit.amount) if limit.amount else "unlimited"
    amount = "unknown" if usage is None else _amount(limit, usage)
    return Fullness(_badge(limit, status, part), amount, total, min(int(100 * part), 100), resets)


def unpriced_notes(limits: Sequence[Limit]) -> list[str]:
    """What each cost limit does not count in its present window; '' for other limits."""
    return [
        NOT_COUNTED_NOTE if work is None else ", ".join(filter(None, _notes(work))) for work in read_unpriced(limits)
    ]


def unpriced_link(work: UnpricedWork | None) -> SafeString | str:
    """The same, with a link to the form for the price that most of it lacks; '' if the limit counts everything."""
    if work is None:
        return NOT_COUNTED_NOTE
    unpriced, unanswered = _notes(work)
    form = link(unpriced, price_form(work.model, work.provider_id))
    return format_html_join(" ", "{}", ((note,) for note in (unpriced and form, unanswered) if note))


def _notes(work: UnpricedWork) -> tuple[str, str]:
    return without_price(work.requests), of_unknown_cost(work.unanswered)


def _badge(limit: Limit, status: LimitStatus, part: Decimal) -> Badge:
    if not limit.amount:
        return Badge("Unlimited", "")
    if status.used is None:
        return Badge("Unknown", "info", "the counters do not answer")
    if part >= 1:
        return Badge("Used up", "danger")
    return Badge(f"{int(100 * part)} % used", "warning" if part >= NEARLY else "success")


def _amount(limit: Limit, amount: Decimal) -> Figure:
    return short_amount(limit.measure, amount, limit.currency)
