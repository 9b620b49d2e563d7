"""Where the console shows what an entry of the audit is about."""

from functools import cache

from django.urls import reverse

from gateway_project.console.site import console_site
from gateway_project.console.tables import ServiceAdmin


@cache
def _tables() -> dict[str, str]:
    """The console's tables by the names that resources have in the API and in the audit."""
    tables = {
        admin.viewset.resource_name: f"{model._meta.app_label}_{model._meta.model_name}"
        for model, admin in console_site()._registry.items()
        if isinstance(admin, ServiceAdmin)
    }
    return tables | {"access-requests": "accounts_accessrequest"}


def resource_page(resource: str, row_id: int | None) -> str:
    """The page of a row, which may be gone; '' if the console has none."""
    table = _tables().get(resource)
    return reverse(f"admin:{table}_change", args=[row_id]) if table and row_id is not None else ""
