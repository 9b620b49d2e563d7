"""The second factor of a user as a part of the management API: an admin removes it."""

from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from accounts.second_factor.services import remove_second_factor
from gateway_project.api.documents import Plain
from gateway_project.api.fields import Attributes, read_id
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import ApiViewSet
from gateway_project.errors import NotFound


class SecondFactorViewSet(ApiViewSet[User]):
    """Authenticator app, passkeys and recovery codes of one user."""

    resource_name = "second-factor"
    response_specs = {"destroy": ResponseSpec()}

    def destroy(self, request: Request, **kwargs: str) -> Response:
        """Remove all of them, for whoever has lost them, and end the user's sessions."""
        self.values(Attributes, partial=True)  # nothing
        user_id = read_id(self.kwargs["user_id"])
        user = User.objects.filter(pk=user_id).first()
        if user is None:
            raise NotFound(f"No user with id {user_id}.")
        remove_second_factor(user, actor=self.actor)
        return Response(Plain())
