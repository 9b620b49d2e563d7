"""Responses that differ from those of the base viewset, for the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rest_framework import serializers

from gateway_project.errors import GatewayError


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """What the OpenAPI document says about the response of one operation.

    `bodies` are serializers of whole bodies, one of which is sent; () stands for {}, None for no body. `headers` are
    optional headers with their descriptions; `errors` are those beyond the ones of every operation of its kind.
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
