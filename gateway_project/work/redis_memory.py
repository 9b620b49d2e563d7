"""How much memory Redis has left, and what it does when there is none: as it says itself."""

import re
from typing import NamedTuple

FIELD = re.compile(rb"^(?:(used_memory|maxmemory):(\d+)|(maxmemory_policy):([\w-]+))\r?$", re.MULTILINE)
KEEPS_ALL = "noeviction"
# Of its memory stored answers may take so much: what limits are counted with always finds room.
SHARE_OF_ANSWERS = 0.8


class Memory(NamedTuple):
    """Bytes in use, and at most (0: there is no bound); `policy` is empty where nobody knows it."""

    used: int = 0
    most: int = 0
    policy: str = ""

    @property
    def is_short(self) -> bool:
        """Whether no more answers should be kept."""
        return self.used > SHARE_OF_ANSWERS * self.most > 0

    @property
    def warning(self) -> str:
        """What is wrong with it, for people; empty for nothing."""
        if self.policy in ("", KEEPS_ALL):
            return ""
        return (
            f"Redis gives up keys when its memory is full (maxmemory-policy {self.policy}): limits of a minute may "
            f"begin anew before their time. Set maxmemory-policy {KEEPS_ALL}: the gateway itself keeps room for limits."
        )


def memory_of(info: object) -> Memory:
    """What the reply to INFO memory says."""
    fields = FIELD.findall(info) if isinstance(info, bytes) else ()
    told = {number or word: (amount or text).decode() for number, amount, word, text in fields}
    return Memory(int(told.get(b"used_memory", 0)), int(told.get(b"maxmemory", 0)), told.get(b"maxmemory_policy", ""))
