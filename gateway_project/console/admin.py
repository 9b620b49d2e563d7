"""The base of all pages of tables: forms whose fields go to services, which check and store them as for the API."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import capfirst
from unfold.admin import ModelAdmin

from gateway_project.console.log import record
from gateway_project.errors import Conflict, GatewayError
from gateway_project.jsonapi.names import snake
from gateway_project.jsonapi.viewsets import ApiViewSet
from gateway_project.saving import crossing_told

MEANWHILE = "Somebody changed this since the page was opened; nothing was stored. Open it again and look."


class ServiceForm(forms.ModelForm):
    """A form that is stored by its admin's services when its fields are good; what they refuse, it tells.

    Storing is the last step of validation: only the service knows whether the whole is good, and the page runs in
    one transaction. Fields beside the model's are declared in the form, their values for a row in `of_row`.

    What is stored is what differs from the row as it is now. So the page tells of the row as it was then (`seen`): a
    form that lay open while somebody else changed the row would take that back, and its author knows nothing of it.
    """

    admin: "ServiceAdmin"
    request: HttpRequest
    wire_names: ClassVar[dict[str, str]] = {}  # fields by the names of services, where those are others

    def __init__(self, *args: Any, **options: Any) -> None:
        row = options.get("instance")
        if row is not None and row.pk is not None:
            options["initial"] = {**self.of_row(row), **(options.get("initial") or {})}
        super().__init__(*args, **options)
        for field in self.fields.values():
            if isinstance(field, forms.DecimalField):
                field.prepare_value = plain

    def of_row(self, row: models.Model) -> dict[str, Any]:
        """The values of declared fields for a stored row."""
        return {}

    @property
    def seen(self) -> str:
        """What the page tells of the row: as it was when the form was first shown, however often it is refused."""
        return self.data.get("_seen", "") if self.is_bound else self._present()

    def _present(self) -> str:
        """A digest of the values that the row has in this form's fields now; empty for a new one."""
        if self.instance.pk is None:
            return ""
        values = [(name, _settled(self.fields[name].prepare_value(self[name].initial))) for name in sorted(self.fields)]
        return hashlib.sha256(repr(values).encode()).hexdigest()

    def _post_clean(self) -> None:
        if self.errors:
            return
        if self.seen != self._present():
            self.add_error(None, MEANWHILE)
            return
        try:
            with transaction.atomic():
                self.instance = self.admin.store(self.request, self)
        except GatewayError as error:
            for problem in getattr(error, "problems", ()) or [error.message]:
                self.tell(problem)

    def tell(self, message: str) -> None:
        """Put the refusal beside the field that it names, where it begins a sentence."""
        name, _, rest = message.partition(": ")
        known = (name, snake(name), self.wire_names.get(name))
        field = next((field for field in known if rest and field in self.fields), None)
        self.add_error(field, capfirst(rest) if field else message)

    def save(self, commit: bool = True) -> models.Model:
        return self.instance

    def save_m2m(self) -> None:
        """Services store what belongs to a row with it."""


def plain(value: Any) -> Any:
    """A decimal number without the zeros that say nothing, and without an exponent; anything else as it is."""
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def _settled(value: Any) -> Any:
    """The value as text, of many in one order: they have none that would mean anything."""
    return sorted(map(str, value)) if isinstance(value, list) else str(value)


class Deeds(ModelAdmin):
    """What all tables have, and what actions on rows need (deeds.py)."""

    empty_means: ClassVar[str]  # what an empty list tells of the gateway

    def attempt(self, request: HttpRequest, do: Any, *args: Any, atomic: bool = True) -> bool:
        """Whether it could be done; what speaks against it is told on the next page."""
        try:
            with crossing_told(), transaction.atomic() if atomic else nullcontext():
                do(*args)
        except GatewayError as error:
            self.message_user(request, error.message, messages.ERROR)
            return False
        return True

    def is_over(self, row: Any) -> bool:
        """Whether the row is history: it is shown, and nothing is done to it any more."""
        return False

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list:
        row = self.get_object(request, object_id)
        if row is None or self.is_over(row):
            return []
        return [deed for deed in super().get_actions_detail(request, object_id) if deed.method.fits(row)]

    def response_action(self, request: HttpRequest, queryset: models.QuerySet) -> HttpResponse | None:
        """What is chosen are keys of this table; Django's own takes the word of whoever sends the form for that."""
        for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME):
            try:
                self.opts.pk.clean(chosen, None)
            except ValidationError:
                self.message_user(request, "There is no such row: nothing was done.", messages.ERROR)
                return HttpResponseRedirect(request.get_full_path())
        return super().response_action(request, queryset)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Of fields those that the page has filters for: a hash could be guessed letter by letter else."""
        field, offered = lookup.partition(LOOKUP_SEP)[0], set(map(_field, self.get_list_filter(request)))
        hidden = {known.name for known in self.opts.get_fields()} - offered
        return field not in hidden and super().lookup_allowed(lookup, value, request)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """To the row: what Django would show here, nobody keeps."""
        return HttpResponseRedirect(self.page_of(object_id))

    def page_of(self, row_id: Any) -> str:
        """The address of a row's page."""
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row_id])


def _field(entry: Any) -> str:
    """The field, or else the parameter, of an entry of list_filter."""
    first = entry[0] if isinstance(entry, tuple) else entry
    return first if isinstance(first, str) else first.parameter_name


class ServiceAdmin(Deeds):
    """A table of the console; a subclass says which viewset shows its rows, and calls the services."""

    viewset: ClassVar[type[ApiViewSet]]  # of the same resource: its name and its view of a row go into the log
    form = ServiceForm
    change_form_before_template = "console/seen.html"
    delete_confirmation_template = delete_selected_confirmation_template = "console/delete.html"
    compressed_fields = True
    list_filter_submit = True
    list_per_page = 50
    actions = ["delete_selected"]

    # -- What a subclass says ---------------------------------------------------------------------------

    def create(self, request: HttpRequest, values: dict[str, Any]) -> models.Model:
        """The stored row of these fields; raises GatewayError."""
        raise NotImplementedError

    def change(self, request: HttpRequest, row: Any, values: dict[str, Any]) -> None:
        """Store the fields that were changed; raises GatewayError."""
        raise NotImplementedError

    def destroy(self, request: HttpRequest, row: Any) -> None:
        """Delete the row as the API does; raises GatewayError."""
        raise NotImplementedError

    def deleting_means(self, row: Any) -> list[str]:
        """What deleting the row does, in sentences, for whoever is asked to confirm it."""
        return []

    def offered(self, rows: models.QuerySet) -> models.QuerySet:
        """The rows that forms of other tables offer: none that is over, which services would refuse."""
        return rows

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or not self.is_over(obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or not self.is_over(obj))

    # -- How it comes about -----------------------------------------------------------------------------

    def get_search_results(self, request: HttpRequest, rows: models.QuerySet, text: str) -> tuple[Any, bool]:
        found, doubled = super().get_search_results(request, rows, text)
        return (self.offered(found) if request.resolver_match.url_name == "autocomplete" else found), doubled

    def store(self, request: HttpRequest, form: ServiceForm) -> models.Model:
        """Create or change the row of a form with good fields, and tell the log."""
        row = form.instance
        if row.pk is None:
            row = self.create(request, form.cleaned_data)
            self.record(request, "create", row.pk, after=self.shown(row), attributes=form.cleaned_data)
            return row
        changed = {name: form.cleaned_data[name] for name in form.changed_data if name in form.cleaned_data}
        if changed:
            with self.changing(request, row, attributes=changed):
                self.change(request, row, dict(changed))
        return row

    def changeform_view(self, request: HttpRequest, *args: Any, **options: Any) -> HttpResponse:
        try:
            with crossing_told():
                return super().changeform_view(request, *args, **options)
        except Conflict as error:
            self.message_user(request, error.message, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **options: Any) -> type:
        form = super().get_form(request, obj, change=change, **options)
        # Fields that a form declares stay in it, and may be required, unless they are taken away.
        absent = set(form.declared_fields) - set(options.get("fields") or form.declared_fields)
        return type(form.__name__, (form,), {"admin": self, "request": request, **dict.fromkeys(absent)})

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """The form has done it."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """The form has done it."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with transaction.atomic():
            before, row_id = self.shown(obj), obj.pk
            self.destroy(request, obj)
            self.record(request, "destroy", row_id, before=before)

    @admin.action(permissions=["delete"], description="Delete selected %(verbose_name_plural)s")
    def delete_selected(self, request: HttpRequest, queryset: models.QuerySet) -> HttpResponse | None:
        """Ask as Django's own does, and then delete those that services let go; each of the others says why not."""
        rows = [row for row in queryset if self.has_delete_permission(request, row)]
        if rows and not request.POST.get("post"):
            asked = delete_selected(self, request, queryset.filter(pk__in=[row.pk for row in rows]))
            [told] = asked.context_data["deletable_objects"]
            asked.context_data |= {"deleted_objects": told, "back": request.get_full_path()}
            return asked
        deleted = sum(self.attempt(request, self.delete_model, request, row) for row in rows)
        self.message_user(request, f"{deleted} of {len(queryset)} {self.opts.verbose_name_plural} are deleted.")
        return None

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        context = {"back": self.page_of(object_id), **(extra_context or {})}
        try:
            with crossing_told():
                return super().delete_view(request, object_id, context)
        except GatewayError as error:
            self.message_user(request, error.message, messages.ERROR)
            return HttpResponseRedirect(self.page_of(object_id))

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> tuple[list, dict, set, list]:
        """The rows by what deleting them means: services decide what goes with a row, not Django's collector."""
        told: dict[tuple[str, ...], list[Any]] = {}
        for row in objs:
            told.setdefault(tuple(self.deleting_means(row)), []).append(row)
        return list(told.items()), {}, set(), []

    # -- The log ----------------------------------------------------------------------------------------

    def shown(self, row: models.Model) -> Any:
        """The row as the API shows it, without secrets; None if it is gone."""
        return self.viewset.as_listed(row)

    def record(self, request: HttpRequest, operation: str, row_id: Any, **more: Any) -> None:
        """Tell the log who changed what."""
        record(request, operation, self.viewset.resource_name, row_id, **more)

    @contextmanager
    def changing(self, request: HttpRequest, row: Any, operation: str = "update", **more: Any) -> Iterator[None]:
        """Around a change of a row: tells the log how it was before and after."""
        before = self.shown(row)
        yield
        self.record(request, operation, row.pk, before=before, after=self.shown(row), **more)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """Django keeps a history of its own for this; ours is the log."""

    log_change = log_addition

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        """As above."""


class ReadOnlyAdmin(Deeds):
    """A table that the console shows and never changes."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
