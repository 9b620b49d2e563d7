"""The pages for second factors in the console."""

from django.http import HttpRequest, HttpResponse

from accounts.second_factor import pages
from accounts.second_factor.sites import CONSOLE
from gateway_project.console import site as console
from gateway_project.errors import GatewayError


def _page(route: str, name: str, view: pages.View) -> None:
    """Add a page to the console; an error of its view is a page that says why."""

    def answer(request: HttpRequest, **options: int) -> HttpResponse:
        try:
            return view(CONSOLE, request, **options)
        except GatewayError as error:
            return console.console_site().refusal(request, "Second factor", error.sentence, error.code)

    console.console_site().page(f"second-factor/{route}", name=name)(answer)


for route, name, view in pages.PAGES:
    _page(route, name, view)
