"""Cells of the list of log entries that are more than a text."""

from datetime import UTC, datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString

from providers.console.price_links import price_form
from telemetry.models import LogEntry


def utc_time(moment: datetime) -> SafeString:
    """A time in UTC; the script of the console adds the browser's own time."""
    moment = moment.astimezone(UTC)
    return format_html('<time datetime="{}">{}</time>', f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%Y-%m-%d %H:%M:%S}")


def no_price(entry: LogEntry) -> SafeString:
    """Instead of a cost: the form for the price."""
    link = '<a class="text-primary-700 underline dark:text-primary-400" href="{}">no price</a>'
    return format_html(link, price_form(entry.served_model or entry.model, entry.provider_id))
