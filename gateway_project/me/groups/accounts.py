"""Service accounts of a group, and their keys."""

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts import services
from accounts.managing.accounts import check_account_changes, check_new_account
from accounts.managing.groups import administered_groups
from accounts.models import User
from accounts.viewsets import UserViewSet
from gateway_project.api import audit
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import GatewayError
from gateway_project.me.forms import add_errors
from gateway_project.me.groups.forms import AccountForm
from gateway_project.me.groups.pages import administered_group, ask_to_delete, show_form
from gateway_project.me.keys import create_key, delete_key, key_page, rotate_key
from gateway_project.me.site import actor, caller, featured_caller, page, show_page
from keys.delegation import check_delegation
from keys.models import ApiKey


@page
def create(request: HttpRequest, group_id: int) -> HttpResponse:
    """A form for a new service account of the group."""
    group = administered_group(caller(request), group_id)
    form = AccountForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            account = _create(request, {**form.cleaned_data, "group_id": group.pk})
            return HttpResponseRedirect(_page_of(account))
        except GatewayError as error:
            add_errors(form, error, {"userName": "username"})
    title, back = f"New service account of {group.name}", reverse("me:group-keys", args=[group.pk])
    return show_form(request, title, form, back, action="Create")


def _create(request: HttpRequest, values: dict[str, object]) -> User:
    with races_as_conflicts(), transaction.atomic():
        check_new_account(featured_caller(request), values)
        account = services.create_service_account(**values)  # type: ignore[arg-type]  # the form has checked them
        audit.record(actor(request), "create", "users", account.pk, after=UserViewSet.serialize_row(account))
    return account


@page
def account_page(request: HttpRequest, account_id: int) -> HttpResponse:
    """The account with its keys."""
    account = _account(request, account_id)
    context = {"account": account, "current": "me:groups", **key_page(request, account)}
    return show_page(request, "account_of_group", account.username, context)


@page
@require_POST
def lock(request: HttpRequest, account_id: int) -> HttpResponse:
    """Lock the account, which ends all its keys until it is unlocked; or unlock it."""
    account = _account(request, account_id)
    is_active = request.POST.get("active") == "true"
    with races_as_conflicts(), transaction.atomic():
        before = UserViewSet.serialize_row(account)
        check_account_changes(featured_caller(request), account, {"is_active": is_active})
        services.update_user(account, is_active=is_active)
        after = UserViewSet.serialize_row(account)
        audit.record(actor(request), "update", "users", account.pk, before=before, after=after, attributes=["active"])
    return HttpResponseRedirect(_page_of(account))


@page
def delete(request: HttpRequest, account_id: int) -> HttpResponse:
    """Ask, then delete the account."""
    account = _account(request, account_id)
    if request.method != "POST":
        effect = "From now on all its keys are refused. The account cannot be restored. Its log entries stay."
        return ask_to_delete(request, account.username, effect, _page_of(account))
    group_id = account.owning_group_id
    with races_as_conflicts(), transaction.atomic():
        before = UserViewSet.serialize_row(account)
        check_account_changes(featured_caller(request), account, {})
        services.delete_user(account)
        after = UserViewSet.serialize_row(account)
        audit.record(actor(request), "destroy", "users", account.pk, before=before, after=after)
    return HttpResponseRedirect(reverse("me:group-keys", args=[group_id]))


@page
def new_key(request: HttpRequest, account_id: int) -> HttpResponse:
    """A form for a new key, with permissions that both the account and the user have."""
    account = _account(request, account_id)
    features = sorted(account.feature_names() & caller(request).user.feature_names())
    return create_key(request, account, features, back=_page_of(account))


@page
def rotate(request: HttpRequest, account_id: int, key_id: int) -> HttpResponse:
    """Another secret for a key."""
    key = _key(request, account_id, key_id)
    check_delegation(featured_caller(request), key.owner_id, key.permissions)
    return rotate_key(request, key, back=reverse("me:group-account", args=[account_id]))


@page
def remove_key(request: HttpRequest, account_id: int, key_id: int) -> HttpResponse:
    """Ask, then delete a key."""
    key = _key(request, account_id, key_id)
    return delete_key(request, key, back=reverse("me:group-account", args=[account_id]))


def _account(request: HttpRequest, account_id: int) -> User:
    """The live service account of a group that the user administers; raises Http404."""
    accounts = User.objects.live().service_accounts()
    groups = administered_groups(caller(request))
    account = accounts.filter(owning_group__in=groups, pk=account_id).first()
    if account is None:
        raise Http404
    return account


def _key(request: HttpRequest, account_id: int, key_id: int) -> ApiKey:
    keys = ApiKey.objects.live().of(_account(request, account_id))
    key = keys.filter(pk=key_id).first()
    if key is None:
        raise Http404
    return key


def _page_of(account: User) -> str:
    return reverse("me:group-account", args=[account.pk])
