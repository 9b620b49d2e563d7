"""Access rules in the console, in the order in which they are judged, with the models that each allows or denies."""

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ORDER_VAR
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from unfold.contrib.filters.admin import TextFilter
from unfold.decorators import display
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from gateway_project.console.filters import text_filter
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import link, link_column, link_to
from gateway_project.console.row_actions import row_action
from gateway_project.console.site import console_site
from gateway_project.console.tables import ServiceAdmin
from gateway_project.database.ids import id_in
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from rules import services
from rules.linter import RuleProblem
from rules.matching import DEFAULT_POSITION
from rules.models import Effect, Everyone, Rule
from rules.order.console import add_moves, move_address
from rules.patterns import compile_pattern
from rules.preview import preview, warnings_of
from rules.querysets import ORDER_OF_JUDGING, RuleQuerySet
from rules.snapshots import rules_matching
from rules.viewsets import RuleViewSet

AUDIENCES = [("user", "One user"), ("group", "The members of a group"), ("everyone", "Everyone")]
NOBODY = ("nobody", "Nobody")
PLAIN = ("name", "description", "enabled", "effect", "position", "regex")
PREVIEW = "_preview"  # the button of browsers without scripts
EFFECTIVE_WITHIN = "The change takes effect in every process within a second."


class RuleForm(ServiceForm):
    """A rule; its audience is one field, and the user or group the next."""

    audience = forms.ChoiceField(choices=AUDIENCES, widget=UnfoldAdminSelectWidget, label="For")

    class Meta:
        model = Rule
        fields = ["name", "description", "enabled", "effect", "position", "user", "group", "regex", "provider"]
        help_texts = {
            "regex": "An RE2 pattern for the whole model name: gpt-4.* matches gpt-4o too. Empty matches every model.",
            "effect": "Rules that deny are checked before rules that allow.",
            "provider": "An allow rule allows only this provider; a deny rule leaves only this provider out. Empty: "
            "any provider.",
            "enabled": "Disabled rules are ignored.",
            "position": "The order among rules with the same effect: lower numbers first, then by id.",
        }
        labels = {"regex": "Models"}
        widgets = {
            "effect": UnfoldAdminSelectWidget,
            "regex": UnfoldAdminTextInputWidget,
            "description": UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        }

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.fields["position"].required = False
        audience = self.fields["audience"]
        if isinstance(audience, forms.ChoiceField) and self.instance.pk is not None and self.instance.for_nobody:
            audience.choices = [*AUDIENCES, NOBODY]  # the rule may stay one for nobody

    def initial_of(self, row: Model) -> JsonObject:
        assert isinstance(row, Rule)
        if row.for_nobody:
            return {"audience": "nobody"}
        return {"audience": "everyone" if row.everyone else "group" if row.group_id else "user"}

    def clean_position(self) -> int:
        """The position; one that is left out stays."""
        position = self.cleaned_data.get("position")
        return self.instance.position if position is None else position

    def clean_regex(self) -> str:
        """The pattern; what is wrong with it stands beside it together with what is wrong elsewhere."""
        regex = self.cleaned_data.get("regex") or ""
        try:
            compile_pattern("" if self.is_trial else regex)  # a preview says it in its own words
        except ValidationError as error:
            raise forms.ValidationError(capfirst(error.message)) from None
        return regex

    def clean(self) -> JsonObject:
        values = self.cleaned_data
        audience = values.get("audience")
        if audience in ("user", "group") and values.get(audience) is None:
            self.add_error(audience, f"Choose a {audience}.")
        return values


class PreviewForm(RuleForm):
    """The form of a preview: it stores nothing."""

    is_trial = True


class RuleList(ChangeList):
    """Loads the warnings of all rules of a page at once; `move_address` is "" while another column sorts them."""

    result_list: list[Rule]

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        for rule, warnings in zip(self.result_list, warnings_of(self.result_list), strict=True):
            rule.warnings = warnings
            rule.move_address = "" if ORDER_VAR in self.params else move_address(request)
        add_moves(self.result_list)


class ModelFilter(TextFilter):
    """Rules whose pattern matches a model's name."""

    # Not "matches": a field of this name hides the form's own method, which htmx calls.
    title, parameter_name = "model", "for_model"

    def queryset(self, request: HttpRequest, rules: QuerySet[Rule]) -> QuerySet[Rule]:
        name = self.value()
        return rules.filter(pk__in=rules_matching(rules, name)) if name else rules


class AtProviderFilter(TextFilter):
    """Rules that apply to requests at a provider."""

    title, parameter_name = "applies at provider", "at_provider"

    def queryset(self, request: HttpRequest, rules: RuleQuerySet[Rule]) -> QuerySet[Rule]:
        name = self.value()
        return rules.applying_at(name) if name else rules


@admin.register(Rule)
class RuleAdmin(ServiceAdmin):
    """What work is allowed; rules that deny come first, then the first rule that matches a request applies."""

    viewset = RuleViewSet
    form = RuleForm
    empty_message = "There are no rules. All work requests are denied."
    list_display = ["order", "name", "is_enabled", "effect", "audience", "models", link_column("provider"), "hint"]
    list_display_links = ["name"]
    list_filter = [
        "enabled",
        "effect",
        "provider",
        ModelFilter,
        AtProviderFilter,
        text_filter("user", "user", "user__name_key"),
        text_filter("group", "group", "group__name"),
    ]
    search_fields = ["name", "description", "regex", "user__name_key", "group__name"]
    autocomplete_fields = ["user", "group", "provider"]
    ordering = [*ORDER_OF_JUDGING]
    fieldsets = [
        (None, {"fields": ["name", "description", "effect", "enabled", "position"]}),
        ("Who", {"fields": ["audience", "user", "group"]}),
        ("What", {"fields": ["regex", "provider"]}),
    ]
    conditional_fields = {"user": "audience == 'user'", "group": "audience == 'group'"}
    list_before_template = "console/rule_tools.html"
    change_form_after_template = "console/rule_preview.html"
    actions_detail = ["enable", "disable"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Rule]:
        return super().get_queryset(request).shown()

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
        return RuleList

    def get_form(
        self, request: HttpRequest, obj: Rule | None = None, change: bool = False, **options: object
    ) -> type[ServiceForm]:
        form = super().get_form(request, obj, change=change, **options)
        form.is_trial = PREVIEW in request.POST
        return form

    def render_change_form(
        self, request: HttpRequest, context: JsonObject, *args: object, **options: object
    ) -> HttpResponse:
        """The page, with the preview of what was sent, or else of the stored rule; scripts then keep it current."""
        form: RuleForm = context["adminform"].form
        number = form.instance.pk
        rule = drafted_rule(form.cleaned_data, number) if form.is_bound else form.instance if number else None
        context["preview"] = preview(rule) if rule is not None else None
        return super().render_change_form(request, context, *args, **options)

    @display(description="Order", ordering="position")
    def order(self, row: Rule) -> str:
        return render_to_string("console/rule_order.html", {"rule": row})

    @display(description="Enabled", boolean=True, ordering="enabled")
    def is_enabled(self, row: Rule) -> bool:
        return row.enabled

    @display(description="For")
    def audience(self, row: Rule) -> str:
        return "everyone" if row.everyone else link_to(row.user or row.group) or "nobody"

    @display(description="Models")
    def models(self, row: Rule) -> str:
        return row.regex or "every model"

    @display(description="Warning")
    def hint(self, row: Rule) -> str:
        return format_html_join(" ", "{}", ((_format_warning(problem),) for problem in row.warnings))

    # -- Changes ----------------------------------------------------------------------------------------

    def create(self, request: HttpRequest, values: JsonObject) -> Rule:
        return services.create_rule(**_attributes(values))

    def change(self, request: HttpRequest, row: Rule, values: JsonObject) -> None:
        services.update_rule(row, **_attributes(values))

    def store(self, request: HttpRequest, form: ServiceForm) -> Rule:
        # The three fields are one value: a change of one is a change of all.
        if {"audience", "user", "group"} & set(form.changed_data):
            form.changed_data += [name for name in ("audience", "user", "group") if name not in form.changed_data]
        return super().store(request, form)

    def destroy(self, request: HttpRequest, row: Rule) -> None:
        services.delete_rule(row)

    def deletion_effects(self, row: Rule) -> list[str]:
        if row.denies:
            return ["From now on the rules that allow decide about requests that only this rule denied."]
        return ["From now on requests that only this rule allowed are denied."]

    @row_action(
        "Enable",
        icon="toggle_on",
        path="enable",
        effect=f"The rule applies from now on. {EFFECTIVE_WITHIN}",
        applies_to=lambda rule: not rule.enabled,
    )
    def enable(self, request: HttpRequest, rule: Rule) -> str:
        self.switch(request, rule, enabled=True)
        return "The rule is enabled."

    @row_action(
        "Disable",
        icon="toggle_off",
        path="disable",
        effect="From now on the rule is ignored. Requests that only this rule allowed are denied. The other rules "
        f"decide about requests that only this rule denied. {EFFECTIVE_WITHIN}",
        applies_to=lambda rule: rule.enabled,
    )
    def disable(self, request: HttpRequest, rule: Rule) -> str:
        self.switch(request, rule, enabled=False)
        return "The rule is disabled."

    def switch(self, request: HttpRequest, rule: Rule, *, enabled: bool) -> None:
        with self.recorded_change(request, rule, attributes=["enabled"]):
            services.update_rule(rule, enabled=enabled)


def _attributes(values: JsonObject) -> JsonObject:
    """The form's fields as the services name them."""
    attributes = {name: values[name] for name in PLAIN if name in values}
    if "provider" in values:
        attributes["provider_id"] = values["provider"].pk if values["provider"] else None
    if "audience" in values:
        attributes |= {"user_id": None, "group_id": None} | _audience_fields(values)
    return attributes


def _audience_fields(values: JsonObject) -> dict[str, int]:
    kind = values["audience"]
    if kind == "nobody":
        return {}
    return {"user_id": 0} if kind == "everyone" else {f"{kind}_id": values[kind].pk}


@console_site().page("rules/rule/preview/", name="rule-preview", part=True)
def show_preview(request: HttpRequest) -> HttpResponse:
    """What the rule in a form would allow, as a part of its page."""
    form = PreviewForm(request.GET)
    form.full_clean()
    number = request.GET.get("rule", "")
    rule = drafted_rule(form.cleaned_data, id_in(number) or None)
    return TemplateResponse(request, "console/rule_preview_result.html", {"preview": preview(rule)})


def drafted_rule(values: JsonObject, number: int | None) -> Rule:
    """The rule that valid fields of its form describe, not stored; with the id of the one that is edited."""
    kind = values.get("audience")
    return Rule(
        pk=number,
        name=values.get("name", ""),
        enabled=values.get("enabled", False),
        effect=values.get("effect", Effect.ALLOW),
        position=values.get("position", DEFAULT_POSITION),
        regex=values.get("regex", ""),
        provider=values.get("provider"),
        everyone=Everyone.USER if kind == "everyone" else "",
        user=values.get("user") if kind == "user" else None,
        group=values.get("group") if kind == "group" else None,
    )


def _format_warning(problem: RuleProblem) -> SafeString:
    """The sentence, with links to the rules that it names."""
    links = (link(f"Open {rule.name}", reverse("admin:rules_rule_change", args=[rule.id])) for rule in problem.rules)
    return format_html_join(" ", "{}", ((part,) for part in (problem.message, *links)))
