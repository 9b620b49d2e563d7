"""API keys as a resource of the management API."""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.response import Response

from accounts.models import User
from gateway_project.api.access import OWNER, require_access
from gateway_project.api.documents import Plain, flat
from gateway_project.api.fields import DIGITS
from gateway_project.api.filters import Boolean, Integer, Text, read_parameters
from gateway_project.api.response_specs import Message, ResponseSpec
from gateway_project.api.viewsets import ListMixin
from gateway_project.database.saving import rows_by_id
from gateway_project.errors import Conflict, NotFound, PermissionDenied, ValidationError
from keys import services
from keys.models import ApiKey
from keys.serializers import (
    IssuedKey,
    KeyAttributes,
    KeySerializer,
    NewKeyAttributes,
    RotationAttributes,
    WhichKeys,
)
from providers.models import Provider

SEES_ALL = "keys.view_all"
BY_QUERY = {"user": Integer("owner_id", "The owner of the keys; defaults to the caller."), "name": Text("name")}


class KeyViewSet(ListMixin):
    """Credentials for work: one's own, or everybody's for those who may see or manage them."""

    resource_name = "keys"
    queryset = ApiKey.objects.shown()
    serializer_class = KeySerializer
    create_attributes = NewKeyAttributes
    update_attributes = KeyAttributes
    destroy_attributes = WhichKeys
    rotate_attributes = RotationAttributes
    response_specs = {
        "create": ResponseSpec((IssuedKey,), status=201),
        "update": ResponseSpec((Message,)),
        "rotate": ResponseSpec((IssuedKey,)),
    }
    volatile = frozenset({"lastUsed"})
    body_optional = attributes_optional = ("destroy", "rotate")
    filters = {
        "userId": Integer("owner_id"),
        "isDeleted": Boolean("is_deleted"),
        "isExpired": Boolean(lambda keys, expired: keys.expired() if expired else keys.unexpired()),
        "nameContains": Text("name__icontains", "Part of the name, case-insensitive."),
    }
    parameters = {"destroy": BY_QUERY}

    def get_queryset(self) -> QuerySet[ApiKey]:
        keys = super().get_queryset()
        return keys if self.caller.has(SEES_ALL) else keys.of(self.caller.user)

    def owner_id(self) -> int:
        given = self.request.query_params.get("user", "")
        return int(given) if DIGITS.match(given) else self.caller.user.pk

    # -- Creation ---------------------------------------------------------------------------------------

    def create(self, request, **kwargs) -> Response:
        """Issue a key: the answer is the only place where its text is ever seen."""
        values = self.values(self.create_attributes)
        user_id = values.pop("user", self.caller.user.pk)
        require_access(self.caller, OWNER, owner_id=user_id)
        with transaction.atomic():
            (owner,) = rows_by_id(User.objects.live(), [user_id], field="user")
            provider = _provider(values.pop("provider", None))
            issued = services.issue_key(owner=owner, provider=provider, created_by=self.caller.user, **values)
            self.record(issued.key.pk, after=self.serialized(issued.key))
        return self.created(issued.key.pk, _issued_response(issued))

    # -- Changes ----------------------------------------------------------------------------------------

    def update(self, request, **kwargs) -> Response:
        """Change the live key of this name (of `user`, the caller unless told), or of this id."""
        values = self.values(self.update_attributes, partial=True)
        which = {name: values.pop(name) for name in ("user", "name") if name in values}
        if "locked" in values and not self.caller.is_admin:
            raise PermissionDenied("only an admin can lock and unlock keys.", field="locked")
        with transaction.atomic():
            key = self.one_key(which)
            if "provider" in values:
                values["provider"] = _provider(values["provider"])
            with self.recorded_change(key):
                services.update_key(key, **values)
        return Response(Plain(message=f"The key {key.name!r} is changed."))

    def rotate(self, request, **kwargs) -> Response:
        """Give a live key another secret: the answer is the only place where its text is ever seen.

        The key keeps its limits, its history and what was counted of it. What it was before an earlier rotation ends
        at once.
        """
        values = self.values(self.rotate_attributes)
        overlap = timedelta(hours=values["overlap_hours"]) if "overlap_hours" in values else services.OVERLAP
        with transaction.atomic():
            key = self.one_key({})
            with self.recorded_change(key):
                issued = services.rotate_key(key, overlap=overlap)
        return Response(_issued_response(issued))

    def one_key(self, which: dict[str, Any]) -> ApiKey:
        """The live key that is meant; raises ValidationError and NotFound."""
        if self.target_id() is None and "name" not in which:
            raise ValidationError("is missing; it identifies the key.", field="name")
        key = self.meant(which).first()
        if key is None and self.target_id() is not None and "name" in which:
            raise NotFound("There is no key with this id and name. name identifies the key; newName renames it.")
        if key is None:
            raise NotFound("There is no such key.")
        return key

    def meant(self, which: dict[str, Any]) -> QuerySet[ApiKey]:
        """The live keys of a user, the caller unless told, with the name and id that are given, if any.

        Raises PermissionDenied for those of others, and ValidationError for those of nobody.
        """
        keys, target = self.get_queryset().live(), self.target_id()
        if target is None or "user" in which:
            which = {"user": self.caller.user.pk} | which
            require_access(self.caller, OWNER, owner_id=which["user"])
            keys = keys.filter(owner__in=rows_by_id(User.objects.all(), [which["user"]], field="user"))
        if target is not None:
            keys = keys.filter(pk=target)
            for key in keys:  # which the caller may see, and so know of
                require_access(self.caller, OWNER, owner_id=key.owner_id)
        return keys.filter(name=which["name"]) if "name" in which else keys

    # -- Deletion ---------------------------------------------------------------------------------------

    def destroy(self, request, **kwargs) -> Response:
        """Delete the live keys of a user (the caller unless told): all of them, or the one of a name or an id."""
        which = self.which()
        with transaction.atomic():
            keys = list(self.meant(which))
            if not keys and (self.target_id() is not None or "name" in which):
                raise NotFound("There is no such key.")
            before = [flat(row) for row in self.get_serializer(keys, many=True).data]
            services.delete_keys(keys)
            if keys:
                self.record(keys[0].pk if len(keys) == 1 else None, before=before)
        return Response(Plain())

    def which(self) -> dict[str, Any]:
        """`user` and `name` out of the query or the attributes; raises Conflict where they differ."""
        which = dict(self.values(self.destroy_attributes, partial=True))
        given = read_parameters(self.request.query_params, {**BY_QUERY, "id": None})
        for name, value in given.items():
            if which.setdefault(name, value) != value:
                raise Conflict("query and body contain different values.", field=name)
        return which


def _issued_response(issued: services.IssuedKey) -> Plain:
    return Plain(message="This is the only time that the key is shown: keep it safe.", key=issued.text)


def _provider(provider_id: int | None) -> Provider | None:
    """The provider with this id; none for null and 0."""
    return rows_by_id(Provider.objects.all(), [provider_id], field="provider")[0] if provider_id else None
