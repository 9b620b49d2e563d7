"""The user's own API keys: list, create, rotate, delete."""

from collections.abc import Sequence

from django.conf import settings
from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from accounts.models import User
from gateway_project.api import audit
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.me.forms import KeyForm, add_errors
from gateway_project.me.site import actor, caller, page, show_page
from keys import services
from keys.forms import RotationForm
from keys.models import ApiKey
from keys.snippets import sample_request
from keys.states import KeyState
from keys.viewsets import KeyViewSet

PAGE_ROWS = 25


@page
def key_list(request: HttpRequest) -> HttpResponse:
    """The user's keys, the newest first."""
    return show_page(request, "keys", "API keys", key_page(request, caller(request).user))


def key_page(request: HttpRequest, owner: User) -> JsonObject:
    """A page of the owner's keys, each with its state and whether it can be rotated."""
    keys = ApiKey.objects.live().of(owner).with_state().order_by("-id")
    page = Paginator(keys, PAGE_ROWS).get_page(request.GET.get("page"))
    can_rotate = (KeyState.USABLE, KeyState.NOT_YET_VALID)
    return {"page": page, "rows": [(key, key.badge(), key.state() in can_rotate) for key in page]}


def own_key(request: HttpRequest, key_id: int) -> ApiKey:
    """The user's live key with this id; raises Http404."""
    key = ApiKey.objects.live().of(caller(request).user).filter(pk=key_id).first()
    if key is None:
        raise Http404
    return key


@page
def create(request: HttpRequest) -> HttpResponse:
    """A form for a new key, and the key."""
    user = caller(request).user
    return create_key(request, user, sorted(user.feature_names()), back=reverse("me:keys"))


def create_key(request: HttpRequest, owner: User, features: Sequence[str], *, back: str) -> HttpResponse:
    """The form and the key, for the user or for a service account; `back` is where they are listed."""
    form = KeyForm(request.POST or None, features=features)
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                issued = services.issue_key(owner=owner, created_by=caller(request).user, **form.values())
                audit.record(
                    actor(request), "create", "keys", issued.key.pk, after=KeyViewSet.serialize_row(issued.key)
                )
            return shown_once(request, issued)
        except GatewayError as error:
            add_errors(form, error, {})
    return show_page(request, "key_form", "New API key", {"form": form, "action": "Create", "back": back})


def shown_once(request: HttpRequest, issued: services.IssuedKey) -> HttpResponse:
    """The only page that shows the text of a key."""
    return show_page(
        request, "key", "Your key", {"issued": issued, "base_url": settings.GATEWAY_BASE_URL, **sample_request("MODEL")}
    )


@page
def rotate(request: HttpRequest, key_id: int) -> HttpResponse:
    """Ask how long the present secret lives; then the new one."""
    return rotate_key(request, own_key(request, key_id), back=reverse("me:keys"))


def rotate_key(request: HttpRequest, key: ApiKey, *, back: str) -> HttpResponse:
    """The form, and the new secret."""
    form = RotationForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                before = KeyViewSet.serialize_row(key)
                issued = services.rotate_key(key, overlap=form.overlap())
                after = KeyViewSet.serialize_row(key)
                audit.record(actor(request), "rotate", "keys", key.pk, before=before, after=after)
            return shown_once(request, issued)
        except GatewayError as error:
            add_errors(form, error, {})
    return show_page(request, "key_form", f"Rotate {key.name}", {"form": form, "action": "Rotate", "back": back})


@page
def delete(request: HttpRequest, key_id: int) -> HttpResponse:
    """Ask, then delete the key."""
    return delete_key(request, own_key(request, key_id), back=reverse("me:keys"))


def delete_key(request: HttpRequest, key: ApiKey, *, back: str) -> HttpResponse:
    """The question, and the deletion."""
    if request.method != "POST":
        return show_page(request, "key_delete", f"Delete {key.name}", {"key": key, "back": back})
    with transaction.atomic():
        before = KeyViewSet.serialize_row(key)
        services.delete_keys([key])
        audit.record(actor(request), "destroy", "keys", key.pk, before=before)
    return HttpResponseRedirect(back)
