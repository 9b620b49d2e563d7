"""Empties the database after a test that commits.

Django's flush truncates forty tables and then does again what follows every migrate: PostgreSQL takes a third of a
second for it. Here rows are deleted where there are any, and those that have to be there are written as they were.
"""

from functools import cache
from itertools import chain

from django.apps import apps
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.test import TransactionTestCase

from accounts.builtin import write_builtin
from providers.builtin import write_formats

# Rows of these say what the code consists of.
KEPT = {"django_content_type", "auth_permission"}
# Those of these are written again, a table before those that refer to it.
REWRITTEN = ("accounts.Feature", "accounts.Role", "accounts.Role_features", "providers.ProviderFormat")


def empty_quickly() -> None:
    """From now on tests of this process leave their database that way."""
    TransactionTestCase._fixture_teardown = lambda test: empty()


def empty() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        delete_rows(cursor)
        for statement, values in builtin_rows(connection.settings_dict["NAME"]):
            cursor.execute(statement, values)


def delete_rows(cursor: CursorWrapper) -> None:
    filled = " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM \"{table}\")" for table in tables())
    cursor.execute(filled)
    for (table,) in cursor.fetchall():
        cursor.execute(f'DELETE FROM "{table}"')


@cache
def tables() -> tuple[str, ...]:
    """All tables of the application, whose foreign keys are checked when a transaction ends."""
    return tuple(sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT))


@cache
def builtin_rows(database: str) -> list[tuple[str, list[object]]]:
    """For each table of REWRITTEN the statement that writes its rows, with their values; the tables end empty.

    Each database has its own: its sequences go on after the ids that it has given.
    """
    write_builtin(connection.alias)
    write_formats(connection.alias)
    with connection.cursor() as cursor:
        statements = [_insert(cursor, apps.get_model(name)._meta.db_table) for name in REWRITTEN]
        delete_rows(cursor)
    return statements


def _insert(cursor: CursorWrapper, table: str) -> tuple[str, list[object]]:
    cursor.execute(f'SELECT * FROM "{table}"')
    columns = ", ".join(f'"{column[0]}"' for column in cursor.description)
    rows = cursor.fetchall()
    row = f"({', '.join(['%s'] * len(cursor.description))})"
    return f'INSERT INTO "{table}" ({columns}) VALUES {", ".join([row] * len(rows))}', list(chain.from_iterable(rows))
