"""API keys in the console: to issue, show once, lock, expire and rotate them."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import cast
from weakref import WeakKeyDictionary

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.options import ModelAdmin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.text import smart_split, unescape_string_literal
from unfold.decorators import display

from gateway_project.change_feed.cuts import Credential
from gateway_project.console.audit import caller
from gateway_project.console.bulk_actions import bulk_action
from gateway_project.console.display.badges import Badge
from gateway_project.console.display.money import NOT_COUNTED
from gateway_project.console.display.times import MINUTES, utc_time
from gateway_project.console.filters import text_filter
from gateway_project.console.links import link_column
from gateway_project.console.row_actions import row_action, row_link
from gateway_project.console.tabs import Tab, log_tab, usage_tab
from gateway_project.hooks import Hook
from gateway_project.json_types import JsonObject
from gateway_project.revocation.console import RevocableAdmin
from keys import services
from keys.forms import LIMIT, RESTRICTIONS, ExtensionForm, KeyForm, RotationForm
from keys.models import ApiKey
from keys.own_limits import set_own_limits
from keys.querysets import ApiKeyQuerySet
from keys.secrets import without_secrets
from keys.snippets import sample_request
from keys.states import BADGES, SOON, KeyState
from keys.viewsets import KeyViewSet
from providers.models import Model

EXPIRING = ("expiring", f"Expiring within {SOON.days} days")
MAX_MATCHES = 1000  # of a search, which are listed by their ids
# The costs of the last 30 days by the ids of keys, as texts.
read_costs_of_keys: Hook[[Sequence[int]], dict[int, str] | None] = Hook("read_costs_of_keys")
# The keys just issued, for the page that follows.
_issued_keys: WeakKeyDictionary[HttpRequest, services.IssuedKey] = WeakKeyDictionary()


def _words(text: str) -> Iterator[str]:
    """The words of a search; quotation marks keep words together, as in the searches of Django's admin."""
    for word in smart_split(text):
        is_quoted = word[0] in "\"'" and word[0] == word[-1]
        yield unescape_string_literal(word) if is_quoted else word


class StateFilter(admin.SimpleListFilter):
    """Keys in one state."""

    title, parameter_name = "state", "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(state.value, badge.text) for state, badge in BADGES.items()] + [EXPIRING]

    def queryset(self, request: HttpRequest, keys: QuerySet) -> QuerySet:
        state = self.value()
        if state == EXPIRING[0]:
            return cast("ApiKeyQuerySet[ApiKey]", keys).expiring()
        return keys.filter(key_state=state) if state in set(KeyState) else keys


@admin.register(ApiKey)
class KeyAdmin(RevocableAdmin[ApiKey]):
    """Credentials for work."""

    viewset = KeyViewSet
    form = KeyForm
    empty_message = "There are no API keys. Without keys only logged-in users can send requests."
    list_display = [
        "name",
        "public_id",
        link_column("owner"),
        link_column("provider"),
        "state",
        "expires",
        "costs",
        "last_used",
    ]
    list_filter = [
        StateFilter,
        text_filter("owner", "owner", "owner__name_key"),
        text_filter("provider", "provider", "provider__name"),
    ]
    search_fields = ["name"]  # get_search_results() looks at more
    autocomplete_fields = ["owner", "provider"]
    ordering = ["-id"]
    actions = ["lock_selected", "expire_selected", "extend_selected", "delete_selected"]
    actions_detail = ["lock", "unlock", "expire", "rotate", "explain"]

    def get_queryset(self, request: HttpRequest) -> ApiKeyQuerySet[ApiKey]:
        return ApiKey.objects.shown().with_state().order_by(*self.get_ordering(request))

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """The list, with the costs of all keys of the page read at once."""
        changelist = super().get_changelist_instance(request)
        keys = list(changelist.result_list)
        costs = read_costs_of_keys([key.pk for key in keys])
        for key in keys:
            key.recent_costs = NOT_COUNTED if costs is None else costs.get(key.pk, "")
        changelist.result_list = keys
        return changelist

    def get_search_results(
        self, request: HttpRequest, rows: QuerySet[ApiKey], text: str
    ) -> tuple[QuerySet[ApiKey], bool]:
        """The keys with all words of the text; few ones are found once, not for the count and again for the page."""
        keys, _ = super().get_search_results(request, rows, "")
        words = list(_words(text))
        if not words:
            return keys, False
        matches = reduce(ApiKeyQuerySet.containing, words, ApiKey.objects.all())
        ids = list(matches.order_by().values_list("pk", flat=True)[: MAX_MATCHES + 1])
        if len(ids) <= MAX_MATCHES:
            return keys.filter(pk__in=ids), False
        return reduce(ApiKeyQuerySet.containing, words, cast("ApiKeyQuerySet[ApiKey]", keys)), False

    def changelist_view(self, request: HttpRequest, extra_context: JsonObject | None = None) -> HttpResponse:
        """The list. A search for a whole key is redirected to one for its public id, which addresses may contain."""
        text = request.GET.get("q", "")
        if (searched := without_secrets(text)) == text:
            return super().changelist_view(request, extra_context)
        query = request.GET.copy()
        query["q"] = searched
        return HttpResponseRedirect(f"?{query.urlencode()}")

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> list:
        if obj is None:
            never = [] if settings.GATEWAY_KEY_MAX_DAYS else ["never_expires"]
            first = (None, {"fields": ["name", "owner", "permissions", "expiry", *never, "provider"]})
            return [first, ("Limit", {"fields": LIMIT}), ("Restrictions", {"fields": RESTRICTIONS})]
        return [
            (None, {"fields": ["name", "owner", "public_id", "permissions", "provider"]}),
            ("Restrictions", {"fields": RESTRICTIONS}),
            (
                "Lifetime",
                {"fields": ["state", "created_at", "created_by", "expiry", "locked_time", "last_used", "former"]},
            ),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        if obj is None:
            return []
        return ["owner", "public_id", "state", "created_at", "created_by", "locked_time", "last_used", "former"]

    def is_archived(self, row: ApiKey) -> bool:
        return row.is_deleted

    def tabs(self, row: ApiKey) -> list[Tab]:
        return [
            Tab("Owner", "accounts_user_change", {}, row_id=row.owner_id),
            Tab("Limits", "licensing_limit_changelist", {"key": row.public_id}, row.limits.count()),
            usage_tab(key=row.pk),
            log_tab(key_id=row.pk),
        ]

    def selectable(self, rows: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        return rows.filter(is_deleted=False)

    @display(description="State")
    def state(self, row: ApiKey) -> str:
        return row.badge().html

    def badge_of(self, row: ApiKey) -> Badge:
        return row.badge()

    @display(description="Expiry", ordering="expiry")
    def expires(self, row: ApiKey) -> str:
        return utc_time(row.expiry, f"{MINUTES} (UTC)") or "never"

    @display(description="Cost in 30 days")
    def costs(self, row: ApiKey) -> str:
        return row.recent_costs

    @display(description="Previous secret")
    def former(self, row: ApiKey) -> str:
        until = utc_time(row.former_until, f"{MINUTES} (UTC)")
        return format_html("{}, accepted until {}", row.former_public_id, until) if until else ""

    # -- Changes ----------------------------------------------------------------------------------------

    def create(self, request: HttpRequest, values: JsonObject) -> ApiKey:
        options = {name: value for name, value in values.items() if name != "limits"}
        issued = _issued_keys[request] = services.issue_key(created_by=caller(request).user, **options)
        set_own_limits(issued.key, values.get("limits", []), caller(request))
        return issued.key

    def change(self, request: HttpRequest, row: ApiKey, values: JsonObject) -> None:
        if "name" in values:
            values["new_name"] = values.pop("name")
        services.update_key(row, **values)

    def destroy(self, request: HttpRequest, row: ApiKey) -> None:
        services.delete_keys([row])

    def credentials_of(self, row: ApiKey) -> list[Credential]:
        return [Credential("key", row.pk)]

    def deletion_effects(self, row: ApiKey) -> list[str]:
        return ["The key is refused from now on and cannot be restored.", "Its log entries stay."]

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        return self.show(request, _issued_keys[request])

    def show(self, request: HttpRequest, issued: services.IssuedKey) -> HttpResponse:
        """The only page that shows a key; the browser does not store it."""
        page = {"issued": issued, "base_url": settings.GATEWAY_BASE_URL, **_sample_request(issued.key)}
        context = self.admin_site.context(request, "New key", opts=self.opts, **page)
        return TemplateResponse(request, "console/key.html", context, headers={"Cache-Control": "no-store"})

    # -- Actions ----------------------------------------------------------------------------------------

    @row_action(
        "Lock",
        icon="lock",
        path="lock",
        effect="The key is refused until it is unlocked.",
        revokes=True,
        applies_to=lambda key: key.locked_time is None,
    )
    def lock(self, request: HttpRequest, key: ApiKey) -> str:
        self._lock(request, key)
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
        revokes=True,
        applies_to=lambda key: not key.is_expired(),
    )
    def expire(self, request: HttpRequest, key: ApiKey) -> str:
        self._expire(request, key)
        return "The key has expired."

    @row_link("Explain", icon="troubleshoot", path="explain", page="explain", parameter="key")
    def explain(self) -> None:
        """To the explanation of a request with the key."""

    @row_action(
        "Rotate",
        icon="autorenew",
        path="rotate",
        effect="The key gets a new secret and keeps its limits and its history. A previous secret that is still "
        "accepted ends at once.",
        form=RotationForm,
    )
    def rotate(self, request: HttpRequest, key: ApiKey, form: RotationForm) -> HttpResponse:
        with self.recorded_change(request, key, "rotate"):
            issued = services.rotate_key(key, overlap=form.overlap())
        return self.show(request, issued)

    @bulk_action(
        "Lock",
        effect="The keys are refused until they are unlocked.",
        revokes=True,
        applies_to=lambda key: key.locked_time is None,
    )
    def lock_selected(self, request: HttpRequest, key: ApiKey) -> None:
        self._lock(request, key)

    @bulk_action(
        "Expire",
        effect="The keys are refused from now on, permanently.",
        revokes=True,
        applies_to=lambda key: not key.is_expired(),
    )
    def expire_selected(self, request: HttpRequest, key: ApiKey) -> None:
        self._expire(request, key)

    @bulk_action(
        "Extend",
        effect="The last day (UTC) on which the keys are accepted. Keys that expire later, or never, stay as they are.",
        form=ExtensionForm,
        applies_to=lambda key: not key.is_expired(),
        is_done=lambda key, form: key.expiry is None or key.expiry >= form.expiry(),
    )
    def extend_selected(self, request: HttpRequest, key: ApiKey, form: ExtensionForm) -> None:
        with self.recorded_change(request, key, attributes=["expiry"]):
            services.update_key(key, expiry=form.expiry())

    def _lock(self, request: HttpRequest, key: ApiKey) -> None:
        with self.recorded_change(request, key, attributes=["locked"]):
            services.update_key(key, locked=True)
        self.order(request, key.pk, self.credentials_of(key))

    def _expire(self, request: HttpRequest, key: ApiKey) -> None:
        with self.recorded_change(request, key, attributes=["expire"]):
            services.update_key(key, expire=True)
        self.order(request, key.pk, self.credentials_of(key))


def _sample_request(key: ApiKey) -> dict[str, str]:
    """A request for a model of the key's provider, or of any."""
    models = Model.objects.filter(provider__enabled=True, **({"provider": key.provider} if key.provider else {}))
    return sample_request(models.order_by("pk").values_list("name", flat=True).first() or "MODEL")
