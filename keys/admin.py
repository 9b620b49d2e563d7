"""API keys in the console: issued, shown once, locked, expired and rotated."""

import json
import shlex
from collections.abc import Callable
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import display_for_value
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldBooleanSwitchWidget

from accounts.models import Feature, User
from gateway_project.console.row_actions import row_action
from gateway_project.console.tables import ServiceAdmin, ServiceForm
from keys import services
from keys.models import ApiKey
from keys.secrets import without_secrets
from keys.viewsets import KeyViewSet
from providers.models import Model


class KeyForm(ServiceForm):
    """A key's own fields; its permissions are names out of all features, the owner's among them."""

    permissions = forms.MultipleChoiceField(
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        initial=["work"],
        help_text="A subset of the owner's permissions. A key never allows more than its owner may currently do.",
    )

    never_expires = forms.BooleanField(
        required=False,
        label="Never expires",
        widget=UnfoldBooleanSwitchWidget,
        help_text="The key stays valid until it is locked, expired or deleted.",
    )

    class Meta:
        model = ApiKey
        fields = ["name", "owner", "expiry", "provider"]
        help_texts = {
            "provider": "A key linked to a provider uses that provider for every model.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "permissions" in self.fields:
            self.fields["permissions"].choices = [
                (name, name) for name in Feature.objects.values_list("name", flat=True)
            ]
        if "expiry" in self.fields:
            self.fields["expiry"].help_text = _expiry_help()

    def clean(self) -> dict[str, Any]:
        """The expiry that the service takes: none for a key that never expires, and left out for the default."""
        values = self.cleaned_data
        never = values.pop("never_expires", False)
        if never and values.get("expiry"):
            self.add_error("never_expires", "Set an expiry or choose this, not both.")
        elif not never and values.get("expiry", ...) is None:
            del values["expiry"]
        return values


def _expiry_help() -> str:
    days, most = services.default_lifetime().days, settings.GATEWAY_KEY_MAX_DAYS
    bound = f" At most {most} days from now." if most else ""
    return f"In UTC. Empty: {days} days from now.{bound}"


def _live_of_usable_owners(keys: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    return keys.live().filter(owner__in=User.objects.usable())


class StateFilter(admin.SimpleListFilter):
    """Keys of which the list says this."""

    title, parameter_name = "state", "state"
    found: ClassVar[dict[str, Callable[[Any], QuerySet[ApiKey]]]] = {
        "usable": lambda keys: keys.usable(),
        "locked": lambda keys: _live_of_usable_owners(keys).exclude(locked_time=None),
        "expired": lambda keys: _live_of_usable_owners(keys).filter(locked_time=None).expired(),
        "owner inactive": lambda keys: keys.live().filter(owner__is_active=False, owner__is_deleted=False),
        "owner deleted": lambda keys: keys.live().filter(owner__is_deleted=True),
        "deleted": lambda keys: keys.filter(is_deleted=True),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state) for state in self.found]

    def queryset(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        return self.found[self.value()](keys) if self.value() in self.found else keys


@admin.register(ApiKey)
class KeyAdmin(ServiceAdmin):
    """Credentials for work."""

    viewset = KeyViewSet
    form = KeyForm
    empty_message = "There are no API keys. Only logged-in users can send work requests."
    list_display = ["name", "public_id", "owner", "provider", "state", "expires", "last_used"]
    list_filter = [StateFilter]
    search_fields = ["name", "public_id", "former_public_id", "owner__name_key"]
    autocomplete_fields = ["owner", "provider"]
    ordering = ["-id"]
    actions_detail = ["lock", "unlock", "expire", "rotate"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).shown()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Whoever finds a key looks for what was found: here its id is known, which may stand in addresses."""
        text = request.GET.get("q", "")
        if (known := without_secrets(text)) == text:
            return super().changelist_view(request, extra_context)
        query = request.GET.copy()
        query["q"] = known
        return HttpResponseRedirect(f"?{query.urlencode()}")

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> list:
        if obj is None:
            never = [] if settings.GATEWAY_KEY_MAX_DAYS else ["never_expires"]
            return [(None, {"fields": ["name", "owner", "permissions", "expiry", *never, "provider"]})]
        return [
            (None, {"fields": ["name", "owner", "public_id", "permission_names", "provider"]}),
            (
                "Life",
                {"fields": ["state", "created_at", "created_by", "expires", "locked_time", "last_used", "former"]},
            ),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        if obj is None:
            return []
        return [
            "owner", "public_id", "permission_names", "state", "created_at", "created_by", "expires", "locked_time",
            "last_used", "former",
        ]  # fmt: skip

    def is_archived(self, row: ApiKey) -> bool:
        return row.is_deleted

    def selectable(self, rows: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        return rows.live()

    @display(description="Permissions")
    def permission_names(self, row: ApiKey) -> str:
        return ", ".join(row.permissions)

    @display(
        description="State",
        label={
            "usable": "success",
            "locked": "warning",
            "owner inactive": "warning",
            "expired": "info",
            "deleted": "danger",
            "owner deleted": "danger",
        },
    )
    def state(self, row: ApiKey) -> str:
        if row.is_deleted:
            return "deleted"
        if not row.owner.is_usable:
            return "owner deleted" if row.owner.is_deleted else "owner inactive"
        return "locked" if row.locked_time else "expired" if row.is_expired() else "usable"

    @display(description="Expiry", ordering="expiry")
    def expires(self, row: ApiKey) -> str:
        return display_for_value(row.expiry, "never")

    @display(description="Before it was rotated")
    def former(self, row: ApiKey) -> str:
        return f"{row.former_public_id}, until {row.former_until:%Y-%m-%d %H:%M} (UTC)" if row.former_until else ""

    # -- Changes ----------------------------------------------------------------------------------------

    def create(self, request: HttpRequest, values: dict[str, Any]) -> ApiKey:
        request.issued = services.issue_key(created_by=request.user, **values)
        return request.issued.key

    def change(self, request: HttpRequest, row: ApiKey, values: dict[str, Any]) -> None:
        if "name" in values:
            values["new_name"] = values.pop("name")
        services.update_key(row, **values)

    def destroy(self, request: HttpRequest, row: ApiKey) -> None:
        services.delete_keys([row])

    def deletion_effects(self, row: ApiKey) -> list[str]:
        return ["The key is refused from now on and cannot be restored.", "Its log stays."]

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        return self.show(request, request.issued)

    def show(self, request: HttpRequest, issued: services.IssuedKey) -> HttpResponse:
        """The only page that ever shows a key; nothing keeps it, the browser's history included."""
        page = {"issued": issued, "base_url": settings.GATEWAY_BASE_URL, **_sample_request(issued.key)}
        context = self.admin_site.context(request, "The new key", opts=self.opts, **page)
        return TemplateResponse(request, "console/key.html", context, headers={"Cache-Control": "no-store"})

    # -- Actions ----------------------------------------------------------------------------------------

    @row_action(
        "Lock",
        icon="lock",
        path="lock",
        effect="The key is refused until it is unlocked.",
        applies_to=lambda key: key.locked_time is None,
    )
    def lock(self, request: HttpRequest, key: ApiKey) -> str:
        with self.recorded_change(request, key, attributes=["locked"]):
            services.update_key(key, locked=True)
        return "The key is locked."

    @row_action(
        "Unlock",
        icon="lock_open",
        path="unlock",
        effect="The key is accepted again, unless it has expired.",
        applies_to=lambda key: key.locked_time is not None,
    )
    def unlock(self, request: HttpRequest, key: ApiKey) -> str:
        with self.recorded_change(request, key, attributes=["locked"]):
            services.update_key(key, locked=False)
        return "The key is unlocked."

    @row_action(
        "Expire",
        icon="timer_off",
        path="expire",
        effect="The key is refused from now on, permanently.",
        applies_to=lambda key: not key.is_expired(),
    )
    def expire(self, request: HttpRequest, key: ApiKey) -> str:
        with self.recorded_change(request, key, attributes=["expire"]):
            services.update_key(key, expire=True)
        return "The key has expired."

    @row_action(
        "Rotate",
        icon="autorenew",
        path="rotate",
        effect=f"The key gets another secret and keeps its limits and its history; what it is now is accepted for "
        f"{services.OVERLAP.days * 24} hours more. What it was before an earlier rotation ends at once.",
    )
    def rotate(self, request: HttpRequest, key: ApiKey) -> HttpResponse:
        with self.recorded_change(request, key, "rotate"):
            issued = services.rotate_key(key)
        return self.show(request, issued)


def _sample_request(key: ApiKey) -> dict[str, str]:
    """A model that the key's provider, or else any, offers, as Python writes it; and a request for it, for a shell."""
    models = Model.objects.filter(provider__enabled=True, **({"provider": key.provider} if key.provider else {}))
    model = models.order_by("pk").values_list("name", flat=True).first() or "MODEL"
    body = {"model": model, "messages": [{"role": "user", "content": "Hello!"}]}
    return {"model": json.dumps(model, ensure_ascii=False), "body": shlex.quote(json.dumps(body))}
