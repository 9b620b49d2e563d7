"""How services store rows: errors of validation and of the database become GatewayErrors."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.core.exceptions import ObjectDoesNotExist
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, models, transaction
from django.db.models.lookups import Exact

from gateway_project.errors import Conflict, NotFound, ValidationError

UNIQUENESS_CODES = {"unique", "unique_together"}  # of Django's validation errors
WRITE_RACE = "This row, or a row that it refers to, was changed at the same time. Nothing was saved. Try again."
# Errors of a write that races with another: a row that is gone or taken (which PostgreSQL often reports only at
# COMMIT), a failed serialization and a deadlock.
_RACE_CODES = {
    *("23503", "23505", "40001", "40P01"),  # PostgreSQL's SQLSTATE
    *("SQLITE_CONSTRAINT_FOREIGNKEY", "SQLITE_CONSTRAINT_UNIQUE"),
}

# Errors that say nothing about what was to be stored: the connection, transactions and locks of others, a full disk or
# memory, a stop, a broken disk. PostgreSQL's classes of SQLSTATE, and the beginnings of SQLite's names.
_STATE_CLASSES = {"08", "25", "40", "53", "55", "57", "58"}
_SQLITE_STATES = tuple(
    f"SQLITE_{name}" for name in ("BUSY", "LOCKED", "NOMEM", "READONLY", "IOERR", "FULL", "CANTOPEN", "PROTOCOL")
)


def save_or_refuse(row: models.Model, *, conflict: str) -> None:
    """Validate and store a row.

    Raises ValidationError, or Conflict with the message `conflict` if the only problem is another row, such as one with
    the same name. The error names the field if the unique constraint is about one field.
    """
    try:
        is_saved = _save(row)
    except DjangoValidationError as error:
        problems = _without_uniqueness(error)
        if problems and problems == error.message_dict:
            raise ValidationError.from_fields(problems) from None
        if problems:
            field = collision_of(row).field or "__all__"
            raise ValidationError.from_fields(problems | {field: [*problems.get(field, ()), conflict]}) from None
        is_saved = False
    if not is_saved:
        collision = collision_of(row)
        raise Conflict(conflict, field=collision.field).with_row(collision.row)


def _save(row: models.Model) -> bool:
    """Store a row; False if it raced with another transaction. Raises Django's ValidationError with all that is wrong.

    The database is asked about constraints only after it has refused the row: Django's validation would send three
    statements for each before every write.
    """
    try:
        row.full_clean(validate_unique=False, validate_constraints=False)
        with transaction.atomic():
            row.save()
    except DjangoValidationError:
        row.full_clean()
        raise
    except IntegrityError:
        row.full_clean()
        return False
    return True


class Collision(NamedTuple):
    """The stored row because of which a unique constraint refuses another one, None if there is none.

    `field` is what the constraint is about, '' if that is several fields. References do not count: of a constraint that
    a name is unique within a provider, the field is the name.
    """

    field: str = ""
    row: models.Model | None = None


def collision_of(row: models.Model) -> Collision:
    """The first collision of a row that cannot be stored."""
    columns = row._meta.concrete_fields
    values = {models.F(column.name): models.Value(getattr(row, column.attname), column) for column in columns}
    others = row._meta.model._base_manager.exclude(pk=row.pk)
    for constraint in row._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint):
            parts: list[Any] = [*map(models.F, constraint.fields), *constraint.expressions]
            equal = others.filter(*(Exact(part, part.replace_expressions(values)) for part in parts))
            if other := equal.filter(constraint.condition or models.Q()).first():
                return Collision(_field_of(constraint, row), other)
    return Collision()


def _field_of(constraint: models.UniqueConstraint, row: models.Model) -> str:
    wholes = (one for one in constraint.expressions if isinstance(one, models.Expression))
    parts: Iterator[object] = (part for whole in wholes for part in whole.flatten())
    names = [*constraint.fields, *(part.name for part in parts if isinstance(part, models.F))]
    fields = [field for name in names if not (field := row._meta.get_field(name)).is_relation]
    return getattr(fields[0], "of", fields[0].name) if len(fields) == 1 else ""


def lock_row(row: models.Model, rows: models.QuerySet) -> None:
    """Read a stored row again, out of these rows, and lock it to the end of the transaction; raises NotFound.

    Otherwise a change could undo a concurrent one, and save() would restore a deleted row. Whoever begins to refer to
    the row waits, too, as before a deletion they must; for other changes there is lock_row_for_change().
    """
    _lock(row, rows.select_for_update())


def lock_row_for_change(row: models.Model, rows: models.QuerySet) -> None:
    """As lock_row(), but PostgreSQL lets others refer to the row meanwhile; raises NotFound.

    Otherwise two transactions that each lock a row and insert a reference to the other's row would deadlock.
    """
    _lock(row, rows.select_for_update(no_key=True))


def lock_id(rows: models.QuerySet, row_id: int | None) -> None:
    """Lock a row to the end of the transaction, without reading it: transactions that do the same take turns."""
    list(rows.select_for_update(no_key=True).filter(pk=row_id).values_list("pk"))


def _lock(row: models.Model, locking_rows: models.QuerySet) -> None:
    try:
        row.refresh_from_db(from_queryset=locking_rows)
    except ObjectDoesNotExist:
        raise NotFound(f"This {row._meta.verbose_name} no longer exists.") from None


def is_write_race(error: BaseException) -> bool:
    """Whether the database refused a write because of a concurrent one."""
    cause = error.__cause__
    codes = {getattr(cause, "sqlstate", None), getattr(cause, "sqlite_errorname", None)}
    return isinstance(error, DatabaseError) and not codes.isdisjoint(_RACE_CODES)


def is_state_of_database(error: BaseException) -> bool:
    """Whether a write failed because of the state that the database is in, and not because of what was written."""
    cause = error.__cause__
    if name := getattr(cause, "sqlite_errorname", None):
        return str(name).startswith(_SQLITE_STATES)
    state = getattr(cause, "sqlstate", "")
    is_connection_lost = state is None and isinstance(error, OperationalError | InterfaceError)
    return is_connection_lost or (state or "")[:2] in _STATE_CLASSES


def is_read_only(error: BaseException) -> bool:
    """Whether PostgreSQL refused a write because it is a standby; SQLite raises OperationalError for that."""
    return isinstance(error, DatabaseError) and getattr(error.__cause__, "sqlstate", None) == "25006"


@contextmanager
def races_as_conflicts() -> Iterator[None]:
    """Around a transaction: raises Conflict if one of its writes raced with another transaction's."""
    try:
        yield
    except DatabaseError as error:
        if not is_write_race(error):
            raise
        raise Conflict(WRITE_RACE) from error


def rows_by_id(rows: models.QuerySet, ids: Collection[int], *, field: str) -> list:
    """The rows with these ids; raises ValidationError naming ids that are unknown or of deleted rows."""
    matches = list(rows.filter(pk__in=ids)) if ids else []
    if unknown := set(ids) - {row.pk for row in matches}:
        is_deleted = rows.model._default_manager.filter(pk__in=unknown).exists()
        names = ", ".join(map(str, sorted(unknown)[:10]))
        suffix = " that is not deleted" if is_deleted else ""
        raise ValidationError(f"no {rows.model._meta.verbose_name} with id {names}{suffix}.", field=field)
    return matches


def _without_uniqueness(error: DjangoValidationError) -> dict[str, list[str]]:
    """The messages of each field, but for those that say that another row is in the way."""
    fields = {
        field: [message for one in problems if one.code not in UNIQUENESS_CODES for message in one.messages]
        for field, problems in error.error_dict.items()
    }
    return {field: messages for field, messages in fields.items() if messages}
