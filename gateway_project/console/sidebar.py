"""The entries of the console's side bar, and the addresses of its icon, style and script."""

from django.http import HttpRequest
from django.templatetags.static import static

from gateway_project.console.display.paths import page_path
from gateway_project.json_types import JsonObject


def navigation(request: HttpRequest) -> list[JsonObject]:
    """The sections of the side bar."""
    return [{**section, "items": [_with_path(item) for item in section["items"]]} for section in NAVIGATION]


def icon(request: HttpRequest) -> str:
    return static("gateway/icon.svg")


def style(request: HttpRequest) -> str:
    return static("gateway/console.css")


def script(request: HttpRequest) -> str:
    return static("gateway/console.js")


def copy_script(request: HttpRequest) -> str:
    return static("gateway/copy.js")


def times_script(request: HttpRequest) -> str:
    return static("gateway/local_times.js")


def search_script(request: HttpRequest) -> str:
    return static("gateway/search.js")


def _with_path(item: JsonObject) -> JsonObject:
    return {**item, "link": page_path(item["page"])}


def _item(title: str, icon: str, page: str) -> JsonObject:
    return {"title": title, "icon": icon, "page": page}


def _section(title: str, *items: JsonObject) -> JsonObject:
    return {"title": title, "separator": True, "items": list(items)}


NAVIGATION = [
    {"items": [_item("Overview", "dashboard", "index"), _item("Search", "search", "find")]},
    _section(
        "Access",
        _item("Users", "person", "accounts_user_changelist"),
        _item("Groups", "group", "accounts_group_changelist"),
        _item("Roles", "badge", "accounts_role_changelist"),
        _item("Sessions", "devices", "accounts_session_changelist"),
        _item("Your second factor", "phonelink_lock", "second-factor"),
        _item("Identity providers", "login", "accounts_identityprovider_changelist"),
        _item("Identities", "fingerprint", "accounts_identity_changelist"),
        _item("API keys", "key", "keys_apikey_changelist"),
        _item("Trusted issuers", "verified_user", "accounts_trustedissuer_changelist"),
        _item("Rules", "rule", "rules_rule_changelist"),
        _item("Access requests", "inbox", "access-requests"),
        _item("Access tests", "fact_check", "rules_accesstest_changelist"),
        _item("Guardrails", "shield", "rules_guardrail_changelist"),
        _item("Limits", "speed", "licensing_limit_changelist"),
    ),
    _section(
        "Providers",
        _item("Providers", "dns", "providers_provider_changelist"),
        _item("Credentials", "vpn_key", "providers_providercredential_changelist"),
        _item("Models", "neurology", "providers_model_changelist"),
        _item("Aliases", "alt_route", "rules_alias_changelist"),
        _item("Prices", "payments", "providers_modelprice_changelist"),
    ),
    _section(
        "Traffic",
        _item("Log", "receipt_long", "telemetry_logentry_changelist"),
        _item("Audit", "history", "telemetry_auditentry_changelist"),
        _item("Cache", "cached", "telemetry_cacheentry_changelist"),
        _item("Statistics", "bar_chart", "statistics"),
        _item("Playground", "science", "playground"),
        _item("Explain", "troubleshoot", "explain"),
        _item("What if", "experiment", "what-if"),
    ),
    _section(
        "Operation",
        _item("Licence", "license", "licence"),
        _item("System", "monitor_heart", "system"),
    ),
]
