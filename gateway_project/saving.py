"""How services store a row: what the row refuses becomes an error of ours, before and at the database."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from django.core.exceptions import ValidationError as FieldsRefused
from django.db import DatabaseError, IntegrityError, models, transaction

from gateway_project.errors import Conflict, NotFound, ValidationError

TAKEN = {"unique", "unique_together"}
CROSSED = "This, or something that it refers to, was changed at the same moment: nothing was written. Try again."
# What a write meets that crosses another one: a row that is gone or taken, as PostgreSQL often says only when all is
# to be committed, and two that wait for each other.
_CROSSED = {
    *("23503", "23505", "40001", "40P01"),  # PostgreSQL's words
    *("SQLITE_CONSTRAINT_FOREIGNKEY", "SQLITE_CONSTRAINT_UNIQUE"),
}


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


def is_crossed(error: BaseException) -> bool:
    """Whether it is the database's refusal of a write that crossed another one."""
    cause = error.__cause__
    words = {getattr(cause, "sqlstate", None), getattr(cause, "sqlite_errorname", None)}
    return isinstance(error, DatabaseError) and not words.isdisjoint(_CROSSED)


def is_read_only(error: BaseException) -> bool:
    """Whether it is PostgreSQL's refusal of any write, as a standby has it; SQLite's is an OperationalError."""
    return isinstance(error, DatabaseError) and getattr(error.__cause__, "sqlstate", None) == "25006"


@contextmanager
def crossing_told() -> Iterator[None]:
    """Around a transaction: raises Conflict where its writes crossed others."""
    try:
        yield
    except DatabaseError as error:
        if not is_crossed(error):
            raise
        raise Conflict(CROSSED) from error


def referred(rows: models.QuerySet, ids: Collection[int], *, field: str) -> list:
    """The rows with these ids; raises ValidationError naming those that there are not, or that are deleted."""
    found = list(rows.filter(pk__in=ids)) if ids else []
    if unknown := set(ids) - {row.pk for row in found}:
        there = rows.model._default_manager.filter(pk__in=unknown).exists()
        named = ", ".join(map(str, sorted(unknown)[:10]))
        raise ValidationError(f"{field}: there is none with the id {named}{' that is not deleted' if there else ''}.")
    return found


def _codes(refused: FieldsRefused) -> Iterator[str | None]:
    for problems in refused.error_dict.values():
        yield from (problem.code for problem in problems)
