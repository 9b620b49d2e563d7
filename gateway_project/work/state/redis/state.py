"""The shared state in Redis: one script admits a request; each process has its share while Redis is down."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from random import getrandbits

from gateway_project.work.limits.checks import (
    COUNT,
    LEASE_SECONDS,
    MAX_AMOUNT,
    NOTHING_HELD,
    RESERVE,
    Admission,
    CheckSet,
    Hold,
    LimitCheck,
    LostCount,
    Settlement,
    days_around,
    window_end,
)
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.counters import Count
from gateway_project.work.state.local_share import LocalShare
from gateway_project.work.state.process_count import LAPSE_MS, ProcessCount
from gateway_project.work.state.redis import scripts
from gateway_project.work.state.redis.acknowledgements import RedisAcknowledgements
from gateway_project.work.state.redis.admission_script import ACCEPT_LOST, ADMIT, PLAIN, REFUSE_LOST
from gateway_project.work.state.redis.client import RedisClient, RedisUnavailable
from gateway_project.work.state.redis.connection import RedisReplyError, Reply, Word
from gateway_project.work.state.redis.memory import Memory, memory_of
from gateway_project.work.state.redis.owners import RedisOwners
from gateway_project.work.state.redis.replies import (
    admission_of,
    counters_of,
    end_argument,
    extra_argument,
)
from gateway_project.work.state.redis.scripts import FLIGHT_MS, LEASE_MS
from gateway_project.work.state.redis.seals import Seals
from gateway_project.work.state.redis.shipping import RedisShippingRequests
from gateway_project.work.state.redis.signal_board import RedisSignalBoard
from gateway_project.work.state.shared import Checks, LocalState, Storing

log = logging.getLogger("gateway.redis")

PROBE_SECONDS = 1.0
RENEW_EVERY_SECONDS = LEASE_SECONDS / 4
FOLLOWERS_SECONDS = 2  # how long an answer that is not cached stays for the requests that wait for it
BATCH_SIZE = 200  # holds or counts a script call
NEVER_MS = 10**15


class RedisState:
    """The shared state of any number of processes."""

    def __init__(self, *, prefix: str, secret: str, processes: ProcessCount, connections: int, timeout: float) -> None:
        self._prefix = prefix
        self._seals = Seals(secret)
        self._client = RedisClient(connections=connections, timeout=timeout)
        self._process = f"{getrandbits(64):016x}"
        self.shipping_requests = RedisShippingRequests(self._client, prefix=prefix, process=self._process)
        self.signal_board = RedisSignalBoard(self._client, prefix=prefix, process=self._process)
        self.acknowledgements = RedisAcknowledgements(self._client, self._seals, prefix=prefix, process=self._process)
        self._owners = RedisOwners(self._client, self._seals, prefix=prefix)
        self._epoch = self._key("limits", "since")
        self._memory, self._is_memory_short = Memory(), False
        self.clock = Clock()
        self._processes = processes
        self._share = LocalShare(share_of=processes.current, clock=self.clock)
        self._holds: dict[str, list[Hold]] = {}
        self._renewing = threading.Lock()
        self._renewed = time.monotonic()
        self._probed = 0.0

    @property
    def degraded(self) -> bool:
        return self._client.degraded

    @property
    def processes(self) -> int:
        return self._processes.current

    def admit(
        self,
        checks: Checks,
        key: str = "",
        token: str = "",
        *,
        read: bool = False,
        candidate_checks: Sequence[Checks] = (),
        accept_lost: bool = False,
        ignore_lost: bool = False,
    ) -> Admission:
        if ignore_lost:
            return self._admit_locally(checks, key, token, candidate_checks)
        check_set = checks if isinstance(checks, CheckSet) else CheckSet(checks)
        prefix, bounded, claims_flight = self._prefix, check_set.bounded, key != "" and token != ""
        way = PLAIN if check_set.is_plain and not candidate_checks else ACCEPT_LOST if accept_lost else REFUSE_LOST
        keys = [f"{prefix}:answer:{key}", f"{prefix}:flight:{key}"]
        reads, claims = "1" if read else "0", "1" if claims_flight else "0"
        arguments: list[Word] = [len(bounded), len(candidate_checks), reads, token, claims, way, self._epoch]
        if way == PLAIN:
            keys += [f"{prefix}:limit:{name}" for name in check_set.names]
            arguments += check_set.amounts
        else:
            self._add_checks(keys, arguments, (bounded, *candidate_checks))
        request_time = time.time()
        try:
            reply = self._client.run(ADMIT, keys, arguments)
        except RedisUnavailable:
            return self._admit_locally(checks, key, token, candidate_checks)
        self.clock.observe(reply[1] / 1000, request_time=request_time, reply_time=time.time())
        admission = admission_of(reply, bounded, candidate_checks, claims_flight=claims_flight)
        if admission.value is not None:
            admission.value = self._seals.open(keys[0], admission.value)
        if admission.refused is None and not admission.lost:
            self._observe(admission, token, check_set.unbounded)
        return admission

    def _observe(self, admission: Admission, token: str, unbounded: LimitCheck | None) -> None:
        """Note in this process what Redis has admitted, and a use without a limit, which Redis learns of later."""
        if admission.holds:
            self._holds.setdefault(token, []).extend(admission.holds)
        self._share.observe_admission(token, admission, admission.at)
        if unbounded is not None:
            hold_token = token if admission.value is None else ""
            self._share.note_use(unbounded, hold_token, admission.at)
            if hold_token:
                admission.holds.append(Hold(unbounded))

    def _admit_locally(self, checks: Checks, key: str, token: str, candidate_checks: Sequence[Checks]) -> Admission:
        admission = self._share.admit(checks, key, token, read=False, candidate_checks=candidate_checks)
        if holds := [hold for hold in admission.holds if not hold.check.is_unbounded]:
            self._holds.setdefault(token, []).extend(holds)
        return admission

    @property
    def warning(self) -> str:
        return self._memory.warning

    def begin_storing(
        self, key: str, value: bytes, seconds: int, token: str, settlement: Settlement = NOTHING_HELD
    ) -> Storing:
        if self._is_memory_short:
            seconds = min(seconds, FOLLOWERS_SECONDS)
        data = self._seals.seal(self._key("answer", key), value)
        return self._begin_to_end(scripts.STORE, key, (data, seconds, token), settlement)

    def release(self, key: str, token: str, settlement: Settlement = NOTHING_HELD) -> None:
        self._begin_to_end(scripts.RELEASE, key, ("", 0, token), settlement)()

    def settle(self, settlement: Settlement) -> None:
        self._begin_to_end(scripts.SETTLE, "", ("", 0, ""), settlement)()

    def _begin_to_end(
        self, script: str, key: str, head: tuple[str | bytes, int, str], settlement: Settlement
    ) -> Storing:
        """Send the script; what is returned waits until it has run."""
        prefix, token = self._prefix, settlement.token
        keys = [f"{prefix}:answer:{key}", f"{prefix}:flight:{key}"]
        arguments: list[Word] = [*head, token]
        for hold, amount in zip(settlement.holds, settlement.amounts, strict=True):
            if hold.check.is_unbounded:
                continue
            keys.append(self._hold_key(hold))
            arguments += (
                hold.check.kind,
                hold.take,
                amount,
                end_argument(hold),
                round(hold.admitted * 1000),
                min(settlement.ended * 1000, NEVER_MS),
                extra_argument(hold.check),
            )
        if len(keys) == 2:  # nothing is held in Redis
            script = scripts.ALONE[script]
        if token in self._holds:
            self._drop_holds(settlement)  # before the script gives them back, so that they are not renewed again
        has_run = self._client.begin(script, keys, arguments) if script else lambda: True

        def end() -> None:
            is_counted = has_run()
            self._share.end_flight(key, head[2])
            self._share.observe_settlement(settlement, counted_in_redis=is_counted)

        return end

    def _drop_holds(self, settlement: Settlement) -> None:
        with self._renewing:
            rest = [hold for hold in self._holds.pop(settlement.token, ()) if hold not in settlement.holds]
            if rest:  # the request goes on, with another provider
                self._holds[settlement.token] = rest

    def renew_holds(self) -> None:
        """Every few seconds renew what the requests of this process hold, including what Redis has lost."""
        if self._client.is_down:
            return
        again = time.monotonic() - self._renewed > RENEW_EVERY_SECONDS
        self._send_uses(include_all=again)
        if not again:
            return
        self._renewed = time.monotonic()
        self._renew(self._client.try_run)

    def used_amounts(self, checks: Checks) -> list[int | None]:
        keys = [self._key("limit", check.name) for check in checks]
        arguments: list[Word] = []
        for check in checks:
            arguments += (check.kind, check.window_seconds, 1 if check.since else 0, check.set_at)
        try:
            return list(self._client.run(scripts.USED, keys, arguments))
        except RedisUnavailable:
            return [None] * len(checks)

    def excerpt(self, checks: Checks) -> LocalState:
        keys = [self._key("limit", check.name) for check in checks]
        arguments = [part for check in checks for part in (check.kind, check.window_seconds, check.member)]
        try:
            reply = self._client.run(scripts.FIGURES, keys, arguments)
        except RedisUnavailable:
            return self._share.excerpt(checks)
        return LocalState.from_counters(counters_of(reply, checks, self.clock))

    def still_lost(self, counts: Sequence[LostCount]) -> Sequence[LostCount]:
        try:
            names = [self._count_key(count) for count in counts]
            flags = self._client.run(scripts.LOST, names, [count.until_ms for count in counts])
        except RedisUnavailable:
            return counts
        return [count for count, flag in zip(counts, flags, strict=True) if flag]

    def claim_task(self, task: str, seconds: float) -> bool:
        try:
            return (
                self._client.command("SET", self._key("task", task), "1", "NX", "PX", int(seconds * 1000)) is not None
            )
        except (RedisUnavailable, RedisReplyError):
            return False

    def release_task(self, task: str) -> None:
        with suppress(RedisUnavailable, RedisReplyError):
            self._client.command("DEL", self._key("task", task))

    def rebuild(self, counts: Sequence[tuple[LostCount, int]]) -> None:
        keys = [self._count_key(count) for count, _ in counts]
        arguments = [part for count, usage in counts for part in (min(usage, MAX_AMOUNT), count.until_ms)]
        self._client.try_run(scripts.REBUILD, keys, arguments)

    def _send_uses(self, *, include_all: bool) -> None:
        for name, uses in self._share.changed_uses(include_all=include_all).items():
            arguments: list[Word] = [LEASE_MS, self._process]
            for check, in_flight in uses:
                arguments += (check.member, check.window_seconds, "1" if in_flight else "0")
            self._client.try_run(scripts.NOTE_USES, [self._key("limit", name)], arguments)

    def count_uses(self, name: str) -> int:
        self._send_uses(include_all=False)
        try:
            return int(self._client.run(scripts.USES, [self._key("limit", name)], ()))
        except RedisUnavailable:
            return self._share.count_uses(name)

    def use_peaks(self, name: str) -> dict[int, int]:
        self._send_uses(include_all=False)
        days = days_around(self.clock.now())
        try:
            counts = self._client.command("MGET", *(self._key("limit", f"{name}:peak:{day}") for day in days))
        except (RedisUnavailable, RedisReplyError):
            return self._share.use_peaks(name)
        return {day: int(most) for day, most in zip(days, counts, strict=True) if most and most.isdigit()}

    def renew_flight(self, key: str, token: str) -> None:
        self._client.try_run(scripts.RENEW, (self._key("flight", key),), (token, FLIGHT_MS))

    def peek(self, key: str) -> tuple[bytes | None, bool]:
        try:
            value, flight = self._client.command("MGET", name := self._key("answer", key), self._key("flight", key))
        except (RedisUnavailable, RedisReplyError):
            return None, False
        return self._seals.open(name, value) if isinstance(value, bytes) else None, flight is not None

    def forget_answers(self, keys: Collection[str]) -> bool:
        try:
            self._client.command("UNLINK", *(self._key("answer", key) for key in keys))
        except (RedisUnavailable, RedisReplyError):
            return False
        return True

    def owners(self, digests: Collection[str]) -> dict[str, int] | None:
        return self._owners.find(digests)

    def claim_owners(self, claims: Mapping[str, int]) -> dict[str, int] | None:
        return self._owners.claim(claims)

    @property
    def clock_offset(self) -> float:
        return self.clock.offset

    def probe(self) -> None:
        """Once a second, in the background: check that Redis accepts writes, its memory, clock and processes."""
        if time.monotonic() - self._probed < PROBE_SECONDS:
            return
        self._probed = time.monotonic()
        self._client.probe(("SET", self._key("probe", ""), "1", "EX", 60), self._bring_up_to_date)
        with suppress(RedisUnavailable, RedisReplyError):
            self._note_memory(memory_of(self._client.command("INFO", "memory")))
            self._sync_clock()
        if self._processes.is_due():
            self._count_processes()

    def _count_processes(self) -> None:
        keys, arguments = [self._key("processes", ""), self._epoch], (self._process, LAPSE_MS)
        with suppress(RedisUnavailable):
            self._processes.observe(self._client.run(scripts.COUNT_PROCESSES, keys, arguments))
        self._share.share_among(self._processes.current)

    def _sync_clock(self) -> None:
        request_time = time.time()
        seconds, micro = self._client.command("TIME")
        self.clock.observe(int(seconds) + int(micro) / 1e6, request_time=request_time, reply_time=time.time())

    def _note_memory(self, memory: Memory) -> None:
        before, self._memory, self._is_memory_short = self._memory, memory, memory.is_short
        if memory.warning and memory.policy != before.policy:
            log.warning(memory.warning)
        if memory.is_short and not before.is_short:
            log.warning("Redis is low on memory. Answers are not cached until memory is free.")

    def tidy(self) -> None:
        self._share.tidy()

    def _bring_up_to_date(self) -> None:
        """Send Redis what happened while it was down, before it admits requests again."""
        counts = self._share.hand_over()
        try:
            if self.degraded:
                self._renew(self._run_while_down)
            for script, keys, arguments in self._additions(counts):
                self._run_while_down(script, keys, arguments)
        except BaseException:
            self._share.take_back(counts)
            raise

    def _run_while_down(self, script: str, keys: Sequence[str], arguments: Sequence[Word]) -> None:
        """Run a script even while Redis counts as down."""
        self._client.exchange(("EVAL", script, len(keys), *keys, *arguments), fresh=self._client.is_down)

    def _key(self, kind: str, key: str) -> str:
        return f"{self._prefix}:{kind}:{key}"

    def _add_checks(self, keys: list[str], arguments: list[Word], groups: Sequence[Checks]) -> None:
        """Add the caller's checks, and those of each candidate."""
        for candidate, checks in enumerate(groups):
            for name, amount, window, kind, take, minimum, member, since, set_at, *_ in checks:
                keys.append(f"{self._prefix}:limit:{name}")
                # A default limit's `since` is a time of this process: when it began to count it.
                counted_since = self.clock.from_local(since) if since and not set_at else since
                arguments += (candidate, kind, amount, window, take, member or minimum, counted_since, set_at)

    def _count_key(self, count: LostCount) -> str:
        return self._key("limit", f"{count.check.name}:{count.begin}")

    def _hold_key(self, hold: Hold) -> str:
        """The Redis key that a hold was taken from."""
        name = hold.check.name
        return self._key("limit", f"{name}:{hold.begin}" if hold.check.kind in (COUNT, RESERVE) else name)

    def _renew(self, run: Callable[[str, list[str], list[Word]], Reply]) -> None:
        """Renew, with `run`, everything this process holds."""
        all_holds = [(token, hold) for token, holds in list(self._holds.items()) for hold in holds]
        for start in range(0, len(all_holds), BATCH_SIZE):
            with self._renewing:  # otherwise a hold that is given back meanwhile would be taken again
                batch = all_holds[start : start + BATCH_SIZE]
                batch = [(token, hold) for token, hold in batch if hold in self._holds.get(token, ())]
                arguments: list[Word] = [LEASE_MS]
                for token, hold in batch:
                    arguments += (hold.check.kind, token, hold.take, end_argument(hold), hold.check.member)
                run(scripts.RENEW_HOLDS, [self._hold_key(hold) for _, hold in batch], arguments)

    def _additions(self, counts: Sequence[Count]) -> Iterator[tuple[str, list[str], list[Word]]]:
        """The script calls that add what was counted here while Redis was down."""
        for start in range(0, len(counts), BATCH_SIZE):
            keys: list[str] = []
            arguments: list[Word] = []
            for count in counts[start : start + BATCH_SIZE]:
                check = count.check
                keys.append(self._key("limit", f"{check.name}:{count.begin}"))
                since = int(count.since * 1000) if check.since else -1
                arguments += (count.usage, window_end(check.window_seconds, count.begin), since)
            yield scripts.ADD, keys, arguments
