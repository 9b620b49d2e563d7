"""Every change to providers, their credentials and models, and prices."""

from providers.services.credentials import (
    add_credential,
    change_credential,
    remove_credential,
)
from providers.services.models import (
    add_model,
    change_model,
    is_name_of_alias,
    remove_model,
)
from providers.services.prices import (
    change_price,
    end_price,
    set_price,
)
from providers.services.providers import (
    checked_url,
    create_provider,
    delete_provider,
    name_conflict,
    update_provider,
)

__all__ = [
    "add_credential",
    "add_model",
    "change_credential",
    "change_model",
    "change_price",
    "checked_url",
    "create_provider",
    "delete_provider",
    "end_price",
    "is_name_of_alias",
    "name_conflict",
    "remove_credential",
    "remove_model",
    "set_price",
    "update_provider",
]
