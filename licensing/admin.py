"""Limits in the console, and the page of the licence: its terms, its usage, and a form for a new key."""

import time
from functools import partial

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst
from unfold.decorators import display
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

import licensing.console.limit_links  # noqa: F401 - its page
from accounts.models import User
from gateway_project.console.audit import record_change
from gateway_project.console.display.badges import Badge
from gateway_project.console.filters import text_filter
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import link_to
from gateway_project.console.site import console_site
from gateway_project.console.tables import ServiceAdmin
from gateway_project.env import WITHOUT_WINDOW
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from licensing import services
from licensing.console.defaults import default_limits
from licensing.fullness import fullness, unpriced_link
from licensing.models import SUBJECTS, Limit, LimitStatus, Measure, Unpriced, UnpricedWork, Window
from licensing.serializers import status_document
from licensing.signing import MAX_SENT_LENGTH
from licensing.status import limit_statuses, read_unpriced
from licensing.viewsets import LimitViewSet, install_key, without_usage
from providers.console.currency import current_currencies, note_of

DAYS = 30
OPTIONS = ["is_strict", "unpriced", "unpriced_price"]
IS_FIXED = "typeof measure === 'undefined'"  # in the form of a limit that exists: its measure is no field there
SUBJECT_CHOICES = [(name, "An API key" if name == "key" else f"A {name}") for name in SUBJECTS]
NAME_LOOKUPS = {
    "key": "key__public_id",
    "user": "user__name_key",
    "group": "group__name",
    "provider": "provider__name",
}  # by the parameter of the list's filter
WINDOW_CHOICES = [choice for choice in Window.choices if choice[0] != Window.NONE]


class LimitForm(ServiceForm):
    """The subject of a limit is chosen in two fields: its kind, and which one."""

    subject = forms.ChoiceField(choices=SUBJECT_CHOICES, widget=UnfoldAdminSelectWidget, label="For")
    # Not `window`: the theme's conditions know every field by its name, and that is the browser's own.
    time_window = forms.ChoiceField(
        choices=WINDOW_CHOICES, widget=UnfoldAdminSelectWidget, label="Window", help_text="Calendar windows, in UTC."
    )

    class Meta:
        model = Limit
        fields = [*SUBJECTS, "measure", "amount", "is_strict", "unpriced", "unpriced_price"]
        help_texts = {
            "amount": "0: unlimited, even if the default setting has a limit.",
            "group": "The members share the limit.",
        }

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        for name, rows in (("key", ApiKey.objects.live()), ("user", User.objects.live())):
            field = self.fields.get(name)
            if isinstance(field, forms.ModelChoiceField):
                field.queryset = rows
        self._name_the_currency()

    def _name_the_currency(self) -> None:
        """Say that amounts of cost, and a price, are in the currency of the prices."""
        is_new = self.instance.pk is None
        if not (is_new or self.instance.measure == Measure.COST):
            return
        currency = "" if is_new else self.instance.currency
        note = f"In {currency}." if currency.isalpha() else note_of(current_currencies())
        self.fields["amount"].help_text = f"{note} {self.fields['amount'].help_text}".lstrip()

    def clean(self) -> JsonObject:
        values = self.cleaned_data
        name = values.get("subject")
        if name and name not in self.errors and values.get(name) is None:
            self.add_error(name, f"Choose a {name}.")
        return values


class SubjectFilter(admin.SimpleListFilter):
    """Limits of keys, of users, of groups or of providers."""

    title, parameter_name = "for", "for"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return SUBJECT_CHOICES

    def queryset(self, request: HttpRequest, limits: QuerySet[Limit]) -> QuerySet[Limit]:
        return limits.filter(**{f"{self.value()}__isnull": False}) if self.value() in SUBJECTS else limits


class LimitList(ChangeList):
    """Fetches the status of all limits of a page at once, and what they do not count."""

    result_list: list[Limit]

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        for limit, status in zip(self.result_list, limit_statuses(self.result_list), strict=True):
            limit.status = status
        for limit, work in zip(self.result_list, read_unpriced(self.result_list), strict=True):
            limit.unpriced_work = work


@admin.register(Limit)
class LimitAdmin(ServiceAdmin):
    """The amounts that keys, users, groups and providers may use."""

    viewset = LimitViewSet
    form = LimitForm
    empty_message = "There are no limits except the defaults, which are listed on the page System."
    list_display = ["limit", "kind", "subject_name", "state"]
    list_filter = [
        SubjectFilter,
        "measure",
        "window",
        *(text_filter("key id" if name == "key" else name, name, lookup) for name, lookup in NAME_LOOKUPS.items()),
    ]
    list_before_template = "console/default_limits.html"
    search_fields = [
        "key__name", "key__public_id", "user__name_key", "group__name", "provider__name",
    ]  # fmt: skip
    autocomplete_fields = list(SUBJECTS)
    ordering = ["id"]
    conditional_fields = {
        **{name: f"subject == '{name}'" for name in SUBJECTS},
        "time_window": f"measure != '{Measure.CONCURRENT}'",
        "is_strict": f"{IS_FIXED} || measure == '{Measure.TOKENS}' || measure == '{Measure.COST}'",
        "unpriced": f"{IS_FIXED} || measure == '{Measure.COST}'",
        "unpriced_price": f"({IS_FIXED} || measure == '{Measure.COST}') && unpriced == '{Unpriced.COUNT}'",
    }

    def get_queryset(self, request: HttpRequest) -> QuerySet[Limit]:
        return super().get_queryset(request).shown()

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
        return LimitList

    def changelist_view(self, request: HttpRequest, extra_context: JsonObject | None = None) -> HttpResponse:
        context = {**(extra_context or {}), "default_limits": _default_limits(request)}
        return super().changelist_view(request, context)

    def get_fieldsets(self, request: HttpRequest, obj: Limit | None = None) -> list:
        if obj is None:
            return [
                ("Who", {"fields": ["subject", *SUBJECTS]}),
                ("What", {"fields": ["measure", "time_window", "amount", *OPTIONS]}),
            ]
        return [
            (None, {"fields": ["kind", "subject_name", "measure", "window", "amount", *_options_of(obj)]}),
            ("Now", {"fields": ["used", *(["not_counted"] if obj.measure == Measure.COST else [])]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Limit | None = None) -> list[str]:
        """Only the amount can be changed."""
        return ["kind", "subject_name", "measure", "window", "used", "not_counted"] if obj else []

    @display(description="Limit", ordering="measure")
    def limit(self, row: Limit) -> str:
        return str(row)

    @display(description="For")
    def kind(self, row: Limit) -> str:
        return dict(SUBJECT_CHOICES)[row.subject_kind]

    @display(description="Name")
    def subject_name(self, row: Limit) -> str:
        return link_to(row.subject)

    @display(description="State")
    def used(self, row: Limit) -> str:
        return fullness(row, _status(row)).html

    @display(description="State")
    def state(self, row: Limit) -> str:
        return format_html("<div>{}{}</div>", fullness(row, _status(row)).html, unpriced_link(_unpriced_models(row)))

    @display(description="Not counted")
    def not_counted(self, row: Limit) -> str:
        """The work without a price, with where the price is set."""
        return unpriced_link(_unpriced_models(row)) or "nothing"

    def badge_of(self, row: Limit) -> Badge:
        return fullness(row, _status(row)).badge

    # -- Changes ----------------------------------------------------------------------------------------

    def serialize_stored(self, row: Limit) -> JsonObject | None:
        return without_usage(super().serialize_stored(row))

    def create(self, request: HttpRequest, values: JsonObject) -> Limit:
        subject, measure = values["subject"], values["measure"]
        window = "" if measure in WITHOUT_WINDOW else values["time_window"]
        return services.set_limit(
            measure=measure,
            window=window,
            amount=values["amount"],
            **{name: values[name] for name in (subject, *OPTIONS)},
        )

    def change(self, request: HttpRequest, row: Limit, values: JsonObject) -> None:
        services.change_limit(row, **values)

    def destroy(self, request: HttpRequest, row: Limit) -> None:
        services.delete_limit(row)

    def deletion_effects(self, row: Limit) -> list[str]:
        return [f"The limit of {row.subject} is deleted. From then on the default limit applies."]


def _default_limits(request: HttpRequest) -> str:
    """The defaults of the subject that the list is filtered by; '' without one."""
    for name, lookup in NAME_LOOKUPS.items():
        if value := request.GET.get(name, "").replace("\0", ""):  # PostgreSQL refuses it
            own = Limit.objects.filter(**{lookup: value}).values_list("measure", "window")
            return default_limits(name, list(own))
    return ""


def _options_of(limit: Limit) -> list[str]:
    """The options that mean something for this measure."""
    if limit.measure == Measure.COST:
        return OPTIONS
    return OPTIONS[:1] if limit.measure == Measure.TOKENS else []


def _status(limit: Limit) -> LimitStatus:
    """The status of a limit; lists have fetched it already."""
    if not hasattr(limit, "status"):
        limit.status = limit_statuses([limit])[0]
    return limit.status


def _unpriced_models(limit: Limit) -> UnpricedWork | None:
    """What a limit does not count; lists have fetched it already."""
    if not hasattr(limit, "unpriced_work"):
        limit.unpriced_work = read_unpriced([limit])[0]
    return limit.unpriced_work


class LicenceForm(forms.Form):
    """A licence key from the vendor."""

    key = forms.CharField(
        label="Licence key",
        max_length=MAX_SENT_LENGTH,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 5}),
        help_text="The licence is checked first. An invalid licence changes nothing.",
    )


@console_site().page("licence/", name="licence")
def licence(request: HttpRequest) -> HttpResponse:
    """The current licence, the uses of the last month, and a form for a new key."""
    form = LicenceForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and _install(request, form):
        return HttpResponseRedirect(reverse("admin:licence"))
    now, terms = time.time(), services.current_terms()
    statistics = services.statistics(DAYS)
    most = max((day["peakUse"] for day in statistics["peakDailyUses"]), default=0)
    context = console_site().context(
        request, "Licence", form=form, terms=status_document(terms, now), sentence=terms.sentence(now),
        problem=terms.problem(now), warning=terms.warning(now), statistics=statistics, most=most or 1,
    )  # fmt: skip
    return TemplateResponse(request, "console/licence.html", context)


def _install(request: HttpRequest, form: LicenceForm) -> bool:
    record = partial(record_change, request, "create", "licence", None, attributes=["licenceKey"])
    try:
        message = install_key(form.cleaned_data["key"], record, installed_by_id=request.user.pk)
    except GatewayError as error:
        form.add_error("key", capfirst(error.message))
        return False
    messages.success(request, message)
    return True
