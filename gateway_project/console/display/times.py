"""Times of day in UTC, beside which the console's script shows the browser's own; also a filter of all templates."""

from collections.abc import Callable
from datetime import UTC, datetime

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold import fields
from unfold.templatetags import unfold_list

register = template.Library()
MINUTES, SECONDS, EXACT = "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f"


@register.filter
def utc_time(moment: datetime | None, form: str = MINUTES) -> SafeString | str:
    """A time in UTC; '' for none."""
    if moment is None:
        return ""
    moment = moment.astimezone(UTC)
    return format_html('<time datetime="{}">{}</time>', f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:{form}}")


def show_times() -> None:
    """Let the lists and forms of the console show the times of their fields so."""
    unfold_list.display_for_field = _with_times(unfold_list.display_for_field)
    fields.display_for_field = _with_times(fields.display_for_field)


def _with_times(display: Callable[..., str]) -> Callable[..., str]:
    def display_time(value: object, field: object, empty_value: str) -> str:
        if isinstance(value, datetime):
            return utc_time(value, f"{MINUTES} (UTC)")
        return display(value, field, empty_value)

    return display_time
