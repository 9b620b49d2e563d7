"""Tables of the console whose deletions and locks say where they are in force, and can end what runs."""

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar
from weakref import WeakKeyDictionary

from django.contrib import admin, messages
from django.db import models, transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from gateway_project.change_feed.cuts import Credential
from gateway_project.console.audit import actor
from gateway_project.console.tables import Context, ServiceAdmin
from gateway_project.errors import ServiceUnavailable
from gateway_project.revocation.receipts import Revocation, waiters

Row = TypeVar("Row", bound=models.Model)

CUT = {"offers_cut": True}  # for the pages that ask for confirmation

# What the pages that are being answered revoke.
_revocations: WeakKeyDictionary[HttpRequest, Revocation] = WeakKeyDictionary()


class RevocableAdmin(ServiceAdmin[Row]):
    """Whoever deletes or locks a row learns which workers have the change; a box on the page ends what runs.

    The form of a row has no box: its change() calls order() if it revokes something.
    """

    def credentials_of(self, row: Row) -> Collection[Credential]:
        """Whose requests end with the row."""
        raise NotImplementedError

    @contextmanager
    def prove_in_force(self, request: HttpRequest) -> Iterator[None]:
        """Around what a form does: afterwards waits until it is in force, and a message says so."""
        with ExitStack() as place:
            revocation = self._begin(request, place)
            yield
            if not revocation.is_ordered:
                return
            in_force = revocation.conclude(actor(request))
        if in_force is not None:
            level = messages.SUCCESS if in_force.is_everywhere else messages.WARNING
            self.message_user(request, in_force.sentence(cuts=revocation.cuts), level)

    def _begin(self, request: HttpRequest, place: ExitStack) -> Revocation:
        """What the form wants; nobody waits if too many do already."""
        waits = request.method == "POST"
        if waits:
            try:
                place.enter_context(waiters.place(request.user.pk))
            except ServiceUnavailable:
                waits = False
        revocation = Revocation(self.viewset.resource_name, waits=waits, cuts="cut" in request.POST)
        _revocations[request] = revocation
        return revocation

    def order(self, request: HttpRequest, row_id: int, credentials: Collection[Credential]) -> None:
        """Order what the form wants, in the transaction of the change."""
        if (revocation := _revocations.get(request)) is not None:
            revocation.order(actor(request), row_id, credentials)

    def delete_model(self, request: HttpRequest, obj: Row) -> None:
        row_id = obj.pk
        with transaction.atomic():
            credentials = list(self.credentials_of(obj))  # as it is before the deletion
            super().delete_model(request, obj)
            self.order(request, row_id, credentials)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Context = None
    ) -> HttpResponse:
        with self.prove_in_force(request):
            return super().change_view(request, object_id, form_url, extra_context)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Context = None) -> HttpResponse:
        with self.prove_in_force(request):
            return super().delete_view(request, object_id, CUT | (extra_context or {}))

    @admin.action(permissions=["delete"], description="Delete selected %(verbose_name_plural)s")
    def delete_selected(self, request: HttpRequest, queryset: models.QuerySet[Row]) -> HttpResponse | None:
        with self.prove_in_force(request):
            response = super().delete_selected(request, queryset)
        if isinstance(response, TemplateResponse) and response.context_data is not None:
            response.context_data.update(CUT)
        return response
