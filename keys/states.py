"""The states of an API key."""

from enum import StrEnum


class KeyState(StrEnum):
    """Whether a key is accepted, or why not."""

    USABLE = "usable"
    LOCKED = "locked"
    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    OWNER_INACTIVE = "owner inactive"
    OWNER_DELETED = "owner deleted"
    DELETED = "deleted"
