"""The licence gate of the management API."""

from gateway_project.api.access import WITHOUT_LICENCE
from gateway_project.hooks import Hook

# Raises LicenceInvalid if the installed licence is expired or invalid.
require_licence: Hook[[], None] = Hook("require_licence")


def require_licence_for(resource: str) -> None:
    """Raise LicenceInvalid if the resource needs a licence and the installed one is expired or invalid."""
    if resource not in WITHOUT_LICENCE:
        require_licence()
