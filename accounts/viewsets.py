"""Users, roles, features and groups as resources of the management API."""

from django.conf import settings
from django.db import transaction
from django.db.models import Prefetch, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import serializers, services
from accounts.models import Feature, Group, Role, User
from accounts.sessions import check_own_password
from gateway_project.api.access import OWNER, require_access
from gateway_project.api.documents import Plain
from gateway_project.api.fields import Attributes, read_id
from gateway_project.api.filters import Boolean, Integer, Text
from gateway_project.api.paging import OptionalPagination
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.errors import NotFound, PermissionDenied, RateLimited, ValidationError
from gateway_project.json_types import JsonObject

BY_ID_AND_NAME = {"id": Integer("id"), "name": Text("name")}


class FeatureViewSet(ListMixin, CreateMixin):
    """What can be allowed."""

    resource_name = "features"
    id_header = "FeatureId"
    queryset = Feature.objects.all()
    serializer_class = serializers.FeatureSerializer
    pagination_class = OptionalPagination
    create_attributes = serializers.FeatureAttributes
    filters = BY_ID_AND_NAME

    def perform_create(self, values: JsonObject) -> Feature:
        return services.create_feature(name=values["name"])


class RoleViewSet(ListMixin, CreateMixin, UpdateMixin):
    """Sets of features, for users."""

    resource_name = "roles"
    id_header = "RoleId"
    queryset = Role.objects.prefetch_related("features")
    serializer_class = serializers.RoleSerializer
    create_attributes = update_attributes = serializers.RoleAttributes
    filters = BY_ID_AND_NAME

    def perform_create(self, values: JsonObject) -> Role:
        return services.create_role(name=values["name"], feature_ids=values.get("features", ()))

    def perform_update(self, row: Role, values: JsonObject) -> None:
        services.update_role(row, name=values.get("name"), feature_ids=values.get("features"))


class UserViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """People and programs; an update without an id is one's own."""

    resource_name = "users"
    id_header = "UserId"
    queryset = User.objects.prefetch_related("roles", "groups")
    serializer_class = serializers.UserSerializer
    create_attributes = serializers.NewUserAttributes
    update_attributes = serializers.UserAttributes
    filters = {
        "currentUser": Boolean("", "Only yourself; needs no permission."),  # get_queryset() looks at it
        "id": Integer("id"),
        "isDeleted": Boolean("is_deleted"),
        "active": Boolean("is_active"),
        "userNameContains": Text("name_key__icontains", "Part of the name, case-insensitive."),
    }
    variants = {"list": ("current",)}
    response_specs = {"update": ResponseSpec(errors=(RateLimited,))}  # a wrong currentPassword counts as a failed login

    @property
    def operation(self) -> str:
        # A value that is neither true nor false is refused as invalid, not for a missing permission.
        is_current = self.action == "list" and self.request.query_params.get("currentUser", "false") != "false"
        return "current" if is_current else super().operation

    def get_queryset(self) -> QuerySet[User]:
        users = super().get_queryset()
        return users.filter(pk=self.authenticated_caller.user.pk) if self.operation == "current" else users

    def owner_id(self) -> int:
        row_id = self.kwargs.get("id") or self.request.query_params.get("id")
        place = {} if "id" in self.kwargs else {"parameter": "id"}
        return self.authenticated_caller.user.pk if row_id is None else read_id(row_id, **place)

    def target_id(self) -> int | None:
        row_id = super().target_id()
        return self.authenticated_caller.user.pk if row_id is None and self.action == "update" else row_id

    def location(self, row_id: int) -> str:
        return f"{settings.GATEWAY_BASE_URL}/users/?id={row_id}"

    def perform_create(self, values: JsonObject) -> User:
        return services.create_user(**values)

    def prepare_update(self, values: JsonObject) -> None:
        require_access(self.caller, OWNER, owner_id=self.target_id())  # the id may have stood in the body
        current = values.pop("current_password", None)
        user = self.authenticated_caller.user
        if self.authenticated_caller.owns(self.target_id()) and "new_password" in values:
            check_own_password(user, current, address=self.address, record_event=self.record_session_event)

    def perform_update(self, row: User, values: JsonObject) -> None:
        role_ids = {role.pk for role in row.roles.all()}
        caller = self.authenticated_caller
        if not caller.is_admin and set(values.get("role_ids", role_ids)) != role_ids:
            raise PermissionDenied("only an admin can assign roles.", field="roles")
        password, own = values.pop("new_password", None), caller.owns(row.pk)
        services.update_user(row, password=password, current_session=caller.session if own else None, **values)

    def perform_destroy(self, row: User) -> None:
        services.delete_user(row)


MEMBERS = Prefetch("members", User.objects.only("id", "username").order_by("id"))


class GroupViewSet(ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Users under one name."""

    resource_name = "groups"
    id_header = "GroupId"
    queryset = Group.objects.all().prefetch_related(MEMBERS)
    serializer_class = serializers.GroupSerializer
    pagination_class = OptionalPagination
    create_attributes = update_attributes = serializers.GroupAttributes
    filters = {
        **BY_ID_AND_NAME,
        "userName": Text("members__name_key", "Groups that contain the user with this name, case-insensitive."),
        "userId": Integer("members__id", "Groups that contain this user."),
    }

    def filter_values(self) -> JsonObject:
        values = super().filter_values()
        return {"name": values["name"]} if "name" in values else values  # it overrides the others

    def perform_create(self, values: JsonObject) -> Group:
        return services.create_group(**values)

    def perform_update(self, row: Group, values: JsonObject) -> None:
        services.update_group(row, **values)

    def perform_destroy(self, row: Group) -> None:
        services.delete_group(row)


class MemberViewSet(ApiViewSet):
    """The members of one group, in the shape that the specification writes out."""

    resource_name = "members"
    create_attributes = serializers.MemberAttributes
    serializer_class = serializers.MemberSerializer
    pagination_class = OptionalPagination
    response_specs = {"list": ResponseSpec((serializers.MembersAnswer,)), "create": ResponseSpec(status=201)}

    def group(self) -> Group:
        group = Group.objects.filter(pk=read_id(self.kwargs["group_id"])).first()
        if group is None:
            raise NotFound(f"No group with id {self.kwargs['group_id']}.")
        return group

    def location(self, row_id: int) -> str:
        """The URL of the members of a group."""
        return f"{settings.GATEWAY_BASE_URL}/groups/{row_id}/members/"

    def list(self, request: Request, **kwargs: str) -> Response:
        self.filter_values()
        members = self.paginate_queryset(self.group().members.order_by("id"))
        return Response(Plain(data=self.get_serializer(members, many=True).data))

    def create(self, request: Request, **kwargs: str) -> Response:
        values = self.values(self.create_attributes)
        with transaction.atomic():
            group = self.group()
            member = services.add_member(group, user_id=values["id"])
            self.record(group.pk, after=self.get_serializer(member).data)
        return self.created(group.pk)

    def destroy(self, request: Request, **kwargs: str) -> Response:
        self.values(Attributes, partial=True)  # an id, and nothing else
        user_id = self.target_id()
        if user_id is None:
            raise ValidationError("is missing.", field="id")
        with transaction.atomic():
            group = self.group()
            member = services.remove_member(group, user_id=user_id)
            self.record(group.pk, before=self.get_serializer(member).data)
        return Response(Plain())
