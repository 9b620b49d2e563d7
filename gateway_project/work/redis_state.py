"""The shared state in Redis, over django-redis: one script a request, and each process's share while Redis is away."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from random import getrandbits
from typing import Any

from gateway_project.work import redis_scripts as scripts
from gateway_project.work.clock import Clock
from gateway_project.work.counters import ASKS, Count
from gateway_project.work.limits import (
    COUNT,
    LEASE_SECONDS,
    MOST,
    NOTHING_HELD,
    RESERVE,
    Admission,
    Hold,
    LimitCheck,
    Lost,
    Settlement,
    days_around,
    window_end,
)
from gateway_project.work.local_share import LocalShare
from gateway_project.work.redis_admission import ADMIT, ADMIT_PLAIN
from gateway_project.work.redis_client import RedisClient, RedisUnavailable
from gateway_project.work.redis_connection import RedisReplyError
from gateway_project.work.redis_memory import Memory, memory_of
from gateway_project.work.redis_replies import admission_of, ends_of, extra_of, sorted_out, standing_of
from gateway_project.work.state import FLIGHT_SECONDS, Checks

log = logging.getLogger("gateway.redis")

PROBE_SECONDS = 1.0
RENEW_EVERY_SECONDS = LEASE_SECONDS / 4
HANDED_ON_SECONDS = 2  # to those who wait for an answer that is not kept
AT_ONE_TIME = 200  # holds or counts in one script
FLIGHT_MS, LEASE_MS = FLIGHT_SECONDS * 1000, LEASE_SECONDS * 1000
FOR_EVER_MS = 10**15


class RedisState:
    """The shared state of any number of processes."""

    def __init__(self, *, prefix: str, processes: int, connections: int, timeout: float) -> None:
        self._prefix = prefix
        self._client = RedisClient(connections=connections, timeout=timeout)
        self._process = f"{getrandbits(64):016x}"
        self._epoch = self._name("limits", "since")
        self._memory = Memory()
        self.clock = Clock()
        self._share = LocalShare(share_of=processes, clock=self.clock)
        self._holding: dict[str, list[Hold]] = {}
        self._renewing = threading.Lock()
        self._renewed = time.monotonic()
        self._probed = 0.0

    @property
    def degraded(self) -> bool:
        return self._client.degraded

    def admit(
        self,
        checks: Checks,
        key: str = "",
        token: str = "",
        *,
        read: bool = False,
        choices: Sequence[Checks] = (),
        blind: bool = False,
    ) -> Admission:
        if blind:
            return self._by_share(checks, key, token, choices)
        unbounded, counted, plain = sorted_out(checks)
        try:
            if plain and not choices:
                admission, now = self._admit_plain(counted, key, token, read=read)
            else:
                admission, now = self._admit(counted, key, token, read=read, choices=choices)
        except RedisUnavailable:
            return self._by_share(checks, key, token, choices)
        if not admission.turned_away:
            self._look_on(admission, token, now, unbounded)
        return admission

    def _admit(
        self, checks: Checks, key: str, token: str, *, read: bool, choices: Sequence[Checks]
    ) -> tuple[Admission, float]:
        keys = [self._name("answer", key), self._name("flight", key)]
        flies = "1" if key and token else "0"
        arguments = [len(checks), len(choices), "1" if read else "0", token, flies, FLIGHT_MS, LEASE_MS, self._epoch]
        self._add_checks(keys, arguments, checks, 0)
        for number, choice in enumerate(choices, 1):
            self._add_checks(keys, arguments, choice, number)
        sent = time.time()
        reply = self._client.run(ADMIT, keys, arguments)
        self.clock.heard(reply[1] / 1000, sent=sent, received=time.time())
        return admission_of(reply, checks, choices, flies=flies == "1"), reply[1] / 1000

    def _admit_plain(self, checks: Checks, key: str, token: str, *, read: bool) -> tuple[Admission, float]:
        keys = [self._name("answer", key), self._name("flight", key)]
        flies = bool(key and token)
        arguments = ["1" if read else "0", token, "1" if flies else "0", FLIGHT_MS]
        for check in checks:
            keys.append(f"{self._prefix}:limit:{check.name}")
            arguments += check[1:3]
            arguments.append(check.take)
        refused, now, *rest = self._client.run(ADMIT_PLAIN, keys, arguments)
        counts = rest if refused else rest[2:]
        standing = [standing_of(check, count, now) for check, count in zip(checks, counts, strict=True)]
        if refused:
            return Admission(standing, standing[refused - 1]), now
        value, mode = rest[:2]
        value = value if isinstance(value, bytes) else None
        return Admission(standing, None, value, flies and mode == ASKS), now

    def _look_on(self, admission: Admission, token: str, now: float, unbounded: LimitCheck | None) -> None:
        """Know in this process what Redis has told, and what it need not be asked."""
        if admission.holds:
            self._holding.setdefault(token, []).extend(admission.holds)
        self._share.look_on(token, admission, now)
        if unbounded is not None:
            flies = token if admission.value is None else ""
            self._share.note_use(unbounded, flies)
            if flies:
                admission.holds.append(Hold(unbounded))

    def _by_share(self, checks: Checks, key: str, token: str, choices: Sequence[Checks]) -> Admission:
        admission = self._share.admit(checks, key, token, read=False, choices=choices)
        if held := [hold for hold in admission.holds if not hold.check.is_unbounded]:
            self._holding.setdefault(token, []).extend(held)
        return admission

    @property
    def warning(self) -> str:
        return self._memory.warning

    def store(self, key: str, value: bytes, seconds: int, token: str, settlement: Settlement = NOTHING_HELD) -> None:
        if self._memory.is_short:
            seconds = min(seconds, HANDED_ON_SECONDS)
        self._end(scripts.STORE, key, (value, seconds, token), settlement)

    def release(self, key: str, token: str, settlement: Settlement = NOTHING_HELD) -> None:
        self._end(scripts.RELEASE, key, ("", 0, token), settlement)

    def settle(self, settlement: Settlement) -> None:
        self._end(scripts.SETTLE, "", ("", 0, ""), settlement)

    def _end(self, script: str, key: str, head: tuple[Any, ...], settlement: Settlement) -> None:
        keys = [self._name("answer", key), self._name("flight", key)]
        arguments = [*head, settlement.token]
        told = [
            pair for pair in zip(settlement.holds, settlement.amounts, strict=True) if not pair[0].check.is_unbounded
        ]
        for hold, amount in told:
            keys.append(self._held(hold))
            arguments += (
                hold.check.kind,
                hold.take,
                amount,
                ends_of(hold),
                int(hold.admitted * 1000),
                min(settlement.ended * 1000, FOR_EVER_MS),
                extra_of(hold.check),
            )
        if not told:
            script = scripts.ALONE[script]
        self._forget(settlement)  # before it is given back: it is renewed no more
        settled = not script or self._client.try_run(script, keys, arguments)
        self._share.release(key, head[2])
        self._share.settled(settlement, elsewhere=settled)

    def _forget(self, settlement: Settlement) -> None:
        with self._renewing:
            left = [hold for hold in self._holding.pop(settlement.token, ()) if hold not in settlement.holds]
            if left:  # the request goes on, with another provider
                self._holding[settlement.token] = left

    def renew_holds(self) -> None:
        """Every few seconds: what the requests of this process hold, also what Redis has forgotten."""
        if self._client.is_down:
            return
        again = time.monotonic() - self._renewed > RENEW_EVERY_SECONDS
        self._tell_uses(again=again)
        if not again:
            return
        self._renewed = time.monotonic()
        self._renew(self._client.try_run)

    def used(self, checks: Checks) -> list[int | None]:
        keys = [self._name("limit", check.name) for check in checks]
        arguments: list[Any] = []
        for check in checks:
            arguments += (check.kind, check.window_seconds, 1 if check.since else 0, check.set_at)
        try:
            return list(self._client.run(scripts.USED, keys, arguments))
        except RedisUnavailable:
            return [None] * len(checks)

    def still_lost(self, counts: Sequence[Lost]) -> Sequence[Lost]:
        try:
            names = [self._count_name(lost) for lost in counts]
            flags = self._client.run(scripts.LOST, names, [lost.until_ms for lost in counts])
        except RedisUnavailable:
            return counts
        return [lost for lost, flag in zip(counts, flags, strict=True) if flag]

    def alone(self, task: str, seconds: float) -> bool:
        try:
            return (
                self._client.command("SET", self._name("task", task), "1", "NX", "PX", int(seconds * 1000)) is not None
            )
        except (RedisUnavailable, RedisReplyError):
            return False

    def finish(self, task: str) -> None:
        with suppress(RedisUnavailable, RedisReplyError):
            self._client.command("DEL", self._name("task", task))

    def rebuild(self, counts: Sequence[tuple[Lost, int]]) -> None:
        keys = [self._count_name(lost) for lost, _ in counts]
        told = [part for lost, used in counts for part in (min(used, MOST), lost.until_ms)]
        self._client.try_run(scripts.REBUILD, keys, told)

    def _tell_uses(self, *, again: bool) -> None:
        for name, uses in self._share.notes(again=again).items():
            arguments: list[Any] = [LEASE_MS, self._process]
            for check, flies in uses:
                arguments += (check.member, check.window_seconds, "1" if flies else "0")
            self._client.try_run(scripts.NOTE_USES, [self._name("limit", name)], arguments)

    def uses(self, name: str) -> int:
        self._tell_uses(again=False)
        try:
            return int(self._client.run(scripts.USES, [self._name("limit", name)], ()))
        except RedisUnavailable:
            return self._share.uses(name)

    def peaks(self, name: str) -> dict[int, int]:
        self._tell_uses(again=False)
        days = days_around(self.clock.now())
        try:
            counts = self._client.command("MGET", *(self._name("limit", f"{name}:peak:{day}") for day in days))
        except (RedisUnavailable, RedisReplyError):
            return self._share.peaks(name)
        return {day: int(most) for day, most in zip(days, counts, strict=True) if most and most.isdigit()}

    def renew(self, key: str, token: str) -> None:
        self._client.try_run(scripts.RENEW, (self._name("flight", key),), (token, FLIGHT_MS))

    def look(self, key: str) -> tuple[bytes | None, bool]:
        try:
            value, flight = self._client.command("MGET", self._name("answer", key), self._name("flight", key))
        except (RedisUnavailable, RedisReplyError):
            return None, False
        return value if isinstance(value, bytes) else None, flight is not None

    def forget(self, keys: Collection[str]) -> bool:
        try:
            self._client.command("UNLINK", *(self._name("answer", key) for key in keys))
        except (RedisUnavailable, RedisReplyError):
            return False
        return True

    def probe(self) -> None:
        """Once a second: whether Redis takes what it is given (called in the background)."""
        if time.monotonic() - self._probed < PROBE_SECONDS:
            return
        self._probed = time.monotonic()
        self._client.probe(("SET", self._name("probe", ""), "1", "EX", 60), self._bring_up_to_date)
        with suppress(RedisUnavailable, RedisReplyError):
            self._note(memory_of(self._client.command("INFO", "memory")))
            self._look_at_the_clock()

    def _look_at_the_clock(self) -> None:
        sent = time.time()
        seconds, micro = self._client.command("TIME")
        self.clock.heard(int(seconds) + int(micro) / 1e6, sent=sent, received=time.time())

    def _note(self, memory: Memory) -> None:
        before, self._memory = self._memory, memory
        if memory.warning and memory.policy != before.policy:
            log.warning(memory.warning)
        if memory.is_short and not before.is_short:
            log.warning("Redis has little memory left: no more answers are kept until there is.")

    def tidy(self) -> None:
        self._share.tidy()

    def _bring_up_to_date(self) -> None:
        """Tell Redis what happened without it, before anybody is admitted by it again."""
        made = self._share.hand_over()
        try:
            if self.degraded:
                self._renew(self._tell)
            for script, keys, arguments in self._additions(made):
                self._tell(script, keys, arguments)
        except BaseException:
            self._share.take_back(made)
            raise

    def _tell(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> None:
        """Run a script while Redis may count as away for everybody else."""
        self._client.exchange(("EVAL", script, len(keys), *keys, *arguments), fresh=self._client.is_down)

    def _name(self, kind: str, key: str) -> str:
        return f"{self._prefix}:{kind}:{key}"

    def _add_checks(self, keys: list[str], arguments: list[Any], checks: Checks, candidate: int) -> None:
        for name, amount, window, kind, take, least, member, since, set_at, _ in checks:
            keys.append(f"{self._prefix}:limit:{name}")
            # A default one's is a moment of this process: since when it has been asked here.
            known = self.clock.of_own(since) if since and not set_at else since
            arguments += (candidate, kind, amount, window, take, member or least, known, set_at)

    def _count_name(self, lost: Lost) -> str:
        return self._name("limit", f"{lost.check.name}:{lost.begin}")

    def _held(self, hold: Hold) -> str:
        """The key of what a hold was taken from."""
        name = hold.check.name
        return self._name("limit", f"{name}:{hold.begin}" if hold.check.kind in (COUNT, RESERVE) else name)

    def _renew(self, run: Callable[[str, list[str], list[Any]], Any]) -> None:
        """Run the scripts that renew everything this process holds."""
        held = [(token, hold) for token, holds in list(self._holding.items()) for hold in holds]
        for start in range(0, len(held), AT_ONE_TIME):
            with self._renewing:  # what was given back meanwhile would be taken again
                some = [one for one in held[start : start + AT_ONE_TIME] if one[1] in self._holding.get(one[0], ())]
                arguments: list[Any] = [LEASE_MS]
                for token, hold in some:
                    arguments += (hold.check.kind, token, hold.take, ends_of(hold), hold.check.member)
                run(scripts.RENEW_HOLDS, [self._held(hold) for _, hold in some], arguments)

    def _additions(self, made: Sequence[Count]) -> Iterator[tuple[str, list[str], list[Any]]]:
        """The same to add what was counted here while Redis was away."""
        for start in range(0, len(made), AT_ONE_TIME):
            keys: list[str] = []
            arguments: list[Any] = []
            for count in made[start : start + AT_ONE_TIME]:
                check = count.check
                keys.append(self._name("limit", f"{check.name}:{count.begin}"))
                since = int(count.since * 1000) if check.since else -1
                arguments += (count.used, window_end(check.window_seconds, count.begin), since)
            yield scripts.ADD, keys, arguments
