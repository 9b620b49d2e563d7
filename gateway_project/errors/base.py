"""The base of all errors: what a client, a page or the log is told of one."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypedDict

from gateway_project.errors.problem import Problem
from gateway_project.json_types import JsonObject

# In characters: texts may repeat what a client or a provider said, and go into responses and the log.
MAX_MESSAGE_LENGTH, MAX_FIELD_LENGTH = 2048, 256
MAX_PROBLEMS = 100  # in the document of one error


class Place(TypedDict, total=False):
    """The part of a request that is wrong: one of these."""

    field: str
    parameter: str
    header: str


class ErrorOptions(Place, total=False):
    """The keyword arguments of GatewayError."""

    retry_after: float | None
    headers: Mapping[str, str] | None
    reason: str


class GatewayError(Exception):
    """The base of all errors: code (HTTP status), exception (its name), message, headers, severity.

    `field` is the request field that is wrong, `reason` a code that clients know, perhaps the provider's; both may be
    ''. So may `parameter` and `header`, which are wrong in the place of a field. The message of a service or a filter
    does not repeat the name of the field: who shows it does, or shows it beside the field.
    Texts are truncated, but only when they are read: until then redact() finds secrets whole.
    """

    code: int = 500
    exception: ClassVar[str] = "GatewayError"
    default_message: ClassVar[str] = "The request could not be served."
    default_headers: ClassVar[Mapping[str, str]] = {}
    default_retry_after: ClassVar[float | None] = None

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.exception = cls.__name__

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        field: str = "",
        parameter: str = "",
        header: str = "",
        reason: str = "",
    ) -> None:
        self._texts: tuple[str, ...] = (message or self.default_message, field, reason)
        self.parameter, self.header = parameter, header
        self.retry_after = self.default_retry_after if retry_after is None else retry_after
        self.headers: dict[str, str] = {**self.default_headers, **(headers or {})}
        if self.retry_after is not None:
            # Whole seconds, rounded up: a client that comes back too early is refused again.
            self.headers["Retry-After"] = str(max(0, math.ceil(self.retry_after)))
        super().__init__(self.message)

    def redact(self, redact: Callable[[str], str]) -> None:
        """Apply a function that removes secrets to all texts."""
        self._texts = tuple(map(redact, self._texts))
        self.args = (self.message,)

    @property
    def message(self) -> str:
        return _truncate(self._texts[0], MAX_MESSAGE_LENGTH)

    @property
    def field(self) -> str:
        return _truncate(self._texts[1], MAX_FIELD_LENGTH)

    @property
    def reason(self) -> str:
        return _truncate(self._texts[2], MAX_FIELD_LENGTH)

    @property
    def severity(self) -> str:
        """The severity in the log: "warning" below 500, else "error"."""
        return "warning" if self.code < 500 else "error"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong, each with its place."""
        return (Problem(self.message, self.field, self.parameter, self.header),)

    @property
    def sentence(self) -> str:
        """The message for people who do not see which field it is about."""
        return sentence_of(self.problems)

    def sentence_with(self, names: Mapping[str, str]) -> str:
        """The message for people who know fields by other names, such as those of a command's options."""
        return sentence_of([problem.with_names(names) for problem in self.problems])

    def body(self) -> dict[str, int | str]:
        """The three members that every error has."""
        return {"code": self.code, "exception": self.exception, "message": self.message}

    def document(self) -> JsonObject:
        """The document that an error is sent as, for a request whose body is not JSON:API."""
        return {**self.body(), "errors": self.error_objects(self.problems)}

    def error_objects(self, problems: Sequence[Problem], root: str = "") -> list[JsonObject]:
        """JSON:API's `errors`; `root` is the pointer to the fields in the request's body."""
        title = self.default_message.partition(". ")[0].rstrip(".")
        return [
            problem.error_object(root, status=self.code, code=self.exception, title=title)
            for problem in problems[:MAX_PROBLEMS]
        ]


def drop_frames(error: BaseException | None) -> None:
    """Forget where an error and its causes were raised, when nobody will read that any more.

    The frames hold the request, which holds its error: all that it has read would stay until a garbage collection.
    """
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def sentence_of(problems: Sequence[Problem]) -> str:
    """All problems with the names of their places, as a message."""
    return _truncate(" ".join(problem.sentence for problem in problems), MAX_MESSAGE_LENGTH)


def _truncate(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"
