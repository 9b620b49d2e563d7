"""Every path of the gateway; a trailing slash is optional on each."""

from django.contrib import admin
from django.urls import include, re_path
from django.views.generic import RedirectView

from accounts.login import AuthViewSet
from accounts.scim.views import scim_routes
from accounts.second_factor.viewsets import SecondFactorViewSet
from accounts.sso import views as sign_on
from accounts.sso.viewsets import IdentityProviderViewSet, IdentityViewSet
from accounts.trusted_issuers.viewsets import TrustedIssuerViewSet
from accounts.viewsets import FeatureViewSet, GroupViewSet, MemberViewSet, RoleViewSet, UserViewSet
from gateway_project.access_requests.viewsets import TRANSITIONS, AccessRequestViewSet
from gateway_project.api.openapi import views as openapi
from gateway_project.api.resource_routes import ID, path, resource
from gateway_project.console.loading import load_console
from gateway_project.server.paths import CONSOLE, LOGIN_API, USER_PAGES
from gateway_project.status.monitoring import MONITORING_PATHS
from gateway_project.status.version import VersionViewSet
from gateway_project.work import views
from gateway_project.work.doors import DEPLOYED, DEPLOYMENT, ENDPOINTS, ROOTS, WORK_PATH
from gateway_project.work.explain.recorded.viewsets import EntryExplanationViewSet
from gateway_project.work.openapi import endpoint_operation, models_operation
from gateway_project.work.what_if.viewsets import WhatIfViewSet
from keys.viewsets import KeyViewSet
from licensing.viewsets import LicenceViewSet, LimitViewSet, StatsViewSet
from providers.viewsets import CredentialViewSet, FormatViewSet, ModelViewSet, PriceViewSet, ProviderViewSet
from rules.access_tests.viewsets import AccessTestViewSet
from rules.aliases.viewsets import AliasViewSet
from rules.guardrails.viewsets import GuardrailViewSet
from rules.lint.viewsets import LintViewSet
from rules.versions.viewsets import RuleVersionViewSet
from rules.viewsets import RuleViewSet
from telemetry.audit.viewsets import AuditViewSet
from telemetry.guardrails.viewsets import GuardrailCountsViewSet, GuardrailSampleViewSet
from telemetry.viewsets import CacheViewSet, ComparisonViewSet, LogViewSet, UnpricedViewSet, UsageViewSet

MEMBERS = f"groups/(?P<group_id>{ID})/members"
SIGN_ON = "auth/sso/(?P<slug>[a-z0-9-]{1,50})"

load_console()
urlpatterns = [
    re_path(rf"^{CONSOLE[1:]}/", admin.site.urls),
    re_path(rf"^{CONSOLE[1:]}$", RedirectView.as_view(pattern_name="admin:index"), name="admin"),
    re_path(rf"^{USER_PAGES[1:]}/", include("gateway_project.me.urls")),
    re_path(rf"^{USER_PAGES[1:]}$", RedirectView.as_view(pattern_name="me:overview"), name="me"),
    re_path(rf"^{WORK_PATH[1:]}/?$", views.work, name="work"),
    *[
        re_path(rf"^{path[1:]}/?$", views.DoorView(post=endpoint_operation(endpoint)), name=path[1:])
        for path, endpoint in ENDPOINTS.items()
        if endpoint.door.in_shape
    ],
    *[
        re_path(
            rf"^{DEPLOYMENT[1:]}/{path}/?$",
            views.DoorView(post=endpoint_operation(endpoint, model_in_path=True)),
            name=f"openai/deployments/{path}",
        )
        for path, endpoint in DEPLOYED.items()
    ],
    *[
        re_path(
            rf"^{root[1:]}/models{pattern}/?$",
            views.DoorView(get=models_operation(door, is_single=bool(pattern))),
            name=f"{root[1:]}/models{'/item' if pattern else ''}",
        )
        for root, door in ROOTS.items()
        for pattern in ("", "/(?P<id>.+?)")
    ],
    *[re_path(rf"^{name}/?$", path.view, name=name) for name, path in MONITORING_PATHS.items()],
    re_path(r"^schema/?$", openapi.schema, name="schema"),
    re_path(r"^docs/?$", openapi.docs, name="docs"),
    *scim_routes(),
    path(LOGIN_API[1:], AuthViewSet, {"post": "login"}, name="login"),
    path("auth/logout", AuthViewSet, {"post": "logout"}, name="logout"),
    re_path(rf"^{SIGN_ON}/?\Z", sign_on.start, name="sso"),
    re_path(rf"^{SIGN_ON}/callback/?\Z", sign_on.callback, name="sso-callback"),
    re_path(rf"^{SIGN_ON}/backchannel-logout/?\Z", sign_on.backchannel_logout, name="sso-backchannel-logout"),
    *resource(IdentityProviderViewSet),
    path(
        f"identity-providers/(?P<id>{ID})/fetch",
        IdentityProviderViewSet,
        {"post": "fetch"},
        name="identity-providers-fetch",
    ),
    *resource(IdentityViewSet),
    *resource(UserViewSet),
    path(f"users/(?P<user_id>{ID})/second-factor", SecondFactorViewSet, {"delete": "destroy"}, name="second-factor"),
    *resource(RoleViewSet),
    *resource(FeatureViewSet),
    *resource(GroupViewSet),
    path(MEMBERS, MemberViewSet, {"get": "list", "post": "create"}, name="members"),
    path(f"{MEMBERS}/(?P<id>{ID})", MemberViewSet, {"delete": "destroy"}, name="members-item"),
    *resource(ProviderViewSet),
    *resource(ModelViewSet, prefix=f"providers/(?P<provider_id>{ID})/"),
    *resource(CredentialViewSet, prefix=f"providers/(?P<provider_id>{ID})/"),
    *resource(FormatViewSet),
    *resource(PriceViewSet),
    *resource(KeyViewSet),
    path(f"keys/(?P<id>{ID})/rotate", KeyViewSet, {"post": "rotate"}, name="keys-rotate"),
    *resource(RuleViewSet),
    path("rules/lint", LintViewSet, {"get": "list"}, name="lint"),
    path(f"rules/(?P<rule_id>{ID})/versions", RuleVersionViewSet, {"get": "list"}, name="versions"),
    path(f"rules/(?P<id>{ID})/restore", RuleViewSet, {"post": "restore"}, name="rules-restore"),
    *resource(AccessRequestViewSet),
    *[
        path(
            f"access-requests/(?P<id>{ID})/{name}", AccessRequestViewSet, {"post": name}, name=f"access-requests-{name}"
        )
        for name in TRANSITIONS
    ],
    *resource(AccessTestViewSet),
    path("access-tests/import", AccessTestViewSet, {"post": "import_file"}, name="access-tests-import"),
    *resource(AliasViewSet),
    *resource(GuardrailViewSet),
    path(f"guardrails/(?P<guardrail_id>{ID})/samples", GuardrailSampleViewSet, {"get": "list"}, name="samples"),
    *resource(TrustedIssuerViewSet),
    path(f"trusted-issuers/(?P<id>{ID})/fetch", TrustedIssuerViewSet, {"post": "fetch"}, name="trusted-issuers-fetch"),
    *resource(WhatIfViewSet),
    *resource(LimitViewSet),
    *resource(CacheViewSet),
    *resource(LogViewSet),
    path(f"logs/(?P<id>{ID})/explanation", EntryExplanationViewSet, {"get": "retrieve"}, name="explanation"),
    path(f"logs/(?P<id>{ID})/comparison", ComparisonViewSet, {"get": "retrieve"}, name="comparison"),
    *resource(AuditViewSet),
    *resource(LicenceViewSet, item=False),
    *resource(StatsViewSet, item=False),
    path("stats/usage", UsageViewSet, {"get": "list"}, name="usage"),
    path("stats/unpriced", UnpricedViewSet, {"get": "list"}, name="unpriced"),
    path("stats/guardrails", GuardrailCountsViewSet, {"get": "list"}, name="guardrail-counts"),
    *resource(VersionViewSet, item=False),
]

handler400 = "gateway_project.error_views.bad_request"
handler403 = "gateway_project.error_views.refuse_permission"
handler404 = "gateway_project.error_views.not_found"
handler500 = "gateway_project.error_views.server_error"
