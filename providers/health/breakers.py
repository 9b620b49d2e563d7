"""Circuit breakers: a provider that keeps failing is not called for a while; then one request tries it again."""

import threading
import time
from collections.abc import Callable, Sequence

from providers.health.rests import TargetT


class Breaker:
    """The recent failures of one provider in this process."""

    __slots__ = ("failures", "probing", "rests_until")

    def __init__(self) -> None:
        self.failures = 0
        self.rests_until = 0.0
        self.probing = False


class Breakers:
    """The breakers of all providers; times come from the clock that is handed in."""

    def __init__(self, *, failures: int, cooldown: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_failures = failures
        self._cooldown = cooldown
        self._clock = clock
        self._breakers: dict[int, Breaker] = {}
        self._lock = threading.Lock()

    def with_closed_breakers(self, targets: Sequence[TargetT]) -> list[TargetT]:
        """The targets whose breakers are closed; all targets if every breaker is open."""
        if not self._breakers:
            return list(targets)
        now = self._clock()
        awake = [target for target in targets if not self._rests(target.provider.id, now)]
        return awake or list(targets)

    def admits(self, provider_id: int) -> bool:
        """Whether a request may call it now. After a rest one may, and the others once that one succeeded."""
        if provider_id not in self._breakers:
            return True
        with self._lock:
            return self._admits(provider_id, self._clock())

    def succeeded(self, provider_id: int) -> None:
        """It answered: its failures are forgotten."""
        if provider_id in self._breakers:
            with self._lock:
                self._breakers.pop(provider_id, None)

    def failed(self, provider_id: int) -> None:
        """It failed once more; after so many times in a row it rests."""
        with self._lock:
            breaker = self._breakers.setdefault(provider_id, Breaker())
            breaker.failures += 1
            breaker.probing = False
            if breaker.failures >= self._most_failures:
                breaker.rests_until = self._clock() + self._cooldown

    def resting(self) -> set[int]:
        """The ids of the providers that rest now."""
        now = self._clock()
        return {provider_id for provider_id in list(self._breakers) if self._rests(provider_id, now)}

    def _rests(self, provider_id: int, now: float) -> bool:
        breaker = self._breakers.get(provider_id)
        return breaker is not None and breaker.failures >= self._most_failures and now < breaker.rests_until

    def _admits(self, provider_id: int, now: float) -> bool:
        breaker = self._breakers.get(provider_id)
        if breaker is None or breaker.failures < self._most_failures:
            return True
        if now < breaker.rests_until:
            return False
        if breaker.probing and now < breaker.rests_until + self._cooldown:
            return False
        # One request tries. Should it never report back, the next one may after another rest.
        breaker.rests_until = now if breaker.probing else breaker.rests_until
        breaker.probing = True
        return True
