"""Actions on one row: GET shows a confirmation page that says what will happen, POST acts."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from django import forms
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.decorators import action

if TYPE_CHECKING:
    from gateway_project.console.tables import ConsoleAdmin

# The class of the table: a method of a subclass takes the subclass as `self`.
Table = TypeVar("Table", bound="ConsoleAdmin[Any]")
Page = Callable[[Table, HttpRequest, str], HttpResponse]


def applies_to_all(row: Model) -> bool:
    return True


def row_link(
    description: str, *, icon: str, path: str, page: str, parameter: str
) -> Callable[[Callable[..., object]], Page[Table]]:
    """Decorates a method of a ConsoleAdmin, which is not called: a button to another page, with the row's id."""

    def decorate(method: Callable[..., object]) -> Page[Table]:
        @action(description=description, icon=icon, url_path=path)
        @wraps(method)
        def go(self: Table, request: HttpRequest, object_id: str) -> HttpResponse:
            row = self.get_object(request, object_id)
            if row is None:
                raise Http404
            return HttpResponseRedirect(f"{reverse(f'admin:{page}')}?{parameter}={row.pk}")

        go.applies_to = applies_to_all
        return go

    return decorate


def row_action(
    description: str,
    *,
    icon: str,
    path: str,
    effect: str,
    atomic: bool = True,
    applies_to: Callable[[Any], bool] = applies_to_all,
    revokes: bool = False,
    form: type[forms.Form] | None = None,
) -> Callable[[Callable[..., HttpResponse | str]], Page[Table]]:
    """Decorates a method of a ConsoleAdmin (request, row): a button on the row's page.

    `effect` is one sentence on what will happen. The method raises GatewayError if it cannot act, and returns a
    response, or a sentence that the row's page shows. An action that calls a provider is not `atomic`, so that no
    lock is held during the call. Rows that the action does not apply to have no button. An action of a
    RevocableAdmin that `revokes` orders what the form wants. A `form` asks for more; the
    method gets it, valid, as `form`.
    """

    def decorate(do: Callable[..., HttpResponse | str]) -> Page[Table]:
        @action(description=description, icon=icon, url_path=path)
        @wraps(do)
        def ask_and_do(self: Table, request: HttpRequest, object_id: str) -> HttpResponse:
            row = self.get_object(request, object_id)
            if row is None or self.is_archived(row):
                raise Http404
            answers = form(request.POST if request.method == "POST" else None) if form else None
            if request.method != "POST" or (answers is not None and not answers.is_valid()):
                context = {"row": row, "effect": effect, "back": self.page_of(row.pk), "opts": self.opts}
                context |= {"offers_cut": revokes, "form": answers}
                return TemplateResponse(
                    request, "console/confirm.html", self.admin_site.context(request, description, **context)
                )
            with self.prove_in_force(request) if revokes else nullcontext():
                act = do if answers is None else partial(do, form=answers)
                return _answer(self, request, row, act, atomic=atomic)

        ask_and_do.applies_to = applies_to
        return ask_and_do

    return decorate


def _answer(
    table: Table,
    request: HttpRequest,
    row: Model,
    do: Callable[..., HttpResponse | str],
    *,
    atomic: bool,
) -> HttpResponse:
    """Act; the response of the action, or the row's page with its sentence."""
    results: list[HttpResponse | str] = []
    is_done = table.attempt(request, lambda: results.append(do(table, request, row)), atomic=atomic)
    if is_done and isinstance(results[0], HttpResponse):
        return results[0]
    if is_done:
        table.message_user(request, results[0])
    return HttpResponseRedirect(table.page_of(row.pk))
