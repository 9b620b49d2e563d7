"""What all detectors have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

MAX_SPAN = 4096  # characters that a match can have in a stream; what may become longer counts as a match
CONTEXT = 64  # characters before a match that may decide whether it is one


class Match(NamedTuple):
    """A part of a text: offsets in characters of the original text, and what it is."""

    start: int
    end: int
    category: str


# A match of a tuple, in half of the time.
new_match: Callable[[tuple[int, int, str]], Match] = partial(tuple.__new__, Match)


class Detector(ABC):
    """A guardrail's type with its parameters, compiled. Threads share it.

    `longest` is the number of characters that a match has at most, as far as a stream is concerned. A detector with
    `judges_whole_answer` says nothing about a part of an answer: streams are held until their end. One with
    `max_length` refuses a text with more characters than that.
    """

    longest: int = MAX_SPAN
    searches_texts: bool = True  # other than the arguments of tools
    searches_calls: bool = True  # the arguments of tools
    judges_whole_answer: ClassVar[bool] = False
    max_length: int | None = None
    is_broken: ClassVar[bool] = False  # it can search nothing
    repairs: bool = False  # whether the model is asked once more for an answer that it refuses
    # For what is no text: the names of models and of tools, and the arguments of tools.
    models: "Detector | None" = None
    tools: "Detector | None" = None
    calls: "Detector | None" = None
    # For sentences: not in the arguments of tools, and of answers only in what the model says.
    prose: "Detector | None" = None

    @abstractmethod
    def scan(self, text: str, start: int = 0) -> list[Match]:
        """The matches that begin at `start` or later, by their start; they may overlap. What is before `start`
        decides what begins a word."""

    def problem(self, text: str) -> str:
        """For detectors that repair: what the model has to change in an answer; "" if it is accepted."""
        return ""

    def pending_start(self, text: str, start: int = 0) -> int:
        """The first offset from `start` on at which a match may begin that more text completes, or takes back.

        The length of the text if there is none. Here: the last characters that a match can have.
        """
        return max(start, len(text) - self.longest)
