"""Actions on one row: each asks first, saying what it will do, and acts on a POST alone."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from unfold.decorators import action


def always(row: Any) -> bool:
    return True


def deed(
    description: str,
    *,
    icon: str,
    path: str,
    means: str,
    atomic: bool = True,
    fits: Callable[[Any], bool] = always,
) -> Callable[[Callable], Callable]:
    """Decorates a method of a ServiceAdmin (request, row): a button on the row's page.

    `means` is one sentence on what will happen. The method raises GatewayError where it cannot be done, and returns
    a response, or the sentence to tell on the row's page. Not `atomic` is what talks to a provider: no lock is held
    meanwhile. Rows that it does not fit (`fits`) have no such button: nobody unlocks what is open.
    """

    def decorate(do: Callable[[Any, HttpRequest, Any], HttpResponse | str]) -> Callable:
        @action(description=description, icon=icon, url_path=path)
        @wraps(do)
        def ask_and_do(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
            row = self.get_object(request, object_id)
            if row is None or self.is_over(row):
                raise Http404
            if request.method != "POST":
                context = {"row": row, "means": means, "back": self.page_of(row.pk), "opts": self.opts}
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

        ask_and_do.fits = fits
        return ask_and_do

    return decorate
