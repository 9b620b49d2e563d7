"""How an operation answers where it is not as the base of all resources does."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rest_framework import serializers

from gateway_project.errors import GatewayError


@dataclass(frozen=True, slots=True)
class Shape:
    """What the OpenAPI document says of one operation's answer.

    `bodies` are whole bodies, of which it is one; () is {}, and None nothing at all. `headers` may be there, each
    with what it says; `errors` can happen besides those of every operation of its kind.
    """

    bodies: tuple[type[serializers.Serializer], ...] | None = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[type[GatewayError], ...] = ()


class Message(serializers.Serializer):
    """A word about what was done."""

    message = serializers.CharField()


class CodeAndMessage(Message):
    """The same with the HTTP status."""

    code = serializers.IntegerField()
