"""Roles and features in the console."""

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from accounts import services, viewsets
from accounts.builtin import ADMIN_ROLE, ROLES
from accounts.models import Feature, Role
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.tables import ServiceAdmin
from gateway_project.json_types import JsonObject


class FeatureChoices(forms.ModelMultipleChoiceField):
    """Features to choose from, each with its risk."""

    def label_from_instance(self, feature: Feature) -> str:
        return feature.label


class RoleForm(ServiceForm):
    features = FeatureChoices(
        queryset=Feature.objects.all(),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="What users with this role may do.",
    )

    class Meta:
        model = Role
        fields = ["name", "features", "requires_second_factor"]
        help_texts = {
            "requires_second_factor": "Users with this role need a second factor to log in with their password. "
            "Whoever has none sets one up at the next login.",
        }


@admin.register(Role)
class RoleAdmin(ServiceAdmin):
    """Sets of features to give to users."""

    viewset = viewsets.RoleViewSet
    form = RoleForm
    empty_message = "There are no roles."
    list_display = ["name", "feature_names", "needs_second_factor"]
    search_fields = ["name"]
    ordering = ["id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Role]:
        return super().get_queryset(request).prefetch_related("features")

    def get_readonly_fields(self, request: HttpRequest, obj: Role | None = None) -> list[str]:
        built_in = ["name"] if obj and obj.name in ROLES else []
        return [*built_in, "feature_names"] if obj and obj.name == ADMIN_ROLE else built_in

    def get_fields(self, request: HttpRequest, obj: Role | None = None) -> list[str]:
        has_all = obj is not None and obj.name == ADMIN_ROLE  # the role admin keeps every feature
        return ["name", "feature_names" if has_all else "features", "requires_second_factor"]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # the API has no such operation either

    @display(description="Features")
    def feature_names(self, row: Role) -> str:
        return ", ".join(feature.name for feature in row.granted)

    @display(description="Requires a second factor", boolean=True, ordering="requires_second_factor")
    def needs_second_factor(self, row: Role) -> bool:
        return row.requires_second_factor

    def create(self, request: HttpRequest, values: JsonObject) -> Role:
        return services.create_role(
            name=values["name"],
            feature_ids=_ids(values["features"]),
            requires_second_factor=values["requires_second_factor"],
        )

    def change(self, request: HttpRequest, row: Role, values: JsonObject) -> None:
        features = _ids(values["features"]) if "features" in values else None
        services.update_role(
            row,
            name=values.get("name"),
            feature_ids=features,
            requires_second_factor=values.get("requires_second_factor"),
        )


class FeatureForm(ServiceForm):
    class Meta:
        model = Feature
        fields = ["name"]


@admin.register(Feature)
class FeatureAdmin(ServiceAdmin):
    """Things that can be allowed."""

    viewset = viewsets.FeatureViewSet
    form = FeatureForm
    empty_message = "There are no features."
    list_display = ["name", "risk"]
    search_fields = ["name"]
    ordering = ["id"]

    def get_fields(self, request: HttpRequest, obj: Feature | None = None) -> list[str]:
        return ["name"] if obj is None else ["name", "risk"]

    @display(description="What it allows, and its risk")
    def risk(self, row: Feature) -> str:
        return row.risk

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return obj is None

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def create(self, request: HttpRequest, values: JsonObject) -> Feature:
        return services.create_feature(name=values["name"])


def _ids(rows: QuerySet) -> list[int]:
    return [row.pk for row in rows]
