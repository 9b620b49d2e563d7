"""The attributes of a valid provider, as the management API takes them."""

import itertools

from providers.models import ProviderFormat

URL = "https://api.example.org/v1"
SECRET = "sk-1234567890"
_numbers = itertools.count()


def format_id(name: str = "openai") -> int:
    return ProviderFormat.objects.get(name=name).pk


def good(**other):
    made = {"name": f"p{next(_numbers)}", "url": URL, "authMethod": "bearer", "apiKey": SECRET, "formatId": format_id()}
    return made | other
