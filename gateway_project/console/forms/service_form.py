"""The base of the forms of tables: they pass the fields to services, as the API does."""

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar, Protocol

from django import forms
from django.db import models, transaction
from django.http import HttpRequest
from django.utils.text import capfirst

from gateway_project.console.forms.inputs import refuse_unfit_ids
from gateway_project.console.links import with_link
from gateway_project.console.site import REASON
from gateway_project.errors import AccessTestFailed, BrokenTest, GatewayError
from gateway_project.wording import CHANGED_MEANWHILE

BREAKS_TESTS = "The change breaks access tests. Nothing was saved. To save it anyway, give a reason."


class RowStore(Protocol):
    """What stores the rows of a form: its table (ServiceAdmin)."""

    def store(self, request: HttpRequest, form: "ServiceForm") -> models.Model:
        """Create or change the row of a form with valid fields; raises GatewayError."""


class ServiceForm(forms.ModelForm):
    """A form that its admin's services store once its fields are valid; their errors become the form's errors.

    Storing is the last step of validation: only the service can judge the whole, and the page runs in one
    transaction. Fields beside the model's are declared in the form; `initial_of` returns their values for a row.

    The fields stored are those that differ from the row as it is now. The page therefore carries a digest of the row
    as it was when the form was opened: otherwise a form would silently undo changes that others made meanwhile.
    """

    admin: RowStore
    request: HttpRequest
    broken_tests: Sequence[BrokenTest] = ()  # that the change would break, unless a reason is given
    is_trial = False  # the fields are checked, and nothing is stored
    form_names: ClassVar[dict[str, str]] = {}  # the form's field names by those that services use, if they differ

    def __init__(self, *args: Any, **options: Any) -> None:
        row = options.get("instance")
        if row is not None and row.pk is not None:
            options["initial"] = {**self.initial_of(row), **(options.get("initial") or {})}
        super().__init__(*args, **options)
        refuse_unfit_ids(self)
        for field in self.fields.values():
            if isinstance(field, forms.DecimalField):
                field.prepare_value = plain_decimal  # type: ignore[method-assign]  # for this field alone

    def initial_of(self, row: models.Model) -> dict[str, object]:
        """The values of declared fields for a stored row."""
        return {}

    @property
    def first_digest(self) -> str:
        """The digest of the row when the form was first shown, also after the form was refused."""
        return self.data.get("_seen", "") if self.is_bound else self._current_digest()

    @property
    def asks_for_reason(self) -> bool:
        """Whether the page has a field for the reason to break access tests."""
        return bool(self.broken_tests) or bool(self.override_reason)

    @property
    def override_reason(self) -> str:
        """The reason as it was sent."""
        return self.data.get(REASON, "") if self.is_bound else ""

    def _current_digest(self) -> str:
        """A digest of the row's current values in this form's fields; empty for a new row."""
        if self.instance.pk is None:
            return ""
        values = [(name, _as_text(self.fields[name].prepare_value(self[name].initial))) for name in sorted(self.fields)]
        return hashlib.sha256(repr(values).encode()).hexdigest()

    def is_valid(self) -> bool:
        """Whether the row is stored; of a trial it never is, so that the page shows the form again."""
        return super().is_valid() and not self.is_trial

    def _post_clean(self) -> None:
        if self.errors or self.is_trial:
            return
        if self.first_digest != self._current_digest():
            self.add_error(None, CHANGED_MEANWHILE)
            return
        try:
            with transaction.atomic():
                self.instance = self.admin.store(self.request, self)
        except AccessTestFailed as error:
            self.broken_tests = error.tests
            self.add_error(None, BREAKS_TESTS)
        except GatewayError as error:
            self.add_service_error(error)

    def add_service_error(self, error: GatewayError) -> None:
        """Add each problem to its field, as a sentence; one of a field that the form does not have, to the form."""
        for problem in error.problems:
            name = self.form_names.get(problem.field, problem.field)
            is_shown = name in self.fields
            text = capfirst(problem.detail) if is_shown else problem.sentence
            self.add_error(name if is_shown else None, with_link(text, error, self.request))

    def save(self, commit: bool = True) -> models.Model:
        return self.instance

    def save_m2m(self) -> None:
        """Services store what belongs to a row with it."""


def plain_decimal(value: object) -> object:
    """A decimal number as text without trailing zeros or an exponent; any other value unchanged."""
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def _as_text(value: object) -> str | list[str]:
    """The value as text; a list sorted, since the order of its elements means nothing."""
    return sorted(map(str, value)) if isinstance(value, list) else str(value)
