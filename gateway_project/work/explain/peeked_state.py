"""The shared state of a request that is not sent: it sees limits and cache as they are, and takes nothing."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from gateway_project.work.limits.checks import Admission, LimitCheck, Reading, Settlement
from gateway_project.work.state.recount import counted_by_log
from gateway_project.work.state.shared import Checks, LocalState, SharedState

CACHE_SECONDS = 60  # for which the copy has an answer: until the explanation ends
ANOTHER = "another request"  # the token of a flight that is under way


class PeekedState:
    """Each admission is made on an excerpt of the state, by the code that admits requests in one process."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self.clock = state.clock
        self.readings: dict[str, Reading] = {}  # by the name of the check, without this request

    @property
    def degraded(self) -> bool:
        return self._state.degraded

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
        excerpt = self._excerpt([*checks, *chain.from_iterable(candidate_checks)])
        value, is_flying = self._state.peek(key) if key else (None, False)
        if value is not None:
            excerpt.begin_storing(key, value, CACHE_SECONDS, "")()
        if is_flying:
            excerpt.admit((), key, ANOTHER)
        return excerpt.admit(checks, key, token, read=read, candidate_checks=candidate_checks)

    def read(self, checks: Checks) -> list[Reading]:
        """These limits as they are."""
        if missing := [check for check in checks if check.name not in self.readings]:
            self._excerpt(missing)
        return [self.readings[check.name] for check in checks]

    def _excerpt(self, checks: Sequence[LimitCheck]) -> LocalState:
        """What is known of these limits; what is lost is looked up in the log, and rebuilt in the copy alone."""
        excerpt = self._state.excerpt(checks)
        if counts := excerpt.lost_counts(checks):
            excerpt.rebuild(list(counted_by_log(counts, self.clock)))
        for reading in excerpt.read_checks(checks):
            self.readings.setdefault(reading.check.name, reading)
        return excerpt

    def settle(self, settlement: Settlement) -> None:
        """Nothing to give back."""

    def release(self, key: str, token: str, settlement: Settlement | None = None) -> None:
        """Nothing to end."""

    def owners(self, digests: Collection[str]) -> dict[str, int] | None:
        return self._state.owners(digests)

    def claim_owners(self, claims: Mapping[str, int]) -> dict[str, int] | None:
        """What a claim would answer: whose each thing is, and the claimant's if it is nobody's."""
        owners = self._state.owners(list(claims))
        return None if owners is None else {**claims, **owners}
