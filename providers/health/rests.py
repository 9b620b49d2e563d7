"""Rests of providers that limit us, or that ask us to wait.

One that answers 429 or 503 with Retry-After is not called until then. One that answers 429 without it is called after
all others for a moment.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, groupby
from typing import NamedTuple, Protocol, TypeVar

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 32.0
ALL_MODELS = ""
OTHER_MODELS = "*"  # a client whose key is linked to a provider may send any name
TOO_MANY_REQUESTS = 429


class Account(Protocol):
    """A provider, and the credential that it knows the gateway by; `account` is the ids of both."""

    @property
    def account(self) -> tuple[int, int]: ...

    @property
    def url(self) -> str: ...

    @property
    def credential(self) -> str: ...


class Limited(Account, Protocol):
    """An account whose models have limits of their own."""

    @property
    def models(self) -> Collection[str]: ...


class Target(Protocol):
    """A model of a provider, such as a candidate for a request."""

    @property
    def provider(self) -> Limited: ...

    @property
    def model(self) -> str: ...


class Rest(NamedTuple):
    """A rest: until when, the status that began it, and the URL and credential that it is about."""

    until: float
    code: int
    url: str
    credential: str
    seconds: float

    def is_of(self, account: Account) -> bool:
        """Whether it is about this account as it is now: one with another URL or credential has not been limited."""
        return (self.url, self.credential) == (account.url, account.credential)


Key = tuple[tuple[int, int], str]  # an account, and one of its models, ALL_MODELS or OTHER_MODELS
TargetT = TypeVar("TargetT", bound=Target)


class Rests:
    """The rests of all accounts with providers in this process; times come from the clock that is handed in.

    Limits (429) are those of a model, as providers have them: its other models go on. An overload (503) is the whole
    account's, unless the provider does not list the model: then it may be about that one alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests: dict[Key, Rest] = {}
        self._pauses: dict[Key, Rest] = {}  # that nobody asked for
        # When the last of each is over: from then on nobody looks for one.
        self._rests_end = self._pauses_end = -math.inf

    def begin(self, target: Target, code: int, seconds: float) -> None:
        """Let it rest for so many seconds, as its provider asks, unless it already rests for longer."""
        key = _key(target)
        if code != TOO_MANY_REQUESTS and key[1] != OTHER_MODELS:
            key = (target.provider.account, ALL_MODELS)
        if seconds > self._remaining_seconds(self._longest_rest((self._rests.get(key),), target.provider)):
            self._rests[key] = rest = self._make_rest(target, code, seconds)
            self._rests_end = max(self._rests_end, rest.until)

    def pause(self, target: Target) -> None:
        """Let it pause, as it limits us and does not say for how long: twice as long as before, if that was in vain."""
        last = self._pauses.get(_key(target))
        if last is not None and not last.is_of(target.provider):
            last = None
        if last is None or last.until <= self._clock():  # answers to requests that were sent together are one limit
            seconds = FIRST_PAUSE_SECONDS if last is None else min(2 * last.seconds, MAX_PAUSE_SECONDS)
            self._pauses[_key(target)] = pause = self._make_rest(target, TOO_MANY_REQUESTS, seconds)
            self._pauses_end = max(self._pauses_end, pause.until)

    def record_success(self, target: Target) -> None:
        """It answered: if its pause is over, the next one is short again."""
        if self._pauses:
            pause = self._pauses.get(_key(target))
            if pause is not None and pause.until <= self._clock():
                self._pauses.pop(_key(target), None)

    def current(self, target: Target) -> Rest | None:
        """The rest that its provider asked for, the longer one of two, if it rests now."""
        if self._clock() >= self._rests_end:
            return None
        account = target.provider.account
        rests = (self._rests.get((account, ALL_MODELS)), self._rests.get(_key(target)))
        return self._longest_rest(rests, target.provider)

    def pause_of(self, target: Target) -> Rest | None:
        """The pause that nobody asked for, if there is one now."""
        if self._clock() >= self._pauses_end:
            return None
        return self._longest_rest((self._pauses.get(_key(target)),), target.provider)

    def holds_back(self, target: Target) -> bool:
        """Whether it rests or pauses now: it is not counted on."""
        return self.current(target) is not None or self.pause_of(target) is not None

    def seconds_left(self, target: Target) -> float:
        """For how long it still rests; 0 if it does not."""
        return self._remaining_seconds(self.current(target))

    def account_seconds_left(self, account: Limited) -> float:
        """For how long none of an account's models can be asked; 0 if one can."""
        seconds = self._remaining_seconds(
            self._longest_rest((self._rests.get((account.account, ALL_MODELS)),), account)
        )
        if self._clock() >= self._rests_end or not account.models:
            return seconds
        rests = (self._longest_rest((self._rests.get((account.account, model)),), account) for model in account.models)
        return max(seconds, min(map(self._remaining_seconds, rests)))

    def without_resting(self, targets: Sequence[TargetT]) -> list[TargetT]:
        """The targets that do not rest; all of them if every one does."""
        if self._clock() >= self._rests_end:
            return list(targets)
        return [target for target in targets if self.current(target) is None] or list(targets)

    def with_pausing_last(self, targets: Sequence[TargetT]) -> list[TargetT]:
        """The targets, those that pause behind all others; credentials of one provider and model stay side by side."""
        if self._clock() >= self._pauses_end:
            return list(targets)
        by_target = groupby(targets, key=_provider_and_model)
        groups = [sorted(group, key=self._pauses_now) for _, group in by_target]
        groups.sort(key=self._first_pauses_now)
        return list(chain.from_iterable(groups))

    def _pauses_now(self, target: Target) -> bool:
        return self.pause_of(target) is not None

    def _first_pauses_now(self, targets: Sequence[Target]) -> bool:
        return self._pauses_now(targets[0])

    def _make_rest(self, target: Target, code: int, seconds: float) -> Rest:
        return Rest(self._clock() + seconds, code, target.provider.url, target.provider.credential, seconds)

    def _longest_rest(self, rests: Iterable[Rest | None], account: Account) -> Rest | None:
        now = self._clock()
        present = [rest for rest in rests if rest is not None and rest.until > now and rest.is_of(account)]
        return max(present, default=None)

    def _remaining_seconds(self, rest: Rest | None) -> float:
        return max(rest.until - self._clock(), 0.0) if rest is not None else 0.0


def _key(target: Target) -> Key:
    provider, model = target.provider, target.model
    return provider.account, model if model in provider.models else OTHER_MODELS


def _provider_and_model(target: Target) -> tuple[int, str]:
    return target.provider.account[0], target.model
