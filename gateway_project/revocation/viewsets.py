"""The query parameters `wait` and `cut` of operations that revoke something."""

from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import wraps
from typing import Any, ClassVar, TypeVar, Unpack

from django.db import models
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project.api import audit
from gateway_project.api.filters import BooleanFilter, Filter, read_parameters
from gateway_project.api.response_specs import Message
from gateway_project.api.viewsets import ApiViewSet
from gateway_project.change_feed.cuts import Credential
from gateway_project.errors import PermissionDenied
from gateway_project.revocation.receipts import Revocation, waiters

Row = TypeVar("Row", bound=models.Model)
View = TypeVar("View", bound="RevocationMixin[Any]")

REVOCATION: dict[str, Filter] = {
    "wait": BooleanFilter("", "Answer only when every live worker has the change, at the latest after ten seconds."),
    "cut": BooleanFilter("", "Also end the running requests and streams of these keys and users."),
}


class InForceSerializer(serializers.Serializer):
    """Where a change is in force."""

    may_be_absent = ("ended",)

    workers = serializers.IntegerField(help_text="The live worker processes, of all replicas.")
    acknowledged = serializers.IntegerField(help_text="How many of them have the change.")
    seconds = serializers.FloatField(help_text="The seconds until all workers had the change, or until the wait ended.")
    ended = serializers.IntegerField(required=False, help_text="With `cut`: the number of requests that were ended.")


class Proof(serializers.Serializer):
    """With `wait`, where the change is in force; `{}` without."""

    may_be_absent = ("in_force",)

    in_force = InForceSerializer(required=False)


class MessageAndProof(Message):
    """A word about what was done; with `wait`, where it is in force."""

    may_be_absent = ("in_force",)

    in_force = InForceSerializer(required=False)


def may_wait(operation: Callable[..., Response]) -> Callable[..., Response]:
    """Decorates an operation of a RevocationMixin: it answers `wait` and `cut`."""

    @wraps(operation)
    def answer(self: "RevocationMixin[Any]", request: Request, **kwargs: str) -> Response:
        revocation = self.revocation = self.read_revocation()
        with waiters.place(self.authenticated_caller.user.pk) if revocation.waits else nullcontext():
            response = operation(self, request, **kwargs)
            in_force = revocation.conclude(self.actor)
        if in_force is not None:
            response.data["inForce"] = in_force.document(cuts=revocation.cuts)
        return response

    return answer


class RevocationMixin(ApiViewSet[Row]):
    """A resource whose updates and deletions revoke something; comes before UpdateMixin and DestroyMixin."""

    cut_for_admins: ClassVar[bool] = False  # whether only admins may end running requests
    revocation = Revocation("")

    @may_wait
    def update(self, request: Request, **kwargs: str) -> Response:
        return super().update(request, **kwargs)  # type: ignore[misc]  # UpdateMixin's

    @may_wait
    def destroy(self, request: Request, **kwargs: str) -> Response:
        return super().destroy(request, **kwargs)  # type: ignore[misc]  # DestroyMixin's

    def read_revocation(self) -> Revocation:
        """What the query wants. Raises ValidationError and PermissionDenied."""
        others = dict.fromkeys(self.request.query_params)
        wishes = read_parameters(self.request.query_params, {**others, **REVOCATION})
        cuts = wishes.get("cut", False)
        if cuts and self.cut_for_admins and not self.authenticated_caller.is_admin:
            raise PermissionDenied("only an admin can end the requests of a group's members.", parameter="cut")
        return Revocation(self.resource_name, waits=wishes.get("wait", False), cuts=cuts)

    def credentials_of(self, row: Row) -> Collection[Credential]:
        """Whose requests end with a change of this row."""
        raise NotImplementedError

    def get_object(self) -> Row:
        row = super().get_object()
        if self.revocation.cuts:
            self.affected = self.credentials_of(row)  # as it was before the change
        return row

    affected: Collection[Credential] = ()

    def record(self, row_id: int | None, **details: Unpack[audit.ChangeDetails]) -> None:
        super().record(row_id, **details)
        self.revocation.order(self.actor, row_id, self.affected)
