"""What changes of providers, credentials and models refuse alike."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import ProtectedError
from django.db.models.options import Options

from gateway_project.json_types import JsonObject


def describe_references(error: ProtectedError) -> str:
    """How many rows of each kind refer to what cannot be deleted."""
    counts = Counter(row._meta for row in error.protected_objects)
    return ", ".join(
        _count_with_noun(number, meta) for meta, number in sorted(counts.items(), key=lambda one: str(one[0]))
    )


def _count_with_noun(number: int, meta: Options) -> str:
    return f"{number} {meta.verbose_name if number == 1 else meta.verbose_name_plural}"


def refuse_unknown(options: JsonObject, allowed: Iterable[str]) -> None:
    if unknown := options.keys() - allowed:
        raise TypeError(f"There is no option {', '.join(sorted(unknown))}.")
