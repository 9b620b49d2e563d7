"""API keys as a resource of the management API."""

from datetime import timedelta

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.managing.groups import administered_groups, administers_account
from accounts.models import User
from gateway_project.api.access import OWNER, require_access
from gateway_project.api.documents import Plain, with_camel_names
from gateway_project.api.fields import DIGITS
from gateway_project.api.filters import BooleanFilter, IntegerFilter, TextFilter, read_parameters
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import ListMixin
from gateway_project.change_feed.cuts import Credential
from gateway_project.database.saving import rows_by_id
from gateway_project.errors import Conflict, NotFound, PermissionDenied, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.revocation.viewsets import REVOCATION, MessageAndProof, Proof, RevocationMixin, may_wait
from keys import services
from keys.delegation import check_delegation
from keys.models import ApiKey, work_only
from keys.own_limits import set_own_limits
from keys.querysets import ApiKeyQuerySet
from keys.restrictions import ContentLogging
from keys.serializers import (
    IssuedKey,
    KeyAttributes,
    KeySelector,
    KeySerializer,
    NewKeyAttributes,
    RotationAttributes,
)
from providers.models import Provider

SEES_ALL = "keys.view_all"
BY_QUERY = {
    "user": IntegerFilter("owner_id", "The owner of the keys (default: the caller)."),
    "name": TextFilter("name"),
}


class KeyViewSet(RevocationMixin, ListMixin):
    """API keys: the caller's own, or all with the permission keys.view_all."""

    resource_name = "keys"
    queryset = ApiKey.objects.shown()
    serializer_class = KeySerializer
    create_attributes = NewKeyAttributes
    update_attributes = KeyAttributes
    destroy_attributes = KeySelector
    rotate_attributes = RotationAttributes
    response_specs = {
        "create": ResponseSpec((IssuedKey,), status=201),
        "update": ResponseSpec((MessageAndProof,)),
        "destroy": ResponseSpec((Proof,)),
        "rotate": ResponseSpec((IssuedKey,)),
    }
    volatile = frozenset({"lastUsed"})
    body_optional = attributes_optional = ("destroy", "rotate")
    filters = {
        "userId": IntegerFilter("owner_id"),
        "isDeleted": BooleanFilter("is_deleted"),
        "isExpired": BooleanFilter(lambda keys, expired: keys.expired() if expired else keys.unexpired()),
        "nameContains": TextFilter("name__icontains", "Part of the name, case-insensitive."),
    }
    parameters = {"update": REVOCATION, "destroy": {**BY_QUERY, **REVOCATION}}

    def get_queryset(self) -> ApiKeyQuerySet[ApiKey]:
        keys, caller = ApiKey.objects.shown(), self.authenticated_caller
        if caller.has(SEES_ALL):
            return keys
        own, groups = keys.of(caller.user), administered_groups(caller)
        return own | keys.of_accounts_of(groups) if groups else own

    def owner_id(self) -> int:
        own, user_id = self.authenticated_caller.user.pk, self.request.query_params.get("user", "")
        return int(user_id) if DIGITS.match(user_id) and not self.acts_for(int(user_id)) else own

    def acts_for(self, user_id: int) -> bool:
        """Whether the user is a service account whose keys the caller manages, as an admin of its group."""
        return administers_account(self.authenticated_caller, user_id)

    def require_owner(self, user_id: int) -> None:
        """Raise PermissionDenied unless the caller manages the keys of this user."""
        if not self.acts_for(user_id):
            require_access(self.caller, OWNER, owner_id=user_id)

    # -- Creation ---------------------------------------------------------------------------------------

    def create(self, request: Request, **kwargs: str) -> Response:
        """Issue a key. Only this response shows its text."""
        values = self.values(self.create_attributes)
        user_id = values.pop("user", self.authenticated_caller.user.pk)
        self.require_owner(user_id)
        check_delegation(self.authenticated_caller, user_id, values.get("permissions", work_only()))
        self.check_logging(values)
        limits = values.pop("limits", [])
        with transaction.atomic():
            (owner,) = rows_by_id(User.objects.live(), [user_id], field="user")
            provider = _provider(values.pop("provider", None))
            creator = self.authenticated_caller.user
            issued = services.issue_key(owner=owner, provider=provider, created_by=creator, **values)
            set_own_limits(issued.key, limits, self.authenticated_caller)
            self.record(issued.key.pk, after=self.serialize_stored(issued.key))
        return self.created_response(issued.key.pk, _issued_response(issued))

    # -- Changes ----------------------------------------------------------------------------------------

    @may_wait
    def update(self, request: Request, **kwargs: str) -> Response:
        """Change the key with this id, or with this name of `user` (default: the caller)."""
        values = self.values(self.update_attributes, partial=True)
        selection = {name: values.pop(name) for name in ("user", "name") if name in values}
        if "expiry" in values and values.get("expire"):
            raise ValidationError("send either expire or expiry.", field="expiry")
        if "locked" in values and not self.authenticated_caller.is_admin:
            raise PermissionDenied("only an admin can lock and unlock keys.", field="locked")
        with transaction.atomic():
            key = self.selected_key(selection)
            check_delegation(
                self.authenticated_caller, key.owner_id, [*key.permissions, *values.get("permissions", ())]
            )
            self.check_logging(values, key.content_logging)
            if "provider" in values:
                values["provider"] = _provider(values["provider"])
            self.affected = [Credential("key", key.pk)]
            with self.recorded_change(key):
                services.update_key(key, **values)
        return Response(Plain(message=f"The key {key.name!r} has been changed."))

    def check_logging(self, values: JsonObject, current: str = ContentLogging.DEFAULT) -> None:
        """Raise PermissionDenied if somebody who is no admin would hide what the log keeps."""
        unproblematic = (ContentLogging.DEFAULT, current)
        kind = values.get("content_logging", current)
        if kind not in unproblematic and not self.authenticated_caller.is_admin:
            raise PermissionDenied(
                "only an admin can make the log keep less than the gateway's setting.", field="content_logging"
            )

    def rotate(self, request: Request, **kwargs: str) -> Response:
        """Give a key a new secret. Only this response shows the key's text.

        The key keeps its limits, its history and its counts. The current secret keeps working for `overlapHours`; the
        secret before it ends at once.
        """
        values = self.values(self.rotate_attributes)
        overlap = timedelta(hours=values["overlap_hours"]) if "overlap_hours" in values else services.OVERLAP
        with transaction.atomic():
            key = self.selected_key({})
            check_delegation(self.authenticated_caller, key.owner_id, key.permissions)
            with self.recorded_change(key):
                issued = services.rotate_key(key, overlap=overlap)
        return Response(_issued_response(issued))

    def selected_key(self, selection: JsonObject) -> ApiKey:
        """The live key that the request identifies; raises ValidationError and NotFound."""
        if self.target_id() is None and "name" not in selection:
            raise ValidationError("is missing: it says which key to change.", field="name")
        key = self.selected_keys(selection).first()
        if key is None and self.target_id() is not None and "name" in selection:
            raise NotFound("No key with this id and name. name says which key to change; newName renames it.")
        if key is None:
            raise NotFound("No such key.")
        return key

    def selected_keys(self, selection: JsonObject) -> ApiKeyQuerySet[ApiKey]:
        """The live keys with the id, if the request has one, and with the owner and name of the selection.

        The default owner is the caller. Raises PermissionDenied for keys of others, and ValidationError if there is no
        such owner.
        """
        keys, target = self.get_queryset().live(), self.target_id()
        if target is None or "user" in selection:
            owner_id = selection.get("user", self.authenticated_caller.user.pk)
            self.require_owner(owner_id)
            keys = keys.filter(owner__in=rows_by_id(User.objects.all(), [owner_id], field="user"))
        if target is not None:
            keys = keys.filter(pk=target)
            for key in keys:  # only keys that the caller may see
                self.require_owner(key.owner_id)
        return keys.filter(name=selection["name"]) if "name" in selection else keys

    # -- Deletion ---------------------------------------------------------------------------------------

    @may_wait
    def destroy(self, request: Request, **kwargs: str) -> Response:
        """Delete keys of a user (default: the caller): all, or the one with a name or an id."""
        selection = self.selection()
        with transaction.atomic():
            keys = list(self.selected_keys(selection))
            if not keys and (self.target_id() is not None or "name" in selection):
                raise NotFound("No such key.")
            before = [with_camel_names(row) for row in self.get_serializer(keys, many=True).data]
            services.delete_keys(keys)
            self.affected = [Credential("key", key.pk) for key in keys]
            if keys:
                self.record(keys[0].pk if len(keys) == 1 else None, before=before)
        return Response(Plain())

    def selection(self) -> JsonObject:
        """`user` and `name` from the query or the attributes; raises Conflict if they differ."""
        selection = dict(self.values(self.destroy_attributes, partial=True))
        parameters = read_parameters(self.request.query_params, {**BY_QUERY, "id": None, **dict.fromkeys(REVOCATION)})
        for name, value in parameters.items():
            if selection.setdefault(name, value) != value:
                raise Conflict("query and body contain different values.", field=name)
        return selection


def _issued_response(issued: services.IssuedKey) -> Plain:
    return Plain(message="The key is shown only this once. Keep it safe.", key=issued.text)


def _provider(provider_id: int | None) -> Provider | None:
    """The provider with this id; None for null and 0."""
    return rows_by_id(Provider.objects.all(), [provider_id], field="provider")[0] if provider_id else None
