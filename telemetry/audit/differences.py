"""The attributes that a change of a row has changed. Pure."""

from typing import NamedTuple

import orjson


class Difference(NamedTuple):
    """An attribute with its values before and after, as text; an empty text where there was none."""

    name: str
    before: str
    after: str


def differences(before: str, after: str) -> list[Difference]:
    """The attributes that two rows in JSON do not have in common; of values that are no rows, the whole."""
    old, new = (_attributes(stored_value(text)) for text in (before, after))
    names = dict.fromkeys([*old, *new])
    pairs = (Difference(name, _text(old, name), _text(new, name)) for name in names)
    return [pair for pair in pairs if pair.before != pair.after]


def stored_value(text: str) -> object:
    """The value, or the text itself where somebody has put something else than JSON into the row."""
    try:
        return orjson.loads(text)
    except ValueError:
        return text


def _attributes(value: object) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    return {} if value is None else {"value": value}


def _text(values: dict[str, object], name: str) -> str:
    if name not in values:
        return ""
    value = values[name]
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
