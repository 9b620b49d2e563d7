"""Actions on one row: GET shows a confirmation page that says what will happen, POST acts."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from unfold.decorators import action


def always(row: Any) -> bool:
    return True


def row_action(
    description: str,
    *,
    icon: str,
    path: str,
    effect: str,
    atomic: bool = True,
    applies_to: Callable[[Any], bool] = always,
) -> Callable[[Callable], Callable]:
    """Decorates a method of a ConsoleAdmin (request, row): a button on the row's page.

    `effect` is one sentence on what will happen. The method raises GatewayError if it cannot act, and returns a
    response, or a sentence that the row's page shows. An action that calls a provider is not `atomic`, so that no
    lock is held meanwhile. Rows that it does not apply to have no button: only locked ones can be unlocked.
    """

    def decorate(do: Callable[[Any, HttpRequest, Any], HttpResponse | str]) -> Callable:
        @action(description=description, icon=icon, url_path=path)
        @wraps(do)
        def ask_and_do(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
            row = self.get_object(request, object_id)
            if row is None or self.is_archived(row):
                raise Http404
            if request.method != "POST":
                context = {"row": row, "effect": effect, "back": self.page_of(row.pk), "opts": self.opts}
                return TemplateResponse(
                    request, "console/confirm.html", self.admin_site.context(request, description, **context)
                )
            results: list[HttpResponse | str] = []
            done = self.attempt(request, lambda: results.append(do(self, request, row)), atomic=atomic)
            if done and isinstance(results[0], HttpResponse):
                return results[0]
            if done:
                self.message_user(request, results[0])
            return HttpResponseRedirect(self.page_of(row.pk))

        ask_and_do.applies_to = applies_to
        return ask_and_do

    return decorate
