"""How limits stand at this moment."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.conf import settings
from django.utils.module_loading import import_string

from licensing.models import Limit


class Stands(NamedTuple):
    """How much is used, what is reserved included, and when it is whole again; None where nobody knows."""

    used: Decimal | None
    resets_at: datetime | None


def standing_of(limits: Sequence[Limit]) -> list[Stands]:
    """How these limits stand, as those tell who count them (GATEWAY_LIMIT_STANDING)."""
    return import_string(settings.GATEWAY_LIMIT_STANDING)(limits) if limits else []
