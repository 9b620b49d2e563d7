"""What the guardrails of a draft come to, by guardrail, with entries behind each number."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway_project.json_types import JsonObject
from gateway_project.wording import plural
from gateway_project.work.guardrails.book import BLOCK, MONITOR, REDACT
from gateway_project.work.guardrails.remote.services import REMOTE_TYPES
from gateway_project.work.guardrails.searching import PASSED, RESULTS
from gateway_project.work.what_if.examples import Examples
from gateway_project.work.what_if.traffic import MAX_EXAMPLES, Traffic

BLOCKED, REDACTED, MONITORED = RESULTS[BLOCK], RESULTS[REDACT], RESULTS[MONITOR]
TAKEN_OUT = (BLOCKED, REDACTED)  # the text was kept without what the guardrail found
UNKNOWN = "unknown"
STRICTNESS = (PASSED, MONITORED, REDACTED, BLOCKED)
# The members of a row of a result: what the guardrail of now does, and what that of the draft does.
BEFORE = {result: f"{result}Before" for result in (BLOCKED, REDACTED, MONITORED)}
COLUMNS = (*BEFORE.values(), BLOCKED, REDACTED, MONITORED, UNKNOWN)


def strictest_result(one: str, other: str) -> str:
    """Of two results of a guardrail the one that counts."""
    return max(one, other, key=lambda result: STRICTNESS.index(result) if result in STRICTNESS else 0)


@dataclass(slots=True)
class GuardrailCounts:
    """Requests by what a guardrail does with them; the ids of new ones are negative."""

    id: int
    name: str
    type: str
    repairs: bool = False
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))
    examples: Examples[str] = field(default_factory=lambda: Examples(COLUMNS, MAX_EXAMPLES))

    def add(self, traffic: Traffic, before: str, after: str) -> None:
        """Count a request; what passes, or could not be searched then, is not counted."""
        for column in (BEFORE.get(before), after if after in COLUMNS else None):
            if column is not None:
                self.numbers[column] += traffic.requests
                self.examples.add(column, traffic)

    def document(self) -> JsonObject:
        return {
            "guardrailId": self.id if self.id > 0 else None,
            "guardrail": self.name,
            **self.numbers,
            "examples": self.examples.sorted_ids(),
        }

    def unknown(self) -> Iterator[str]:
        """What is not known of it, in sentences."""
        number = self.numbers[UNKNOWN]
        if number and self.type in REMOTE_TYPES:
            requests = plural(number, "request")
            yield f"The guardrail {self.name} asks a service. Its result for {requests} is unknown."
        elif number:
            yield (
                f"The result of the guardrail {self.name} for {plural(number, 'request')} is unknown: the log does "
                "not have the text, or only the redacted text."
            )
        if self.repairs and (number := sum(self.numbers[result] for result in (BLOCKED, REDACTED, MONITORED))):
            answers = plural(number, "answer")
            yield (
                f"With the guardrail {self.name} the model would be asked again for up to {answers}. The second "
                "answers and their cost are unknown."
            )
