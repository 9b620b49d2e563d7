"""Reads the parameters of a guardrail; what is wrong with one is an error at its field."""

from collections.abc import Collection, Mapping

from gateway_project.errors import ValidationError


class Parameters:
    """The members of `parameters`, each read once; unknown ones are refused."""

    def __init__(self, members: Mapping[str, object], *, names: Collection[str]) -> None:
        self._members = members
        unknown = sorted(set(members) - set(names))
        if unknown:
            raise invalid_parameter(unknown[0], f"is unknown; known are {', '.join(names)}.")

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._members.get(name, default)
        if not isinstance(value, bool):
            raise invalid_parameter(name, "must be true or false.")
        return value

    def number(self, name: str, *, most: int) -> int | None:
        """A whole number from 1, or None if there is none."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise invalid_parameter(name, f"must be a whole number from 1 to {most:,}.")
        return value

    def texts(self, name: str, *, most: int, longest: int, required: bool = False) -> list[str]:
        """An array of texts that are not empty."""
        value = self._members.get(name, [])
        if not isinstance(value, list) or len(value) > most:
            raise invalid_parameter(name, f"must be an array of at most {most:,} texts.")
        if required and not value:
            raise invalid_parameter(name, "must have at least one text.")
        for position, text in enumerate(value):
            if not isinstance(text, str) or not text.strip() or len(text) > longest:
                raise invalid_parameter(f"{name}.{position}", f"must be a text of 1 to {longest:,} characters.")
        return value

    def choices(self, name: str, allowed: Collection[str]) -> list[str]:
        """An array of some of the names that are allowed; all of them if it is empty."""
        values = self.texts(name, most=1000, longest=100)
        for position, value in enumerate(values):
            if value not in allowed:
                raise invalid_parameter(f"{name}.{position}", f"is unknown; known are {', '.join(sorted(allowed))}.")
        return [one for one in allowed if one in values] if values else list(allowed)

    def get(self, name: str) -> object:
        return self._members.get(name)


def invalid_parameter(name: str, message: str) -> ValidationError:
    """The error at a member of `parameters`."""
    return ValidationError(message, field=f"parameters.{name}")
