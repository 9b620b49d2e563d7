"""The states of an API key, and the words for them."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gateway_project.console.display.badges import Badge


class KeyState(StrEnum):
    """Whether a key is accepted, or why not."""

    USABLE = "usable"
    LOCKED = "locked"
    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    OWNER_INACTIVE = "owner inactive"
    OWNER_DELETED = "owner deleted"
    DELETED = "deleted"


SOON = timedelta(days=7)
BADGES = {
    KeyState.USABLE: Badge("Active", "success"),
    KeyState.LOCKED: Badge("Locked", "warning"),
    KeyState.EXPIRED: Badge("Expired", "info"),
    KeyState.NOT_YET_VALID: Badge("Not yet valid", "info"),
    KeyState.OWNER_INACTIVE: Badge("Owner inactive", "warning"),
    KeyState.OWNER_DELETED: Badge("Owner deleted", "danger"),
    KeyState.DELETED: Badge("Deleted", "danger"),
}


def key_badge(state: KeyState, expiry: datetime | None, now: datetime) -> Badge:
    """The state in words: of a key that works, also in how many days (UTC) it expires, from a week before."""
    if state is not KeyState.USABLE or expiry is None or expiry > now + SOON:
        return BADGES[state]
    days = (expiry.astimezone(UTC).date() - now.astimezone(UTC).date()).days
    when = "today" if not days else f"in {days} {'day' if days == 1 else 'days'}"
    return Badge(f"Expiring {when}", "warning")
