"""The limits of all keys, users, groups and providers, as LimitChecks."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple, Protocol

from gateway_project.work.limits.checks import (
    COUNT,
    DAY,
    LEASE,
    MAX_AMOUNT,
    MINUTE,
    MONTH,
    RESERVE,
    CheckSet,
    LimitCheck,
)
from gateway_project.work.limits.kinds import (
    CONCURRENT,
    COST,
    CREDENTIAL,
    HEADER_UNITS,
    NANO,
    REFUSE,
    REQUESTS,
    TOKENS,
    LimitDescription,
    Subject,
)

WINDOWS = {"minute": MINUTE, "day": DAY, "month": MONTH, "none": 0}
KIND_BY_MEASURE = {REQUESTS: COUNT, TOKENS: RESERVE, COST: RESERVE, CONCURRENT: LEASE}
MAX_CACHED = 100_000


class LimitRow(NamedTuple):
    """A limit as it was set; an amount of 0 is unlimited, and overrides the default."""

    subject: Subject
    name: str  # the subject's
    measure: str
    window: str
    amount: Decimal
    set_at: datetime | None = None  # when the limit was set; None for a default
    is_strict: bool = False
    unpriced: str = REFUSE
    unpriced_price: Decimal = Decimal(0)
    is_new: bool = False  # whether the subject was created just before the limit
    is_guard: bool = False  # a default that keeps one caller from using all capacity; no header shows it


class Holder(Protocol):
    """A key or a provider, as far as limits need it."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


class AccountHolder(Holder, Protocol):
    """A provider with one of its credentials; `account` is the ids of both, 0 for the provider's own credential."""

    @property
    def account(self) -> tuple[int, int]: ...


class Member(Holder, Protocol):
    """A user, with the ids of its groups."""

    @property
    def group_ids(self) -> tuple[int, ...]: ...


@dataclass(slots=True, eq=False)
class Limits:
    """The checks of one caller or provider, whether any of them is a RESERVE, and those that refuse unpriced work."""

    checks: tuple[LimitCheck, ...] = ()
    reserves: bool = False
    refusing_unpriced: tuple[LimitCheck, ...] = ()
    _with_use: CheckSet | None = None

    def with_use(self, use: LimitCheck) -> CheckSet:
        """The checks and one of an active use; the set is kept for the next request with the same one."""
        checks = self._with_use
        if checks is None or checks[-1] is not use:
            checks = self._with_use = CheckSet((*self.checks, use))
        return checks


NO_LIMITS = Limits()
Defaults = Mapping[str, Mapping[tuple[str, str], Decimal]]  # subject, then measure and window


class LimitBook:
    """All limits that were set, and the defaults for subjects without their own.

    The count of a limit is complete only since the limit was set; that of a default since this process began to count
    it: `started_at`, by default now.

    `guards` are defaults of minutes and concurrency that keep one caller from taking all. The subject "login" has no
    other limits: it is a user's work without a key.
    """

    def __init__(
        self,
        rows: Iterable[LimitRow] = (),
        defaults: Defaults | None = None,
        started_at: float | None = None,
        guards: Defaults | None = None,
    ) -> None:
        self.started_at = time.time() if started_at is None else started_at
        self._defaults = defaults or {}
        self._guards = guards or {}
        self._rows: dict[Subject, dict[tuple[str, str], LimitRow]] = {}
        self._cache: dict[object, Limits] = {}
        for row in rows:
            self._rows.setdefault(row.subject, {})[row.measure, row.window] = row
        self.has_provider_limits = any(subject.is_upstream for subject in self._rows) or self._has_default("provider")

    def for_caller(self, key: Holder | None, caller: Member) -> Limits:
        """The limits of a request: of its key (None for a login), its user, and each group of the user."""
        cache_key = key and (key.id, key.name), caller.id, caller.name, caller.group_ids
        limits = self._cache.get(cache_key)
        if limits is None:
            subjects = [("user", caller.id, caller.name)]
            subjects.insert(0, ("login", caller.id, caller.name) if key is None else ("key", key.id, key.name))
            subjects += [("group", group_id, "") for group_id in caller.group_ids]
            limits = self._make_limits(cache_key, subjects)
        return limits

    def for_provider(self, provider: AccountHolder) -> Limits:
        """The limits of the requests to a provider with one of its credentials."""
        cache_key = "provider", provider.account, provider.name
        limits = self._cache.get(cache_key)
        if limits is None:
            subjects = [("provider", provider.id, provider.name)]
            if credential_id := provider.account[1]:
                subjects.append((CREDENTIAL, credential_id, f"of {provider.name}"))
            limits = self._make_limits(cache_key, subjects)
        return limits

    def checks_for(self, subject: Subject, name: str = "") -> list[LimitCheck]:
        """The checks of one subject, including those of default limits."""
        rows, defaults = self._rows.get(subject, {}), self._defaults.get(subject.kind, {})
        name = name or next((row.name for row in rows.values()), str(subject.id))
        guards = self._guards.get(subject.kind, {})
        applicable = {kind: LimitRow(subject, name, *kind, amount, is_guard=True) for kind, amount in guards.items()}
        applicable |= {kind: LimitRow(subject, name, *kind, amount) for kind, amount in defaults.items()} | rows
        for kind, row in rows.items():
            # An unlimited limit is counted, too: once it is deleted, the default applies and needs a complete count.
            if not row.amount and defaults.get(kind):
                applicable[kind] = row._replace(amount=Decimal(MAX_AMOUNT))
        return [self.check(row._replace(name=name)) for row in applicable.values() if row.amount > 0]

    def check(self, row: LimitRow) -> LimitCheck:
        """The check of one limit."""
        subject, name, measure, window, amount, set_at, *_ = row
        seconds, units = WINDOWS[window], min(int(amount * NANO) if measure == COST else int(amount), MAX_AMOUNT)
        rebuilt = seconds not in (0, MINUTE)
        since = set_at.timestamp() if set_at else self.started_at
        description = _describe(subject, name, measure, window, units)
        if row.is_guard or subject.kind == CREDENTIAL:
            description = description._replace(policy="", header="")
        return LimitCheck(
            description.check_name,
            units,
            seconds,
            KIND_BY_MEASURE[measure],
            since=since if rebuilt else 0.0,
            set_at=int(since * 1000) if rebuilt and set_at else 0,
            is_new=row.is_new,
            limit=description._replace(
                is_strict=row.is_strict, unpriced=row.unpriced, unpriced_price=row.unpriced_price
            ),
        )

    def _has_default(self, kind: str) -> bool:
        return any(amount > 0 for amount in self._defaults.get(kind, {}).values())

    def _make_limits(self, cache_key: object, subjects: Sequence[tuple[str, int, str]]) -> Limits:
        checks = tuple(
            check for kind, subject_id, name in subjects for check in self.checks_for(Subject(kind, subject_id), name)
        )
        reserves = any(check.kind == RESERVE for check in checks)
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        refusing = tuple(check for check in checks if check.limit.measure == COST and check.limit.unpriced == REFUSE)
        limits = self._cache[cache_key] = Limits(checks, reserves, refusing)
        return limits


def _describe(subject: Subject, name: str, measure: str, window: str, units: int) -> LimitDescription:
    """The commonest limits have the shortest policy names: "key" is the key's requests per minute."""
    parts = [subject.kind]
    if subject.kind == "group":
        parts.append(str(subject.id))
    if measure != REQUESTS:
        parts.append(measure)
    if window not in ("minute", "none"):
        parts.append(window)
    policy = "-".join(parts)
    unit = f';qu="{HEADER_UNITS[measure]}"' if measure in HEADER_UNITS else ""
    # A month has no number of seconds.
    seconds = f";w={WINDOWS[window]}" if WINDOWS[window] > 0 else ""
    limit = LimitDescription(subject, name, measure, window, policy)
    return limit._replace(header=f'"{policy}";q={limit.header_amount(units)}{unit}{seconds}')
