"""Rests that providers ask for: one that answers 429 or 503 with Retry-After is not called until then."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar


class Account(Protocol):
    """A provider, and the credential that it knows the gateway by; `account` is the ids of both."""

    @property
    def account(self) -> tuple[int, int]: ...

    @property
    def url(self) -> str: ...

    @property
    def credential(self) -> str: ...


class Target(Protocol):
    """What has a provider, such as a candidate for a request."""

    @property
    def provider(self) -> Account: ...


class Rest(NamedTuple):
    """A rest: until when, the status that began it, and the URL and credential that it is about."""

    until: float
    code: int
    url: str
    credential: str


TargetT = TypeVar("TargetT", bound=Target)


class Rests:
    """The rests of all accounts with providers in this process; times come from the clock that is handed in.

    A rest ends with its account: one with another URL or credential has not been asked to wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests: dict[tuple[int, int], Rest] = {}

    def begin(self, provider: Account, code: int, seconds: float) -> None:
        """Let it rest for so many seconds, unless it already rests for longer."""
        if seconds > self.seconds_left(provider):
            self._rests[provider.account] = Rest(self._clock() + seconds, code, provider.url, provider.credential)

    def current(self, provider: Account) -> Rest | None:
        """Its rest, if it rests now."""
        rest = self._rests.get(provider.account)
        if rest is None or rest.until <= self._clock():
            return None
        return rest if (rest.url, rest.credential) == (provider.url, provider.credential) else None

    def seconds_left(self, provider: Account) -> float:
        """For how long it still rests; 0 if it does not."""
        rest = self.current(provider)
        return max(rest.until - self._clock(), 0.0) if rest else 0.0

    def without_resting(self, targets: Sequence[TargetT]) -> list[TargetT]:
        """The targets whose providers do not rest; all of them if every one does."""
        if not self._rests:
            return list(targets)
        return [target for target in targets if self.current(target.provider) is None] or list(targets)
