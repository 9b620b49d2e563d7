"""The recorded samples as tests use them (tests/support/recorded_samples.py says what they consist of)."""

from pathlib import Path
from typing import Any

from gateway_project.work.doors.openai.chat import OpenAIChat
from providers.formats import WorkRequest
from tests.support import recorded_samples as samples
from tests.support.recorded_samples import SHAPES, request

__all__ = ["STREAM_CASES", "WHOLE_CASES", "Sample", "not_applicable", "request", "streams", "whole"]

FOLDER = Path(__file__).parents[2] / "providers/formats/samples"
# What every format must have been tried with (docs: the list of fixtures for each adapter).
WHOLE_CASES = {
    "plain", "cut_by_length", "stop_sequence", "tool_call", "parallel_tool_calls", "tool_result",
    "tool_without_arguments", "image", "json_schema", "reasoning", "reasoning_goes_back", "cached_prompt",
    "blocked_prompt", "filtered",
    "unknown_finish_reason", "no_usage", "empty_content", "not_json", "renamed_model", "bad_parameter",
    "bad_credential", "limited", "quota_gone", "failed", "failed_with_html", "overloaded", "redirected",
}  # fmt: skip
STREAM_CASES = {
    "plain", "cut_by_length", "tool_call", "parallel_tool_calls", "filtered", "no_usage", "empty_content", "emoji",
    "keep_alive", "crlf", "large_event", "error_midway", "cut_off",
}  # fmt: skip


class ForeignChat(OpenAIChat):
    """OpenAI's shape under another name, so that OpenAI's own formats have to translate too."""

    name = "foreign"


FOREIGN = {"chat": ForeignChat()}


class Sample(samples.Sample):
    """One recorded reply."""

    @property
    def whole_from(self) -> int:
        """How much of a stream has to have come for it to be whole."""
        if (stop := self.body.find(b"messageStop")) > 0:
            return stop + len(b"messageStop")
        return self.body.rstrip().rfind(b"\n") + 1 + len(b"data: [DONE")

    @property
    def work_at_a_door(self) -> WorkRequest:
        """The same from a client of a door that writes as OpenAI's do, and whose shape no format speaks."""
        dialect = SHAPES.get(self.about.get("shape", "")) or FOREIGN.get(self.operation)
        return request(self.about["work"], self.operation, door=True, dialect=dialect)


def whole(format_name: str) -> list[Sample]:
    """The whole replies recorded for a format."""
    return [_for_tests(sample) for sample in samples.whole(FOLDER, format_name)]


def streams(format_name: str) -> list[Sample]:
    """The streams recorded for a format."""
    return [_for_tests(sample) for sample in samples.streams(FOLDER, format_name)]


def not_applicable(format_name: str) -> set[str]:
    """The cases that a format cannot have, one a line with the reason behind a colon."""
    path = FOLDER / format_name / "not-applicable.txt"
    return {line.partition(":")[0] for line in path.read_text().splitlines()} if path.exists() else set()


def _for_tests(sample: samples.Sample) -> Sample:
    fields: dict[str, Any] = {name: getattr(sample, name) for name in samples.Sample.__dataclass_fields__}
    return Sample(**fields)
