"""Which refusals have an entry of their own, where anybody can cause them: the first ones; the others are counted."""

from collections import Counter

MAX_NAMES = 2000  # whose refusals of a minute are remembered


class EntryBudget:
    """The entries of a minute, as this process sees them: so many for each name, such as an address, and for all.

    Half of all are for the first refusal of names that did not exceed theirs in the minute before. So whoever goes on
    sending uses up their own entries, and not those of everybody else.
    """

    def __init__(self, each: int, total: int) -> None:
        self.each, self.total = each, total
        self._refusals: Counter[str] = Counter()
        self.begin()

    def begin(self) -> None:
        """Begin the next minute."""
        self._former = {name for name, count in self._refusals.items() if count > self.each}
        self._refusals = Counter()
        self._entries: Counter[str] = Counter()
        self._spent = 0

    def take(self, *names: str) -> bool:
        """Whether one more refusal, which concerns all of these names, has an entry of its own."""
        is_first = not any(name in self._entries or name in self._former for name in names)
        self._count(names)
        has_room = self._spent < (self.total if is_first else self.total // 2)
        if not has_room or any(self._entries[name] >= self.each for name in names):
            return False
        self._entries.update(names)
        self._spent += 1
        return True

    def _count(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name in self._refusals or len(self._refusals) < MAX_NAMES:
                self._refusals[name] += 1
