"""Actions on the selected rows of a list: a page says what will happen and asks for what is needed, then they act."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from gateway_project.console.row_actions import applies_to_all
from gateway_project.wording import plural

if TYPE_CHECKING:
    from gateway_project.console.tables import ServiceAdmin

# The class of the table: a method of a subclass takes the subclass as `self`.
Table = TypeVar("Table", bound="ServiceAdmin[Any]")
Action = Callable[[Table, HttpRequest, QuerySet], HttpResponse | None]


def is_never_done(row: object, answers: object) -> bool:
    """For actions that change every row to which they apply."""
    return False


def bulk_action(
    description: str,
    *,
    effect: str,
    form: type[forms.Form] | None = None,
    applies_to: Callable[[Any], bool] = applies_to_all,
    is_done: Callable[..., bool] = is_never_done,
    revokes: bool = False,
) -> Callable[[Callable[..., None]], Action[Table]]:
    """Decorates a method of a ServiceAdmin (request, row, and the valid form if there is one), called for each row.

    `effect` is one sentence on what will happen. The method raises GatewayError for a row that it cannot change: the
    other rows are changed all the same, unless the row would break access tests, for which the site asks for a reason.
    A row that `is_done` by the valid form stays as it is. With `revokes`, an action of a RevocableAdmin waits until the
    change is in force in all workers, and ends running requests if the page's box is ticked.
    """

    def decorate(do: Callable[..., None]) -> Action[Table]:
        @admin.action(permissions=["change"], description=f"{description} selected %(verbose_name_plural)s")
        @wraps(do)
        def ask_and_do(self: Table, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
            rows = [row for row in queryset if not self.is_archived(row) and applies_to(row)]
            is_answer = "post" in request.POST
            answers = form(request.POST if is_answer else None) if form else None
            if rows and (not is_answer or (answers is not None and not answers.is_valid())):
                context = {"rows": rows, "effect": effect, "form": answers, "offers_cut": revokes, "opts": self.opts}
                context |= {"action": do.__name__, "back": request.get_full_path()}
                page = self.admin_site.context(request, description, **context)
                return TemplateResponse(request, "console/bulk.html", page)
            act = partial(do, self, request, **({"form": answers} if answers is not None else {}))
            open_rows = [row for row in rows if not is_done(row, answers)]
            with self.prove_in_force(request) if revokes else nullcontext(), transaction.atomic():
                count = sum(self.attempt(request, act, row) for row in open_rows)
            text = f"{count} of {len(queryset)} {self.opts.verbose_name_plural} changed."
            self.message_user(request, text + _count_unchanged(len(rows) - len(open_rows)))
            return None

        return ask_and_do

    return decorate


def _count_unchanged(number: int) -> str:
    return f" {plural(number, 'stays as it is', 'stay as they are')}." if number else ""
