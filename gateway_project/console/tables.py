"""The bases of all tables of the console; services change the rows, as for the API."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, Generic, TypeVar, Unpack
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import ListFilter, SimpleListFilter
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.db import DataError, models, transaction
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from unfold.admin import ModelAdmin
from unfold.dataclasses import UnfoldAction
from unfold.decorators import display

from gateway_project.api.audit import ChangeDetails
from gateway_project.api.viewsets import ApiViewSet
from gateway_project.console.audit import record_change
from gateway_project.console.display.badges import Badge
from gateway_project.console.display.rows import row_checkbox
from gateway_project.console.filters import PeriodFilter
from gateway_project.console.forms.prefill import prefilled_values
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import link, with_link
from gateway_project.console.period import PAGE_PERIOD, period_of
from gateway_project.console.site import view_name
from gateway_project.console.tabs import Tab, audit_tab
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import AccessTestFailed, Conflict, GatewayError
from gateway_project.json_types import JsonObject

Row = TypeVar("Row", bound=models.Model)
Context = dict[str, object] | None

OUT_OF_RANGE = "A value is out of range. Nothing was saved."


class ConsoleAdmin(ModelAdmin, Generic[Row]):
    """The base of all tables, read-only ones included, with what actions on rows need (row_actions.py)."""

    empty_message: ClassVar[str]  # what an empty list means for the gateway
    empty_page: ClassVar[tuple[str, str] | None] = None  # name and title of the page that makes rows
    list_sections: ClassVar[Sequence[object]] = ()  # the theme reads it twice for each row, slowly where it is missing

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, str | list[str]]:
        """What a link of the console's own fills in: Django would take any text from the address."""
        return prefilled_values(f"{self.opts.app_label}_{self.opts.model_name}", request.GET.dict())

    @display(description=ModelAdmin.action_checkbox.short_description)
    def action_checkbox(self, obj: Row) -> str:
        return row_checkbox(obj.pk)

    def attempt(self, request: HttpRequest, do: Callable[..., object], *args: object, atomic: bool = True) -> bool:
        """Call do(*args); False if it raised a GatewayError, which the next page shows."""
        try:
            with races_as_conflicts(), transaction.atomic() if atomic else nullcontext():
                do(*args)
        except AccessTestFailed:
            raise  # the site asks for a reason
        except GatewayError as error:
            self.message_user(request, with_link(error.sentence, error, request), messages.ERROR)
            return False
        return True

    def is_archived(self, row: Row) -> bool:
        """Whether the row is history: it is shown and can no longer be changed."""
        return False

    def tabs(self, row: Row) -> list[Tab]:
        """The lists and pages that show what belongs to the row."""
        return []

    def shown_tabs(self, row: Row) -> list[Tab]:
        """The tabs, and those that all rows of such tables have."""
        return self.tabs(row)

    def badge_of(self, row: Row) -> Badge | None:
        """The state of the row, beside its tabs; None for rows without a state."""
        return None

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Context = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        context = dict(extra_context or {})
        if row is not None:
            period = period_of(request.GET.dict())
            context |= {
                "row_tabs": [tab.for_period(period) for tab in self.shown_tabs(row)],
                "row_badge": self.badge_of(row),
            }
            context["period_query"] = urlencode(period.moments())
        return super().change_view(request, object_id, form_url, context)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Row | None:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            setattr(row, PAGE_PERIOD, period_of(request.GET.dict()))
        return row

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        """The filters; a list of rows with tabs takes a period, too, for the pages of its rows."""
        has_tabs = type(self).tabs is not ConsoleAdmin.tabs
        return [*super().get_list_filter(request), *([PeriodFilter] if has_tabs else [])]

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[UnfoldAction]:
        row = self.get_object(request, object_id)
        if row is None or self.is_archived(row):
            return []
        return [action for action in super().get_actions_detail(request, object_id) if action.method.applies_to(row)]

    def response_action(self, request: HttpRequest, queryset: models.QuerySet[Row]) -> HttpResponse | None:
        """Refuse selected ids that cannot be primary keys, which Django does not check."""
        for row_id in request.POST.getlist(ACTION_CHECKBOX_NAME):
            try:
                self.opts.pk.clean(row_id, None)
            except ValidationError:
                self.message_user(request, "A selected row does not exist. Nothing was done.", messages.ERROR)
                return HttpResponseRedirect(request.get_full_path())
        return super().response_action(request, queryset)

    def lookup_allowed(self, lookup: str, value: object, request: HttpRequest) -> bool:
        """Only fields that the page has filters for; otherwise a hash could be guessed letter by letter."""
        field, offered = lookup.partition(LOOKUP_SEP)[0], set(map(_field, self.get_list_filter(request)))
        hidden = {column.name for column in self.opts.get_fields()} - offered
        return field not in hidden and super().lookup_allowed(lookup, value, request)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Context = None) -> HttpResponse:
        """Redirect to the row: Django's history, which this page would show, is not kept."""
        return HttpResponseRedirect(self.page_of(object_id))

    def page_of(self, row_id: int | str) -> str:
        """The address of a row's page."""
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row_id])


def _field(entry: str | type[SimpleListFilter] | tuple[str, type[ListFilter]]) -> str:
    """The field, or else the parameter, of an entry of list_filter."""
    first = entry[0] if isinstance(entry, tuple) else entry
    return first if isinstance(first, str) else str(first.parameter_name)


class ServiceAdmin(ConsoleAdmin[Row]):
    """A table whose rows services change; a subclass names the viewset of the resource and calls the services."""

    viewset: ClassVar[type[ApiViewSet[Any]]]  # gives the resource's name and the serialized row for the log
    form = ServiceForm
    change_form_outer_before_template = "console/row_tabs.html"
    change_form_before_template = "console/seen.html"
    delete_confirmation_template = delete_selected_confirmation_template = "console/delete.html"
    compressed_fields = True
    list_filter_submit = True
    list_per_page = 30
    actions = ["delete_selected"]

    # -- What a subclass defines ------------------------------------------------------------------------

    def create(self, request: HttpRequest, values: JsonObject) -> Row:
        """The stored row of these fields; raises GatewayError."""
        raise NotImplementedError

    def change(self, request: HttpRequest, row: Row, values: JsonObject) -> None:
        """Store the fields that were changed; raises GatewayError."""
        raise NotImplementedError

    def destroy(self, request: HttpRequest, row: Row) -> None:
        """Delete the row as the API does; raises GatewayError."""
        raise NotImplementedError

    def deletion_effects(self, row: Row) -> list[str]:
        """What deleting the row does, in sentences that the confirmation page shows."""
        return []

    def shown_tabs(self, row: Row) -> list[Tab]:
        return [*self.tabs(row), audit_tab(self.viewset.resource_name, row.pk)]

    def selectable(self, rows: models.QuerySet[Row]) -> models.QuerySet[Row]:
        """The rows that forms of other tables offer: without archived ones, which services would refuse."""
        return rows

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or not self.is_archived(obj))

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or not self.is_archived(obj))

    # -- Django's hooks ---------------------------------------------------------------------------------

    def get_search_results(
        self, request: HttpRequest, rows: models.QuerySet[Row], text: str
    ) -> tuple[models.QuerySet[Row], bool]:
        matches, may_have_duplicates = super().get_search_results(request, rows, text)
        is_autocomplete = view_name(request) == "autocomplete"
        return (self.selectable(matches) if is_autocomplete else matches), may_have_duplicates

    def store(self, request: HttpRequest, form: ServiceForm) -> Row:
        """Create or change the row of a form with valid fields, and write it to the log."""
        row = form.instance
        if row.pk is None:
            row = self.create(request, form.cleaned_data)
            self.record(request, "create", row.pk, after=self.serialize_stored(row), attributes=form.cleaned_data)
            return row
        changed = {name: form.cleaned_data[name] for name in form.changed_data if name in form.cleaned_data}
        if changed:
            with self.recorded_change(request, row, attributes=changed):
                self.change(request, row, dict(changed))
        return row

    def changeform_view(self, request: HttpRequest, *args: object, **options: object) -> HttpResponse:
        try:
            with races_as_conflicts():
                return super().changeform_view(request, *args, **options)
        except Conflict as error:
            self.message_user(request, with_link(error.sentence, error, request), messages.ERROR)
        except DataError:  # for values that no field has refused; the API answers them in the same way
            self.message_user(request, OUT_OF_RANGE, messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: object, object_id: str
    ) -> HttpResponseRedirect:
        """Redirect to the list, with a link to what the audit has of the row: Django's message is on the overview."""
        address = audit_tab(self.viewset.resource_name, object_id).address
        text = "There is no {} with the id {}. Perhaps it was deleted: {}"
        sentence = format_html(text, self.opts.verbose_name, object_id[:40], link("show its audit", address))
        self.message_user(request, sentence, messages.WARNING)
        return HttpResponseRedirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"))

    def get_form(
        self, request: HttpRequest, obj: Row | None = None, change: bool = False, **options: Any
    ) -> type[ServiceForm]:
        form = super().get_form(request, obj, change=change, **options)
        # Django keeps declared fields, which may be required, in forms that do not list them: None removes them.
        absent = set(form.declared_fields) - set(options.get("fields") or form.declared_fields)
        return type(form.__name__, (form,), {"admin": self, "request": request, **dict.fromkeys(absent)})

    def save_model(self, request: HttpRequest, obj: Row, form: forms.ModelForm, change: bool) -> None:
        """Nothing: ServiceForm has stored the row."""

    def save_related(self, request: HttpRequest, form: forms.ModelForm, formsets: object, change: bool) -> None:
        """Nothing, for the same reason."""

    def delete_model(self, request: HttpRequest, obj: Row) -> None:
        with transaction.atomic():
            before, row_id = self.serialize_stored(obj), obj.pk
            self.destroy(request, obj)
            self.record(request, "destroy", row_id, before=before)

    @admin.action(permissions=["delete"], description="Delete selected %(verbose_name_plural)s")
    def delete_selected(self, request: HttpRequest, queryset: models.QuerySet[Row]) -> HttpResponse | None:
        """Ask for confirmation, then delete the rows; a message says why the service refused to delete a row.

        Rows that are refused stay; one that would break access tests raises AccessTestFailed, and all stay.
        """
        rows = [row for row in queryset if self.has_delete_permission(request, row)]
        if rows and not request.POST.get("post"):
            confirmation = delete_selected(self, request, queryset.filter(pk__in=[row.pk for row in rows]))
            assert confirmation is not None, "Django asks for confirmation first"
            context = confirmation.context_data
            assert context is not None, "Django's page has a context"
            [effects] = context["deletable_objects"]
            context.update(deleted_objects=effects, back=request.get_full_path())
            return confirmation
        with transaction.atomic():  # a row that breaks access tests keeps all the others, too
            deleted = sum(self.attempt(request, self.delete_model, request, row) for row in rows)
        self.message_user(request, f"{deleted} of {len(queryset)} {self.opts.verbose_name_plural} deleted.")
        return None

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Context = None) -> HttpResponse:
        context = {"back": self.page_of(object_id), **(extra_context or {})}
        try:
            with races_as_conflicts():
                return super().delete_view(request, object_id, context)
        except AccessTestFailed:
            raise  # the site asks for a reason
        except GatewayError as error:
            self.message_user(request, with_link(error.sentence, error, request), messages.ERROR)
            return HttpResponseRedirect(self.page_of(object_id))

    def get_deleted_objects(
        self, objs: Iterable[Row], request: HttpRequest
    ) -> tuple[list[object], dict[str, int], set[str], list[object]]:
        """The rows by the effects of deleting them: services decide what else is deleted, not Django's collector."""
        rows: dict[tuple[str, ...], list[Row]] = {}
        for row in objs:
            rows.setdefault(tuple(self.deletion_effects(row)), []).append(row)
        return list(rows.items()), {}, set(), []

    # -- The log ----------------------------------------------------------------------------------------

    def serialize_stored(self, row: Row) -> JsonObject | None:
        """The row as the API shows it, without secrets; None if it is gone."""
        return self.viewset.serialize_row(row)

    def record(
        self, request: HttpRequest, operation: str, row_id: int | None, **details: Unpack[ChangeDetails]
    ) -> None:
        """Write to the log who changed what."""
        record_change(request, operation, self.viewset.resource_name, row_id, **details)

    @contextmanager
    def recorded_change(
        self, request: HttpRequest, row: Row, operation: str = "update", attributes: Iterable[str] = ()
    ) -> Iterator[None]:
        """Around a change of a row: writes the row before and after it to the log."""
        before = self.serialize_stored(row)
        yield
        after = self.serialize_stored(row)
        self.record(request, operation, row.pk, before=before, after=after, attributes=attributes)

    def log_addition(self, request: HttpRequest, obj: Row, message: object) -> None:
        """Nothing: the log replaces Django's history."""

    log_change = log_addition

    def log_deletions(self, request: HttpRequest, queryset: models.QuerySet[Row]) -> None:
        """Nothing, for the same reason."""


class ReadOnlyAdmin(ConsoleAdmin[Row]):
    """A table that the console shows and never changes."""

    def has_add_permission(self, request: HttpRequest, *args: object) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False
