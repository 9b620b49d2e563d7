"""Empties the database after a test that commits.

Django's flush truncates forty tables and then does again what follows every migrate: PostgreSQL takes a third of a
second for it. Here rows are deleted where there are any, and only those that have to be there are written again.
"""

from functools import cache

from django.db import connection, transaction
from django.test import TransactionTestCase

from accounts.builtin import write_builtin
from providers.builtin import write_formats

# Rows of these say what the code consists of.
KEPT = {"django_content_type", "auth_permission"}


def empty_quickly() -> None:
    """From now on tests of this process leave their database that way."""
    TransactionTestCase._fixture_teardown = lambda test: empty()


def empty() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        filled = " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM \"{table}\")" for table in tables())
        cursor.execute(filled)
        for (table,) in cursor.fetchall():
            cursor.execute(f'DELETE FROM "{table}"')
    write_builtin(connection.alias)
    write_formats(connection.alias)


@cache
def tables() -> tuple[str, ...]:
    """All tables of the application, whose foreign keys are checked when a transaction ends."""
    return tuple(sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT))
