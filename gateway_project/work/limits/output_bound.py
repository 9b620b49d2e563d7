"""The most tokens that a key allows in an answer: larger maxima are refused, and a request without one gets it."""

from collections.abc import Iterator, Sequence

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.wording import plural

# Names of such bounds in any format, in lower case and without _ and -.
BOUNDS = frozenset(
    {
        *("maxtokens", "maxcompletiontokens", "maxoutputtokens", "maxnewtokens", "maxtokenstosample", "maxgenlen"),
        *("numpredict", "npredict"),
    }
)
NUMBERS_OF_ANSWERS = ("n", "best_of")
FREE_MEMBERS = ("metadata", "user")  # whose content no provider reads as parameters


def bound_output(body: JsonObject, names: Sequence[str], most: int) -> str:
    """Set the bound in the body if it has none of these names, which are those of its dialect.

    Returns the name that was set, or "". Raises ValidationError for a larger bound, or one that is no number.
    """
    answers = _number_of_answers(body)
    most_each = most // answers
    if not most_each:
        tokens = plural(most, "token")
        problem = (
            f"This key allows at most {tokens} per request. That is less than one for each of the {answers:,} answers."
        )
        raise ValidationError(problem, field="n")
    for path, value in _bounds(body):
        if type(value) is not int or not 1 <= value <= most_each:
            raise ValidationError(_problem(path, most, most_each, answers), field=path)
    if not names or any(body.get(name) is not None for name in names):
        return ""
    body[names[0]] = most_each
    return names[0]


def _problem(path: str, most: int, most_each: int, answers: int) -> str:
    each = "" if answers == 1 else f", {most_each:,} in each of {answers} answers"
    bound = f"this key allows {plural(most, 'token')} in a request{each}"
    return f"{path} must be a whole number from 1 to {most_each:,}: {bound}."


def _number_of_answers(body: JsonObject) -> int:
    for name in NUMBERS_OF_ANSWERS:
        value = body.get(name)
        if value is not None and (type(value) is not int or value < 1):
            raise ValidationError(f"{name} must be a whole number above 0.", field=name)
    return max(body.get(name) or 1 for name in NUMBERS_OF_ANSWERS)


def _bounds(body: JsonObject) -> Iterator[tuple[str, object]]:
    """The path and value of each bound in the body and in the objects that it holds."""
    for name, value in body.items():
        if _is_bound(name) and value is not None:
            yield name, value
        elif isinstance(value, dict) and name not in FREE_MEMBERS:
            yield from (
                (f"{name}.{inner}", one) for inner, one in value.items() if _is_bound(inner) and one is not None
            )


def _is_bound(name: str) -> bool:
    return name.replace("_", "").replace("-", "").casefold() in BOUNDS
