"""Throttles password guessing without locking anybody else out.

Failures count per account and address, in windows of fifteen minutes that begin with the first failure; beyond the
limit, logins are refused until the window ends. They also count per address over all accounts, and per account over all
addresses in a day; beyond these limits, logins are slowed (slowdown.py). An IPv6 address counts as its /64 network, all
of which one client has.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from ipaddress import ip_network
from typing import TypeVar

from django.conf import settings

from accounts.guessing.slowdown import delay_seconds, seconds_until_turn, takes_pace
from accounts.guessing.stores import Stores, current_stores, process_stores, warn_about_store
from gateway_project.database.names import name_key
from gateway_project.errors import AuthenticationFailed, RateLimited
from gateway_project.server.proxies import read_address

WINDOW_SECONDS, DAY_SECONDS = 15 * 60, 24 * 3600
CODES_A_DAY = 20  # wrong codes of an authenticator app, of which three are right at any time
T = TypeVar("T")


@contextmanager
def throttle_guess(
    username: str,
    address: str,
    *,
    on_first_refusal: Callable[[], None] = lambda: None,
    on_first_delay: Callable[[], None] = lambda: None,
    is_known: Callable[[str], bool] = lambda _: False,
) -> Iterator[None]:
    """Around one password check: AuthenticationFailed counts as a failure. Raises RateLimited instead of checking.

    Each check is counted before it is made, so that concurrent guesses count too. `on_first_refusal` is called once a
    window, and `on_first_delay` likewise for those that have to wait for their turn: further guesses must not fill the
    log. `is_known`: whether the account's owner has logged in from there.
    """
    account, origin = name_key(username), origin_of(address)
    stores = current_stores()
    by_account = FailureCounter(stores, settings.GATEWAY_LOGIN_FAILURES, "account", account, origin)
    by_address = FailureCounter(stores, math.inf, "address", origin)
    everywhere = FailureCounter(stores, math.inf, "everywhere", account, window_seconds=DAY_SECONDS)
    wait_for_turn = partial(
        _slow_down, by_address, everywhere, by_account, is_known=lambda: is_known(origin), on_first_delay=on_first_delay
    )
    with ExitStack() as counting:
        counting.enter_context(by_address.count_failure(on_first_refusal))
        # Anybody can invent names without end: a new one of an address at its limit has counters only after its check.
        is_new = by_address.count > settings.GATEWAY_LOGIN_FAILURES_PER_ADDRESS and by_account.foresee() == 1
        if is_new:
            everywhere.foresee()
            wait_for_turn()
        for counter in (everywhere, by_account):
            counting.enter_context(counter.count_failure(on_first_refusal))
        if not is_new:
            wait_for_turn()
        yield
    by_account.reset()
    by_address.decrement()
    everywhere.decrement()


@contextmanager
def code_guess(username: str) -> Iterator[None]:
    """Around one check of an app's code: AuthenticationFailed counts, and RateLimited is raised instead of checking.

    Six digits can be guessed from many addresses, so they count over all of them. Only whoever knows the password comes
    this far, and the owner can still use a recovery code or a passkey.
    """
    counter = FailureCounter(current_stores(), CODES_A_DAY, "code", name_key(username), window_seconds=DAY_SECONDS)
    with counter.count_failure(lambda: None):
        yield
    counter.decrement()


def note_once(record: Callable[[], None], address: str, *names: str) -> None:
    """Call the function for the first event of these names from an address in a window, so that none fill the log."""
    FailureCounter(current_stores(), math.inf, *names, origin_of(address)).note_refusal(record)


class FailureCounter:
    """Counts failures in a window against a limit, in the shared cache, or in this process alone while that fails."""

    def __init__(self, stores: Stores, limit: float, *names: str, window_seconds: int = WINDOW_SECONDS) -> None:
        # Hashed: names are of any length and may contain characters that cache keys must not have.
        self.key = "login:count:" + hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()
        self.stores, self.limit, self.window_seconds = stores, limit, window_seconds
        self.names, self.count = names, 0

    @contextmanager
    def count_failure(self, on_first_refusal: Callable[[], None]) -> Iterator[None]:
        """Count one more; it is taken back if the block raises anything but AuthenticationFailed."""
        self.add(on_first_refusal)
        try:
            yield
        except AuthenticationFailed:
            raise
        except BaseException:  # the password was not checked: no guess
            self.decrement()
            raise

    def add(self, on_first_refusal: Callable[[], None]) -> None:
        """Count one more; raises RateLimited, counting nothing, beyond the limit."""
        self.count = self.run(self._increment)
        if self.count > self.limit:
            self.decrement()
            self.note_refusal(on_first_refusal)
            raise RateLimited("Too many failed logins; try again later.", retry_after=self._seconds_left())

    def foresee(self) -> int:
        """What the count would be with one more, which is not stored."""
        self.count = 1 + self.run(lambda: _checked_int(self.stores.counts.get(self.key) or 0))
        return self.count

    def note_refusal(self, on_first_refusal: Callable[[], None]) -> None:
        """Call the function if this is the first refusal in the window."""
        seconds = self._seconds_left()
        if self.run(lambda: self.stores.times.add(f"{self.key}:told", int(time.time()), seconds)):
            on_first_refusal()

    def decrement(self) -> None:
        with suppress(ValueError):  # the key may have expired
            self.run(lambda: self.stores.counts.decr(self.key))

    def reset(self) -> None:
        self.run(lambda: self.stores.counts.delete(self.key))

    def run(self, operation: Callable[[], T]) -> T:
        """The result of an operation on the stores; a shared cache that fails is replaced by the process's own."""
        try:
            return operation()
        except Exception as error:  # it is down, full or read-only, or holds a foreign value
            if self.stores == process_stores() or _is_missing_key(error):
                raise
            warn_about_store(error)
        self.stores = process_stores()
        return operation()

    def _increment(self) -> int:
        for _ in range(2):
            self.stores.counts.add(self.key, 0, self.window_seconds)
            with suppress(ValueError):  # its window has ended in between
                return _checked_int(self.stores.counts.incr(self.key))
        return 1

    def _seconds_left(self) -> int:
        """The seconds that are left of the window; all of it if nothing is counted."""
        return self.run(lambda: self.stores.counts.ttl(self.key)) or self.window_seconds


def _slow_down(
    by_address: FailureCounter,
    everywhere: FailureCounter,
    by_account: FailureCounter,
    *,
    is_known: Callable[[], bool],
    on_first_delay: Callable[[], None],
) -> None:
    """Raise RateLimited if this login has to wait for its turn; the counters count it already."""
    excess_of_address = by_address.count - settings.GATEWAY_LOGIN_FAILURES_PER_ADDRESS
    excess_of_account = everywhere.count - settings.GATEWAY_LOGIN_FAILURES_PER_ACCOUNT
    if excess_of_address > 0 and by_account.count == 1:  # the first try of this address: one a second is let through
        has_room = by_address.run(lambda: takes_pace(by_address.stores.times, *by_address.names))
        excess_of_address = 0 if has_room else 1
    if excess_of_account > 0 and is_known():
        excess_of_account = 0
    if (excess := max(excess_of_address, excess_of_account)) <= 0:
        return
    delay = delay_seconds(excess)
    wait = by_account.run(lambda: seconds_until_turn(by_account.stores.times, delay, *by_account.names))
    if wait:
        (everywhere if excess_of_account > 0 else by_address).note_refusal(on_first_delay)
        raise RateLimited(f"Too many failed logins. Try again in {wait} s.", retry_after=wait)


def origin_of(address: str) -> str:
    """What counts as one address: the network of an IPv6 address; the text itself where it is none."""
    read = read_address(address.partition("%")[0])
    if not read:  # a Unix socket has none
        return address
    return str(ip_network((read, 64), strict=False)) if ":" in read else read


def _checked_int(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} in the place of a number")
    return value


def _is_missing_key(error: Exception) -> bool:
    """Whether the error is Django's ValueError for incr() and decr() of a missing key."""
    return type(error) is ValueError
