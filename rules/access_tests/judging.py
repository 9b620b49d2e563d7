"""Whether access tests hold: the pipeline answers, by the rows as they are stored."""

from collections.abc import Collection, Sequence
from typing import Protocol

from gateway_project.database.guarding import Access
from gateway_project.hooks import Hook
from rules.access_tests.models import AccessTest, Verdict


class Judge(Protocol):
    """Judges the tests that it was made for."""

    def holds(self, test: AccessTest) -> bool:
        """Whether the test holds by the rows as they were when they were last loaded."""

    def explain(self, test: AccessTest) -> str:
        """Why the request would be served or refused, in sentences."""

    def reload(self, parts: Collection[Access]) -> None:
        """Load these rows again."""


# A judge of these tests, with the rows as they are now, also those that this transaction has changed.
judge_of: Hook[[Sequence[AccessTest]], Judge] = Hook("judge_of")


def verdicts_of(tests: Sequence[AccessTest]) -> list[Verdict]:
    """The verdict of each test, as everything is now."""
    if not tests:
        return []
    judge = judge_of(tests)
    return [Verdict(judge.holds(test), judge.explain(test)) for test in tests]
