"""Addresses of lists that show what a figure is about."""

from django.urls import reverse

from gateway_project.console.notices import Link
from gateway_project.console.period import Period, with_query

MAX_SHOWN = 5


def list_of(table: str) -> str:
    return reverse(f"admin:{table}_changelist")


def search_page(table: str, name: str) -> str:
    return with_query(list_of(table), {"q": name})


def log_of(period: Period, **filters: str) -> str:
    return with_query(list_of("telemetry_logentry"), filters | period.moments())


def usage_of(period: Period, **query: str) -> str:
    return with_query(reverse("admin:statistics"), query | period.days())


def first_links(links: list[Link], page: str) -> list[Link]:
    """The first of them; the list has the others."""
    return links[:MAX_SHOWN] + [Link("others", page)] * (len(links) > MAX_SHOWN)
