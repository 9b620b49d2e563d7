"""The console's theme. The settings import it, and so does gunicorn's master: no other imports here."""

SIDEBAR = "gateway_project.console.sidebar"
UNFOLD = {
    "SITE_TITLE": "Gateway",
    "SITE_HEADER": "Gateway",
    "SITE_SUBHEADER": "Language models",
    "SITE_URL": None,
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": f"{SIDEBAR}.icon"},
    ],
    "STYLES": [f"{SIDEBAR}.style"],
    "SCRIPTS": [f"{SIDEBAR}.script", f"{SIDEBAR}.times_script", f"{SIDEBAR}.copy_script", f"{SIDEBAR}.search_script"],
    "DASHBOARD_CALLBACK": "gateway_project.console.dashboard.page.fill",
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
    "SIDEBAR": {"show_search": False, "command_search": False, "navigation": f"{SIDEBAR}.navigation"},
}
