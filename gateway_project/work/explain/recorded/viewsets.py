"""GET /logs/{id}/explanation/: why a request that has ended was served or refused."""

from rest_framework.request import Request
from rest_framework.response import Response

from accounts.managing.groups import administered_groups
from gateway_project.api.documents import Plain
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.work.explain.api.serializers import EntryExplanationAnswer
from gateway_project.work.explain.recorded.entries import describe_entry
from gateway_project.work.explain.subjects import sees_all
from gateway_project.work.runtime import gateway
from telemetry.viewsets import LogViewSet


class EntryExplanationViewSet(LogViewSet):
    """Why a request in the log was served or refused; for users who may see its entry."""

    resource_name = "explanation"
    response_specs = {"retrieve": ResponseSpec((EntryExplanationAnswer,))}

    def retrieve(self, request: Request, **kwargs: str) -> Response:
        """Explain the request of a log entry

        By what was recorded when it happened, and by the rules as they were then (docs/explain.md). Rules that are for
        others are shown to callers with logs.view_all and rules.view.
        """
        entry, caller = self.get_object(), self.authenticated_caller
        # A group's admin who sees the entry does not learn the limits of the caller's other groups.
        groups = None if entry.user_id == caller.user.pk else administered_groups(caller)
        document = describe_entry(entry, gateway().snapshot, with_all=sees_all(caller), groups=groups)
        return Response(Plain(data=document))
