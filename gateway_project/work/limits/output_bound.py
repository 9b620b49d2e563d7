"""The most tokens that a key allows in an answer: larger maxima are refused, and a request without one gets it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.wording import plural
from providers.formats import WorkRequest
from providers.formats.json_values import dump_value

if TYPE_CHECKING:
    from gateway_project.work.snapshot.records import KeySnapshot

# Names of such bounds in any format, in lower case and without _ and -.
BOUNDS = frozenset(
    {
        *("maxtokens", "maxcompletiontokens", "maxoutputtokens", "maxnewtokens", "maxtokenstosample", "maxgenlen"),
        *("numpredict", "npredict", "maxtokencount"),
    }
)
# Names of numbers of answers, in the same form: OpenAI's, Gemini's, Cohere's and Hugging Face's.
NUMBERS_OF_ANSWERS = frozenset({"n", "bestof", "candidatecount", "numgenerations", "numreturnsequences"})
# The bounds that a service of an unknown shape may read, by the field from which it would know a conversation.
UNKNOWN_BOUNDS = {
    "messages": ("max_tokens", "max_completion_tokens"),
    "prompt": ("max_tokens",),
    "input": ("max_tokens", "max_output_tokens"),
}
FREE_MEMBERS = ("metadata", "user")  # whose content no provider reads as parameters


class KeyHolder(Protocol):
    """Who sends a request, as far as the bounds of keys need it; the key is None for a login."""

    @property
    def key(self) -> "KeySnapshot | None": ...


def bound_output(body: JsonObject, names: Sequence[str], most: int) -> str:
    """Set the bound in the body if it has none of these names, which are those of its dialect.

    Returns the name that was set, or "". Raises ValidationError for a larger bound, or one that is no number.
    """
    answers = number_of_answers(body)
    most_each = most // answers
    if not most_each:
        tokens = plural(most, "token")
        problem = (
            f"This key allows at most {tokens} per request. That is less than one for each of the {answers:,} answers."
        )
        raise ValidationError(problem, field="n")
    for path, value in _members(body, BOUNDS):
        if type(value) is not int or not 1 <= value <= most_each:
            raise ValidationError(_problem(path, most, most_each, answers), field=path)
    if not names or any(body.get(name) is not None for name in names):
        return ""
    body[names[0]] = most_each
    return names[0]


def bound_unknown_output(work: WorkRequest, identity: KeyHolder) -> WorkRequest:
    """The request within the key's bound, whatever its operation seems to be: its service may answer with a text.

    Raises ValidationError as bound_output() does.
    """
    most = most_tokens(identity)
    if not most:
        return work
    names = next((names for field, names in UNKNOWN_BOUNDS.items() if field in work.body), work.dialect.output_bounds)
    body = dict(work.body)
    added_bound = bound_output(body, names, most)
    return replace(work, body=body, raw=dump_value(body), added_bound=added_bound) if added_bound else work


def most_tokens(identity: KeyHolder) -> int | None:
    """The most tokens that the caller's key allows in an answer; None or 0 without a bound."""
    key = identity.key
    return None if key is None or key.restrictions is None else key.restrictions.max_tokens


def _problem(path: str, most: int, most_each: int, answers: int) -> str:
    each = "" if answers == 1 else f", {most_each:,} in each of {answers} answers"
    bound = f"this key allows {plural(most, 'token')} in a request{each}"
    return f"{path} must be a whole number from 1 to {most_each:,}: {bound}."


def bounds_in(body: JsonObject) -> list[int]:
    """Every bound in the body, in whosever words. Raises ValidationError for one that is no whole number above 0."""
    return [_whole_number(path, value) for path, value in _members(body, BOUNDS)]


def number_of_answers(body: JsonObject) -> int:
    """The number of answers: each prompt of a list gets as many as the largest number in the body says.

    Raises ValidationError for a number that is no whole one above 0.
    """
    numbers = [_whole_number(path, value) for path, value in _members(body, NUMBERS_OF_ANSWERS)]
    return max([1, *numbers]) * _number_of_prompts(body.get("prompt"))


def _whole_number(path: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValidationError(f"{path} must be a whole number above 0.", field=path)
    return value


def _number_of_prompts(prompt: object) -> int:
    if not isinstance(prompt, list) or all(type(token) is int for token in prompt):
        return 1  # a list of numbers is the tokens of a single prompt
    return len(prompt)


def _members(body: JsonObject, names: frozenset[str]) -> Iterator[tuple[str, object]]:
    """The path and value of each member with such a name in the body, and in the objects that it holds."""
    for name, value in body.items():
        if _plain_name(name) in names and value is not None:
            yield name, value
        elif isinstance(value, dict) and name not in FREE_MEMBERS:
            yield from (
                (f"{name}.{inner}", one)
                for inner, one in value.items()
                if _plain_name(inner) in names and one is not None
            )


def _plain_name(name: str) -> str:
    """A name of a parameter in lower case, without _ and -."""
    return name.replace("_", "").replace("-", "").casefold()
