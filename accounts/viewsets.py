"""Users, roles, features and groups as resources of the management API."""

from django.conf import settings
from django.db.models import Prefetch, Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import serializers, services
from accounts.managing import groups as group_admins
from accounts.managing.accounts import check_account_changes, check_new_account, manages_users
from accounts.managing.members import add_group_member, credentials_within, remove_group_member
from accounts.managing.users import check_group, check_manageable, check_roles, refuse_own_key
from accounts.models import Feature, Group, Role, User, UserKind
from accounts.second_factor.verification import with_second_factor
from accounts.sessions import check_own_password
from gateway_project.api.access import MANAGE_USERS, MANAGER, require_access
from gateway_project.api.documents import Plain
from gateway_project.api.fields import Attributes, read_id
from gateway_project.api.filters import BooleanFilter, ChoiceFilter, IntegerFilter, TextFilter
from gateway_project.api.paging import OptionalPagination
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import CreateMixin, DestroyMixin, ListMixin, UpdateMixin
from gateway_project.change_feed.cuts import Credential
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.errors import NotFound, PermissionDenied, RateLimited, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.revocation.viewsets import REVOCATION, Proof, RevocationMixin, may_wait

BY_ID_AND_NAME = {"id": IntegerFilter("id"), "name": TextFilter("name")}


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
        return services.create_role(
            name=values["name"],
            feature_ids=values.get("features", ()),
            requires_second_factor=values.get("requires_second_factor", False),
        )

    def perform_update(self, row: Role, values: JsonObject) -> None:
        services.update_role(
            row,
            name=values.get("name"),
            feature_ids=values.get("features"),
            requires_second_factor=values.get("requires_second_factor"),
        )


class UserViewSet(RevocationMixin, ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """People and service accounts; an update without an id is one's own."""

    resource_name = "users"
    id_header = "UserId"
    queryset = with_second_factor(User.objects.prefetch_related("roles", "groups"))
    serializer_class = serializers.UserSerializer
    create_attributes = serializers.NewUserAttributes
    update_attributes = serializers.UserAttributes
    filters = {
        "currentUser": BooleanFilter("", "true: only yourself; needs no permission."),  # get_queryset() looks at it
        "id": IntegerFilter("id"),
        "isDeleted": BooleanFilter("is_deleted"),
        "active": BooleanFilter("is_active"),
        "kind": ChoiceFilter("kind", UserKind.values),
        "groupId": IntegerFilter("owning_group_id", "Service accounts of this group."),
        "userNameContains": TextFilter("name_key__icontains", "Part of the name, case-insensitive."),
    }
    variants = {"list": ("current",)}
    parameters = {"update": REVOCATION, "destroy": REVOCATION}
    response_specs = {
        "update": ResponseSpec((Proof,), errors=(RateLimited,)),  # a wrong currentPassword counts as a failed login
        "destroy": ResponseSpec((Proof,)),
    }

    @property
    def operation(self) -> str:
        # A value that is neither true nor false is refused as invalid, not for a missing permission.
        is_current = self.action == "list" and self.request.query_params.get("currentUser", "false") != "false"
        return "current" if is_current else super().operation

    def get_queryset(self) -> QuerySet[User]:
        users, caller = super().get_queryset(), self.authenticated_caller
        if self.operation == "current":
            return users.filter(pk=caller.user.pk)
        if manages_users(caller):
            return users
        accounts = Q(owning_group__in=group_admins.administered_groups(caller))
        # Everybody changes their own user.
        return users.filter(accounts | Q(pk=caller.user.pk) if self.action == "update" else accounts)

    def owner_id(self) -> int:
        row_id = self.kwargs.get("id") or self.request.query_params.get("id")
        place = {} if "id" in self.kwargs else {"parameter": "id"}
        own = self.authenticated_caller.user.pk
        user_id = own if row_id is None else read_id(row_id, **place)
        return own if group_admins.administers_account(self.authenticated_caller, user_id) else user_id

    def target_id(self) -> int | None:
        row_id = super().target_id()
        return self.authenticated_caller.user.pk if row_id is None and self.action == "update" else row_id

    def location(self, row_id: int) -> str:
        return f"{settings.GATEWAY_BASE_URL}/users/?id={row_id}"

    def perform_create(self, values: JsonObject) -> User:
        caller = self.authenticated_caller
        if values.pop("kind", UserKind.PERSON) == UserKind.SERVICE:
            check_new_account(caller, values)
            user = services.create_service_account(**values)
        elif manages_users(caller):
            user = services.create_user(**values)
        else:
            raise PermissionDenied(f"creating a person needs {MANAGE_USERS}.", field="kind")
        if manages_users(caller):
            check_roles(caller, user, user.roles.all())
        return user

    def prepare_update(self, values: JsonObject) -> None:
        if not group_admins.administers_account(self.authenticated_caller, self.target_id()):
            require_access(self.caller, MANAGER, owner_id=self.target_id())  # the id may have stood in the body
        refuse_own_key(self.authenticated_caller, self.target_id())
        current = values.pop("current_password", None)
        user = self.authenticated_caller.user
        if self.authenticated_caller.owns(self.target_id()) and "new_password" in values:
            check_own_password(user, current, address=self.address, record_event=self.record_session_event)

    def perform_update(self, row: User, values: JsonObject) -> None:
        caller = self.authenticated_caller
        if not manages_users(caller) and not caller.owns(row.pk):
            check_account_changes(caller, row, values)
            services.update_user(row, **values)
            return
        check_manageable(caller, row)
        services.lock_user(row)
        role_ids = set(row.roles.values_list("pk", flat=True))
        if set(values.get("role_ids", role_ids)) != role_ids:
            check_roles(caller, row, Role.objects.filter(pk__in=values["role_ids"]))
        if values.get("group_id", row.owning_group_id) == row.owning_group_id:
            values.pop("group_id", None)
        else:
            check_group(caller)
        password, own = values.pop("new_password", None), caller.owns(row.pk)
        services.update_user(row, password=password, current_session=caller.session if own else None, **values)

    def credentials_of(self, row: User) -> list[Credential]:
        return [Credential("user", row.pk)]

    def perform_destroy(self, row: User) -> None:
        if not manages_users(self.authenticated_caller):
            check_account_changes(self.authenticated_caller, row, {})
        check_manageable(self.authenticated_caller, row)
        services.delete_user(row)


MEMBERS = Prefetch("members", User.objects.only("id", "username").order_by("id"))


class GroupViewSet(RevocationMixin, ListMixin, CreateMixin, UpdateMixin, DestroyMixin):
    """Users under one name."""

    resource_name = "groups"
    id_header = "GroupId"
    queryset = Group.objects.all().prefetch_related(MEMBERS)
    serializer_class = serializers.GroupSerializer
    pagination_class = OptionalPagination
    create_attributes = update_attributes = serializers.GroupAttributes
    filters = {
        **BY_ID_AND_NAME,
        "userName": TextFilter("members__name_key", "Groups that contain the user with this name, case-insensitive."),
        "userId": IntegerFilter("members__id", "Groups that contain this user."),
    }
    parameters = {"update": REVOCATION, "destroy": REVOCATION}
    response_specs = dict.fromkeys(("update", "destroy"), ResponseSpec((Proof,)))
    cut_for_admins = True

    def get_queryset(self) -> QuerySet[Group]:
        groups, caller = super().get_queryset(), self.authenticated_caller
        is_read = self.action in ("list", "retrieve")
        if not is_read or caller.has(group_admins.VIEW):
            return groups
        return groups.filter(pk__in=group_admins.administered_groups(caller))

    def filter_values(self) -> JsonObject:
        values = super().filter_values()
        return {"name": values["name"]} if "name" in values else values  # it overrides the others

    def perform_create(self, values: JsonObject) -> Group:
        self.check_parent(values, None)
        return services.create_group(**values)

    def perform_update(self, row: Group, values: JsonObject) -> None:
        self.check_parent(values, row.parent_id)
        services.update_group(row, **values)

    def check_parent(self, values: JsonObject, current: int | None) -> None:
        """Raise PermissionDenied for another parent: its admins see the log of the group and change its limits."""
        if values.get("parent_id", current) != current and not self.authenticated_caller.is_admin:
            raise PermissionDenied("only an admin can change this.", field="parent_id")

    def credentials_of(self, row: Group) -> list[Credential]:
        return credentials_within(row)

    def perform_destroy(self, row: Group) -> None:
        services.delete_group(row)


class MemberViewSet(RevocationMixin):
    """The members of one group, in the shape that the specification writes out."""

    resource_name = "members"
    create_attributes = serializers.MemberAttributes
    serializer_class = serializers.MembershipSerializer
    pagination_class = OptionalPagination
    parameters = {"destroy": REVOCATION}
    response_specs = {
        "list": ResponseSpec((serializers.MembersAnswer,)),
        "create": ResponseSpec(status=201),
        "destroy": ResponseSpec((Proof,)),
    }
    cut_for_admins = True

    def group(self) -> Group:
        """The group of the path; raises PermissionDenied and NotFound."""
        group_id = read_id(self.kwargs["group_id"])
        feature = group_admins.VIEW if self.action == "list" else group_admins.MODIFY
        group_admins.require_group(self.authenticated_caller, group_id, feature)
        # Locked for a change: who is an admin must not change between the check and the change.
        groups = Group.objects.all() if self.action == "list" else Group.objects.select_for_update(no_key=True)
        group = groups.filter(pk=group_id).first()
        if group is None:
            raise NotFound(f"No group with id {group_id}.")
        return group

    def get_serializer_context(self) -> JsonObject:
        group_id = self.kwargs.get("group_id")
        admins = User.objects.none() if group_id is None else User.objects.administering(read_id(group_id))
        return {**super().get_serializer_context(), "admin_ids": set(admins.values_list("pk", flat=True))}

    def location(self, row_id: int) -> str:
        """The URL of the members of a group."""
        return f"{settings.GATEWAY_BASE_URL}/groups/{row_id}/members/"

    def list(self, request: Request, **kwargs: str) -> Response:
        self.filter_values()
        members = self.paginate_queryset(self.group().members.order_by("id"))
        return Response(Plain(data=self.get_serializer(members, many=True).data))

    def create(self, request: Request, **kwargs: str) -> Response:
        values = self.values(self.create_attributes)
        with guarded_change(Access.CALLERS):  # before the group is locked, as in the services
            group, caller = self.group(), self.authenticated_caller
            member = add_group_member(caller, group, user_id=values["id"], is_admin=values.get("admin"))
            self.record(group.pk, after=self.get_serializer(member).data)
        return self.created_response(group.pk)

    @may_wait
    def destroy(self, request: Request, **kwargs: str) -> Response:
        self.values(Attributes, partial=True)  # an id, and nothing else
        user_id = self.target_id()
        if user_id is None:
            raise ValidationError("is missing.", field="id")
        with guarded_change(Access.CALLERS):
            group = self.group()
            user = User.objects.filter(pk=user_id).first()
            before = user and self.get_serializer(user).data
            remove_group_member(self.authenticated_caller, group, user_id=user_id)
            self.affected = [Credential("user", user_id)]
            self.record(group.pk, before=before)
        return Response(Plain())
