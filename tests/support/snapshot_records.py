"""Records of a snapshot, made without a database."""

import math

from gateway_project.work.snapshot.records import KeySnapshot, ProviderSnapshot
from providers.formats import FORMATS
from providers.transport.transport import TransportLimits


def provider(number, *models, **options):
    values = {"name": f"p{number}", "url": "https://api.example.org/v1", "auth_method": "bearer", "credential": "sk-1"}
    values |= {"format": FORMATS["openai"], "format_name": "openai", "priority": 1, "weight": 1}
    values |= {
        "transport_limits": TransportLimits(1, 1, 1, 1),
        "total_seconds": 1,
        "cache_scope": "global",
        "cache_seconds": 1,
    }
    return ProviderSnapshot(id=number, models=frozenset(models), **values | options)


def key(number):
    return KeySnapshot(number, "k", b"", 1, None, math.inf, False, frozenset())
