"""The parts that the gateway depends on, each with its state, and what to do where it is not well."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from django.conf import settings
from django.db import Error, connection
from django.urls import reverse

from gateway_project.console.display.badges import Badge
from gateway_project.console.notices import Link
from gateway_project.console.period import ANY_TIME, row_page
from gateway_project.work.gateway import Gateway
from gateway_project.work.routing.provider_health import present_health
from licensing import services as licensing
from providers.health.status import HealthState

BEHIND_SECONDS, CLOCK_SECONDS = 30, 2
MAX_SHOWN = 5  # failing providers
WELL, WARNING, BROKEN = "success", "warning", "danger"  # kinds of labels


class Part(NamedTuple):
    """A part: a word on its state, what it means and what would be right, and where to go."""

    name: str
    badge: Badge
    sentence: str
    links: tuple[Link, ...] = ()


def parts_of(gateway: Gateway) -> Iterator[Part]:
    """All parts with their present state."""
    yield _database(gateway)
    yield _store(gateway)
    yield _journal(gateway)
    yield _providers(gateway)
    yield _clocks(gateway)
    yield _licence(time.time())


def _database(gateway: Gateway) -> Part:
    if gateway.follower.fresh:
        return Part("Database", Badge("Answers", WELL), "Changes reach this process within a second.")
    sentence = (
        "The database does not answer, or answers too late. Requests with known keys are still served, and log "
        "entries wait in the journal. Check DATABASE_URL, the network and the database's own log."
    )
    return Part("Database", Badge("Unavailable", BROKEN), sentence)


def _store(gateway: Gateway) -> Part:
    if not settings.REDIS_URL:
        sentence = (
            "Redis is not configured: cache and counts are in this process. Several processes need Redis (REDIS_URL)."
        )
        return Part("Redis", Badge("Not used", ""), sentence)
    if gateway.state.degraded:
        sentence = (
            "Redis does not answer: each process enforces its share of the limits. Check REDIS_URL and the network."
        )
        return Part("Redis", Badge("Unavailable", BROKEN), sentence)
    if warning := gateway.state.warning:
        return Part("Redis", Badge("Warning", WARNING), warning)
    return Part("Redis", Badge("Answers", WELL), "Limits and cache are shared by all processes.")


def _journal(gateway: Gateway) -> Part:
    backlog = gateway.shipper.backlog()
    waits = f"{backlog.bytes:,} bytes wait for the database, the oldest for at most {backlog.seconds:.0f} s."
    if backlog.seconds <= BEHIND_SECONDS:
        return Part(
            "Journal", Badge("Up to date", WELL), waits if backlog.bytes else "No entry waits for the database."
        )
    return Part("Journal", Badge("Behind", BROKEN), f"{waits} They are stored as soon as the database answers.")


def _providers(gateway: Gateway) -> Part:
    healths = present_health(gateway)
    failing = sorted(name for name, health in healths.items() if health.state is HealthState.FAILING)
    page = reverse("admin:providers_provider_changelist")
    if not healths:
        return Part("Providers", Badge("None", WARNING), "No provider is enabled.", (Link("The providers", page),))
    if failing:
        ids = {row.name: row.id for row in gateway.snapshot.providers.values()}
        links = tuple(
            Link(name, row_page("providers_provider", ids.get(name), ANY_TIME)) for name in failing[:MAX_SHOWN]
        )
        verb = "fails" if len(failing) == 1 else "fail"
        sentence = (
            f"{len(failing)} of {len(healths)} {verb}. The page of each provider shows its last error, and has a test:"
        )
        return Part("Providers", Badge("Failing", BROKEN), sentence, links)
    sentence = f"No provider fails; {len(healths)} {'is' if len(healths) == 1 else 'are'} enabled."
    return Part("Providers", Badge("Healthy", WELL), sentence, (Link("The providers", page),))


def _clocks(gateway: Gateway) -> Part:
    """The clocks of the database and of Redis beside that of this machine: limits and sessions depend on them."""
    offsets = {"database": _database_offset(), "Redis": gateway.state.clock_offset if settings.REDIS_URL else None}
    wrong = {name: offset for name, offset in offsets.items() if offset is not None and abs(offset) > CLOCK_SECONDS}
    if not wrong:
        return Part("Clocks", Badge("Agree", WELL), f"No known difference exceeds {CLOCK_SECONDS} s.")
    differences = ", ".join(f"that of {name} by {offset:+,.0f} s" for name, offset in wrong.items())
    sentence = f"They differ from this machine's: {differences}. Let all machines follow the same time server (NTP)."
    return Part("Clocks", Badge("Differ", WARNING), sentence)


def _database_offset() -> float | None:
    """How many seconds the database's clock is ahead; None where it is this machine's, or unknown."""
    if connection.vendor != "postgresql":
        return None
    before = time.time()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
            value = float(cursor.fetchone()[0])
    except Error:
        return None
    return value - (before + time.time()) / 2


def _licence(now: float) -> Part:
    terms, links = licensing.current_terms(), (Link("The licence", reverse("admin:licence")),)
    if problem := terms.problem(now):
        return Part("Licence", Badge("Invalid", BROKEN), problem, links)
    if warning := terms.warning(now):
        return Part("Licence", Badge("Warning", WARNING), warning, links)
    ends = "" if terms.expiry is None else f" until {terms.expiry}"
    return Part("Licence", Badge(f"Valid{ends}", WELL), terms.sentence(now), links)
