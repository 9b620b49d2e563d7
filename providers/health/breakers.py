"""Circuit breakers: an account that keeps failing is not called for a while; then one request tries it again."""

import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from typing import Protocol, TypeVar

from providers.health.rests import Account


class Target(Protocol):
    """What has a provider, such as a candidate for a request."""

    @property
    def provider(self) -> Account: ...


TargetT = TypeVar("TargetT", bound=Target)


class Breaker:
    """The recent failures of one account with a provider in this process."""

    __slots__ = ("credential", "failures", "probing", "rests_until", "url")

    def __init__(self, url: str, credential: str) -> None:
        self.url, self.credential = url, credential
        self.failures = 0
        self.rests_until = 0.0
        self.probing = False


class Breakers:
    """The breakers of all accounts with providers; times come from the clock that is handed in.

    The failures of an account with another URL or credential are not those of the present one.
    """

    def __init__(self, *, failures: int, cooldown: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_failures = failures
        self._cooldown = cooldown
        self._clock = clock
        self._breakers: dict[tuple[int, int], Breaker] = {}
        self._lock = threading.Lock()

    def copy(self) -> "Breakers":
        """Breakers in the same state: what happens to them happens to no others."""
        new = Breakers(failures=self._most_failures, cooldown=self._cooldown, clock=self._clock)
        new._breakers = {account: copy(breaker) for account, breaker in list(self._breakers.items())}
        return new

    def with_closed_breakers(self, targets: Sequence[TargetT]) -> list[TargetT]:
        """The targets whose breakers are closed; all targets if every breaker is open."""
        if not self._breakers:
            return list(targets)
        now = self._clock()
        awake = [target for target in targets if not self._is_resting(self._breaker(target.provider), now)]
        return awake or list(targets)

    def admits(self, provider: Account) -> bool:
        """Whether a request may call it now. After a rest one may, and the others once that one succeeded."""
        if provider.account not in self._breakers:
            return True
        with self._lock:
            return self._admits(self._breaker(provider), self._clock())

    def record_success(self, provider: Account) -> None:
        """It answered: its failures are forgotten."""
        if provider.account in self._breakers:
            with self._lock:
                self._breakers.pop(provider.account, None)

    def record_failure(self, provider: Account, *, for_good: bool = False) -> None:
        """It failed once more; after so many times in a row, or at once if it fails `for_good`, it rests."""
        with self._lock:
            breaker = self._breaker(provider)
            if breaker is None:
                breaker = self._breakers[provider.account] = Breaker(provider.url, provider.credential)
            breaker.failures = max(breaker.failures + 1, self._most_failures if for_good else 0)
            breaker.probing = False
            if breaker.failures >= self._most_failures:
                breaker.rests_until = self._clock() + self._cooldown

    def is_resting(self, provider: Account) -> bool:
        """Whether it is not called now while another can serve."""
        return self._is_resting(self._breaker(provider), self._clock())

    def seconds_left(self, provider: Account) -> float:
        """For how long it still rests; 0 if it does not."""
        breaker, now = self._breaker(provider), self._clock()
        return breaker.rests_until - now if breaker is not None and self._is_resting(breaker, now) else 0.0

    def _breaker(self, provider: Account) -> Breaker | None:
        breaker = self._breakers.get(provider.account)
        if breaker is None or (breaker.url, breaker.credential) != (provider.url, provider.credential):
            return None
        return breaker

    def _is_resting(self, breaker: Breaker | None, now: float) -> bool:
        return breaker is not None and breaker.failures >= self._most_failures and now < breaker.rests_until

    def _admits(self, breaker: Breaker | None, now: float) -> bool:
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
