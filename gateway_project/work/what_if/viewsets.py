"""What-ifs as a resource of the management API: begun, looked at and cancelled."""

from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project.api.filters import ChoiceFilter
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin
from gateway_project.json_types import JsonObject
from gateway_project.work.what_if.beginning import begin_comparison
from gateway_project.work.what_if.serializers import WhatIfAttributes, WhatIfSerializer
from rules.what_if.models import State, WhatIf
from rules.what_if.querysets import WhatIfQuerySet
from rules.what_if.services import cancel_what_if


class WhatIfViewSet(ListMixin[WhatIf], CreateMixin[WhatIf], DestroyMixin[WhatIf]):
    """Drafts that are tried on recorded requests: what would have been otherwise. Users see their own, admins all."""

    resource_name = "what-if"
    id_header = "WhatIfId"
    queryset = WhatIf.objects.all()
    serializer_class = WhatIfSerializer
    create_attributes = WhatIfAttributes
    response_specs = {"create": ResponseSpec(status=202)}
    filters = {"state": ChoiceFilter("state", State.values)}

    def get_queryset(self) -> WhatIfQuerySet[WhatIf]:
        rows, caller = WhatIf.objects.order_by("-id"), self.authenticated_caller
        return rows if caller.is_admin else rows.of_user(caller.user.pk)

    def create(self, request: Request, **kwargs: str) -> Response:
        """Try a draft on recorded requests

        The answer comes at once. One is worked on after the other, in a process of its own; results are kept for seven
        days (docs/explain.md).
        """
        response = super().create(request, **kwargs)
        response.status_code = 202
        return response

    def perform_create(self, values: JsonObject) -> WhatIf:
        start, end = values.pop("start"), values.pop("end")
        user = self.authenticated_caller.user
        return begin_comparison(values, start, end, user_id=user.pk, user_name=user.get_username())

    def perform_destroy(self, row: WhatIf) -> None:
        """Cancel it; one that has ended stays as it is."""
        cancel_what_if(row)
