"""Redis' memory usage and eviction policy, from INFO memory."""

import re
from typing import NamedTuple

FIELD = re.compile(rb"^(?:(used_memory|maxmemory):(\d+)|(maxmemory_policy):([\w-]+))\r?$", re.MULTILINE)
KEEPS_ALL = "noeviction"
# Answers are cached only below this share of its memory: counts of limits always find room.
MAX_ANSWER_SHARE = 0.8


class Memory(NamedTuple):
    """Bytes in use and their maximum (0: unlimited); `policy` is empty if unknown."""

    usage: int = 0
    most: int = 0
    policy: str = ""

    @property
    def is_short(self) -> bool:
        """Whether no more answers should be cached."""
        return self.usage > MAX_ANSWER_SHARE * self.most > 0

    @property
    def warning(self) -> str:
        """A warning for administrators; empty for none."""
        if self.policy in ("", KEEPS_ALL):
            return ""
        return (
            f"Redis evicts keys when its memory is full (maxmemory-policy {self.policy}), so limits per minute may "
            f"lose their counts. Set maxmemory-policy {KEEPS_ALL}: the gateway leaves room for these counts."
        )


def memory_of(info: object) -> Memory:
    """The values in the reply to INFO memory."""
    fields = FIELD.findall(info) if isinstance(info, bytes) else ()
    values = {number or word: (amount or text).decode() for number, amount, word, text in fields}
    usage, most = int(values.get(b"used_memory", 0)), int(values.get(b"maxmemory", 0))
    return Memory(usage, most, values.get(b"maxmemory_policy", ""))
