"""How services store a row: what the row refuses becomes an error of ours, before and at the database."""

from collections.abc import Collection, Iterator

from django.core.exceptions import ValidationError as FieldsRefused
from django.db import IntegrityError, models, transaction

from gateway_project.errors import Conflict, NotFound, ValidationError

TAKEN = {"unique", "unique_together"}


def save_or_refuse(row: models.Model, *, taken: str) -> None:
    """Store a new or changed row; raises ValidationError, or Conflict saying `taken` where its name is."""
    try:
        row.full_clean()
    except FieldsRefused as refused:
        if TAKEN.issuperset(_codes(refused)):
            raise Conflict(taken) from None
        raise ValidationError.from_fields(refused.message_dict) from None
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:  # somebody else took the name after the look above
        raise Conflict(taken) from None


def hold(row: models.Model, rows: models.QuerySet) -> None:
    """Read a stored row again out of these rows, and hold it to the end of the transaction; raises NotFound.

    A change must not undo another that is made at the same moment; and save() would bring back what is deleted.
    """
    try:
        row.refresh_from_db(from_queryset=rows.select_for_update())
    except type(row).DoesNotExist:
        raise NotFound(f"This {row._meta.verbose_name} exists no more.") from None


def referred(rows: models.QuerySet, ids: Collection[int], *, field: str) -> list:
    """The rows with these ids; raises ValidationError naming those that there are not."""
    found = list(rows.filter(pk__in=ids)) if ids else []
    if unknown := set(ids) - {row.pk for row in found}:
        raise ValidationError(f"{field}: there is none with the id {', '.join(map(str, sorted(unknown)[:10]))}.")
    return found


def _codes(refused: FieldsRefused) -> Iterator[str | None]:
    for problems in refused.error_dict.values():
        yield from (problem.code for problem in problems)
