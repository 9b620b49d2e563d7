"""The linter of the rule book as a resource of the management API."""

from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project.api.documents import Plain
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import ApiViewSet
from rules.lint.findings import find_problems
from rules.lint.serializers import LintAnswer, as_json


class LintViewSet(ApiViewSet):
    """What is wrong with the rule book."""

    resource_name = "lint"
    response_specs = {"list": ResponseSpec((LintAnswer,))}

    def list(self, request: Request, **kwargs: str) -> Response:
        """List rules without effect, and groups, keys, models and aliases that rules leave out, each with a fix."""
        self.filter_values()
        return Response(Plain(data=[as_json(finding) for finding in find_problems()]))
