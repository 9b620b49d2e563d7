"""Asking for access, and deciding about the requests of others, for users who may grant them."""

from collections.abc import Callable

from django import forms
from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.access_requests.models import AccessRequest, RequestState
from accounts.access_requests.querysets import AccessRequestQuerySet
from accounts.models import User
from gateway_project.access_requests import services
from gateway_project.access_requests.forms import DecisionForm, apply_decision, decision_context
from gateway_project.access_requests.permissions import decidable_requests
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import GatewayError
from gateway_project.me.request_forms import FORMS, AskForm
from gateway_project.me.site import actor, caller, featured_caller, page, show_page

PAGE_ROWS = 25
LABELS = {RequestState.OPEN: "info", RequestState.GRANTED: "success", RequestState.REFUSED: "warning"}


@page
def overview(request: HttpRequest) -> HttpResponse:
    """The user's own requests, and those that they may decide about."""
    own = AccessRequest.objects.of(caller(request).user).shown().order_by("-id")
    own_page = Paginator(own, PAGE_ROWS).get_page(request.GET.get("own"))
    decidable = decidable_requests(featured_caller(request))
    context = {
        "own_page": own_page,
        "own_rows": [(row, LABELS.get(RequestState(row.state), "default")) for row in own_page],
        "kinds": [(kind, form.title) for kind, form in FORMS.items()],
        "decides": decidable.exists(),
        "decide_url": "me:access-decide",
        **decision_context(decidable, request.GET),
    }
    return show_page(request, "access", "Access", context)


@page
def ask(request: HttpRequest, kind: str) -> HttpResponse:
    """A form for a new request."""
    if kind not in FORMS:
        raise Http404
    form = FORMS[kind](request.POST or None, initial=_initial(request))
    if request.method == "POST" and form.is_valid() and _is_stored(request, form, kind):
        return HttpResponseRedirect(reverse("me:access"))
    return show_page(
        request,
        "key_form",
        form.title,
        {"form": form, "back": reverse("me:access"), "action": "Ask", "current": "me:access"},
    )


def _initial(request: HttpRequest) -> dict[str, str]:
    """What the page that led here named: the model that was refused, or the kind of the limit that is used up."""
    return {name: request.GET[name] for name in ("model", "measure", "window") if name in request.GET}


def _is_stored(request: HttpRequest, form: AskForm, kind: str) -> bool:
    """Store the request; what is wrong with it goes to the form."""
    user = caller(request).user
    assert isinstance(user, User)
    try:
        services.ask_for_access(user=user, kind=kind, actor=actor(request), **form.values())
    except GatewayError as error:
        _add_error(form, error)
        return False
    return True


def _add_error(form: forms.Form, error: GatewayError) -> None:
    for problem in error.problems:
        name = problem.field.removesuffix("Id")
        form.add_error(name if name in form.fields else None, problem.detail if name in form.fields else error.sentence)


@page
@require_POST
def withdraw(request: HttpRequest, request_id: int) -> HttpResponse:
    """Take one of the own requests back."""
    row = _row_or_404(AccessRequest.objects.of(caller(request).user), request_id)
    return _change_request(lambda: services.withdraw_request(row, actor=actor(request)))


@page
@require_POST
def decide_request(request: HttpRequest, request_id: int) -> HttpResponse:
    """Grant, refuse or end what somebody else has asked for."""
    decider = featured_caller(request)
    row = _row_or_404(decidable_requests(decider), request_id)
    return _change_request(lambda: apply_decision(row, DecisionForm(request.POST), actor(request, decider)))


def _change_request(change: Callable[[], object]) -> HttpResponse:
    with races_as_conflicts(), transaction.atomic():
        change()
    return HttpResponseRedirect(reverse("me:access"))


def _row_or_404(requests: AccessRequestQuerySet[AccessRequest], request_id: int) -> AccessRequest:
    row = requests.shown().filter(pk=request_id).first()
    if row is None:
        raise Http404
    return row
