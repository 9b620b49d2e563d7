"""Providers, and credentials of theirs, whose limits were full a moment ago, as far as this process knows."""

import time
from collections.abc import Callable, Sequence

from gateway_project.work.limits.checks import CheckStatus
from gateway_project.work.limits.kinds import CREDENTIAL, PROVIDER, Subject
from gateway_project.work.snapshot.records import ProviderSnapshot, Target

MAX_SECONDS = 5.0


class FullProviders:
    """Providers to skip while another can serve, so that identical requests go to the same one and share its cache.

    This is a hint only: the admission of a request decides whether there is room.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[Subject, float] = {}

    def copy(self) -> "FullProviders":
        """One that knows the same."""
        copy = FullProviders(self._clock)
        copy._until = dict(self._until)
        return copy

    def note(self, full: CheckStatus) -> None:
        """Remember that this limit of a provider is full, so that a request went to another provider."""
        seconds = min(full.reset_seconds, MAX_SECONDS)
        self._until[full.check.limit.subject] = self._clock() + seconds

    def is_full(self, provider: ProviderSnapshot) -> bool:
        """Whether one of its limits, or of its credential's, is known to be full."""
        return bool(self._until) and self._full_until(*provider.account) > self._clock()

    def without_full(self, targets: Sequence[Target]) -> list[Target]:
        """The targets that are not known to be full; all of them if every one is."""
        if not self._until:
            return list(targets)
        now = self._clock()
        return [target for target in targets if self._full_until(*target.provider.account) <= now] or list(targets)

    def _full_until(self, provider_id: int, credential_id: int) -> float:
        subjects = Subject(PROVIDER, provider_id), Subject(CREDENTIAL, credential_id)
        return max(self._until.get(subject, 0.0) for subject in subjects)
