"""How the console looks, and what stands in its side bar. No models here: the settings import it."""

from typing import Any

from django.templatetags.static import static
from django.urls import reverse_lazy


def _item(title: str, icon: str, name: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse_lazy(f"admin:{name}")}


def _section(title: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "separator": True, "items": list(items)}


NAVIGATION = [
    {"items": [_item("Overview", "dashboard", "index")]},
    _section(
        "Access",
        _item("Users", "person", "accounts_user_changelist"),
        _item("Groups", "group", "accounts_group_changelist"),
        _item("Roles", "badge", "accounts_role_changelist"),
        _item("Logins", "devices", "accounts_session_changelist"),
        _item("API keys", "key", "keys_apikey_changelist"),
        _item("Rules", "rule", "rules_rule_changelist"),
        _item("Limits", "speed", "licensing_limit_changelist"),
    ),
    _section(
        "Providers",
        _item("Providers", "dns", "providers_provider_changelist"),
        _item("Models", "neurology", "providers_model_changelist"),
        _item("Prices", "payments", "providers_modelprice_changelist"),
    ),
    _section(
        "Traffic",
        _item("Log", "receipt_long", "telemetry_logentry_changelist"),
        _item("Cache", "cached", "telemetry_cacheentry_changelist"),
        _item("Statistics", "bar_chart", "statistics"),
        _item("Playground", "science", "playground"),
    ),
    _section(
        "Operation",
        _item("Licence", "license", "licence"),
        _item("System", "monitor_heart", "system"),
    ),
]

UNFOLD = {
    "SITE_TITLE": "Gateway",
    "SITE_HEADER": "Gateway",
    "SITE_SUBHEADER": "Language models",
    "SITE_URL": None,
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda _: static("gateway/icon.svg")},
    ],
    "STYLES": [lambda _: static("gateway/console.css")],
    "SCRIPTS": [lambda _: static("gateway/console.js")],
    "DASHBOARD_CALLBACK": "gateway_project.overview.fill",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_BACK_BUTTON": True,
    "LOGIN": {"form": "accounts.console.SignIn"},
    "COLORS": {
        "primary": {
            "50": "oklch(97% .014 236)",
            "100": "oklch(95% .026 236)",
            "200": "oklch(90% .058 234)",
            "300": "oklch(83% .105 233)",
            "400": "oklch(75% .145 234)",
            "500": "oklch(62% .15 240)",
            "600": "oklch(53% .145 244)",
            "700": "oklch(46% .125 245)",
            "800": "oklch(40% .105 244)",
            "900": "oklch(35% .085 244)",
            "950": "oklch(27% .065 246)",
        },
    },
    "SIDEBAR": {"show_search": False, "command_search": False, "navigation": NAVIGATION},
}
