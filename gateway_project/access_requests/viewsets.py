"""Access requests as a resource of the management API."""

from collections.abc import Callable

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.access_requests.models import AccessRequest, RequestKind, RequestState
from gateway_project.access_requests import services
from gateway_project.access_requests.permissions import visible_requests
from gateway_project.access_requests.serializers import (
    AccessRequestAttributes,
    AccessRequestSerializer,
    Approval,
    Refusal,
)
from gateway_project.access_requests.subjects import find_group
from gateway_project.api.documents import Plain
from gateway_project.api.fields import Attributes
from gateway_project.api.filters import ChoiceFilter, IntegerFilter, TextFilter
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import ListMixin
from gateway_project.errors import Conflict

TRANSITIONS = ("grant", "refuse", "withdraw", "end")


class AccessRequestViewSet(ListMixin[AccessRequest]):
    """What users ask for. They see their own requests, and those that they may grant."""

    resource_name = "access-requests"
    id_header = "AccessRequestId"
    queryset = AccessRequest.objects.shown()
    serializer_class = AccessRequestSerializer
    create_attributes = AccessRequestAttributes
    grant_attributes = Approval
    refuse_attributes = end_attributes = Refusal
    body_optional = attributes_optional = TRANSITIONS
    response_specs = {name: ResponseSpec(errors=(Conflict,)) for name in TRANSITIONS}
    filters = {
        "id": IntegerFilter("id"),
        "userId": IntegerFilter("user_id"),
        "groupId": IntegerFilter("group_id"),
        "model": TextFilter("model"),
        "kind": ChoiceFilter("kind", RequestKind.values),
        "state": ChoiceFilter("state", RequestState.values),
    }

    def get_queryset(self) -> QuerySet[AccessRequest]:
        return visible_requests(self.authenticated_caller).shown().order_by("-id")

    def create(self, request: Request, **kwargs: str) -> Response:
        """Ask for something for oneself."""
        values, caller = self.values(self.create_attributes), self.authenticated_caller
        group_id = find_group(caller, group_id=values.pop("group_id", None), group_name=values.pop("group_name", None))
        subject = values if group_id is None else values | {"group_id": group_id}
        row = services.ask_for_access(user=caller.user, actor=self.actor, **subject)
        return self.created_response(row.pk)

    def grant(self, request: Request, **kwargs: str) -> Response:
        """Give what is asked for, until a time or for good. The caller has to be able to do it by themselves."""
        return self._change(services.grant_request, self.grant_attributes)

    def refuse(self, request: Request, **kwargs: str) -> Response:
        """Decline the request."""
        return self._change(services.refuse_request, self.refuse_attributes)

    def withdraw(self, request: Request, **kwargs: str) -> Response:
        """Take one's own request back."""
        return self._change(services.withdraw_request, Attributes)

    def end(self, request: Request, **kwargs: str) -> Response:
        """Take back what was granted, before its time."""
        return self._change(services.end_request, self.end_attributes)

    def _change(self, change: Callable[..., None], attributes: type[Attributes]) -> Response:
        values = self.values(attributes, partial=True)
        with transaction.atomic():
            change(self.get_object(), actor=self.actor, **values)
        return Response(Plain())
