"""Empties the database after a test that commits.

Django's flush truncates forty tables and then does again what follows every migrate: PostgreSQL takes a third of a
second for it. Here rows are deleted where there are any. Built-in rows stay, unless the test has changed them.
"""

from functools import cache

from django.db import connection, transaction
from django.test import TransactionTestCase

from accounts.builtin import FEATURES, ROLES, write_builtin
from accounts.models import Feature, Role
from providers.builtin import write_formats
from providers.formats import FORMATS
from providers.models import ProviderFormat

# Rows of these say what the code consists of.
KEPT = {"django_content_type", "auth_permission"}
BUILTIN = {model._meta.db_table for model in (Feature, Role, Role.features.through, ProviderFormat)}


def empty_quickly() -> None:
    """From now on tests of this process leave their database that way."""
    TransactionTestCase._fixture_teardown = lambda test: empty()


def empty() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        exceptions = BUILTIN if has_builtin_rows_only() else set()
        cursor.execute(" UNION ALL ".join(is_filled(table) for table in tables() if table not in exceptions))
        for (table,) in cursor.fetchall():
            cursor.execute(f'DELETE FROM "{table}"')
    if not exceptions:
        write_builtin(connection.alias)
        write_formats(connection.alias)


def is_filled(table: str) -> str:
    return f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM \"{table}\")"


def has_builtin_rows_only() -> bool:
    """Whether features, roles and formats are those that migrate writes, in the same order."""
    features = tuple(Feature.objects.order_by("id").values_list("name", flat=True))
    formats = tuple(ProviderFormat.objects.order_by("id").values_list("name", flat=True))
    roles = Role.objects.order_by("id", "features").values_list("name", "requires_second_factor", "features__name")
    return (features, formats, list(roles)) == (FEATURES, tuple(FORMATS), builtin_roles())


def builtin_roles() -> list[tuple[str, bool, str]]:
    """Each built-in role with each of its features, in the order of the features."""
    return [(role, False, feature) for role in ROLES for feature in FEATURES if feature in ROLES[role]]


@cache
def tables() -> tuple[str, ...]:
    """All tables of the application, whose foreign keys are checked when a transaction ends."""
    return tuple(sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT))
