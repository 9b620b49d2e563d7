"""The licence gate of the management API; the setting GATEWAY_LICENCE_CHECK names the function that checks."""

from django.conf import settings
from django.utils.module_loading import import_string

from gateway_project.api.access import WITHOUT_LICENCE


def require_for(resource: str) -> None:
    """Raise LicenceInvalid where the resource needs a licence, and the installed one is expired or invalid."""
    if resource not in WITHOUT_LICENCE:
        require()


def require() -> None:
    """Raise LicenceInvalid where the installed licence is expired or invalid."""
    import_string(settings.GATEWAY_LICENCE_CHECK)()
