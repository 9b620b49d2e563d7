"""The database's part of the change feed: triggers that record every change of a watched row, from any source.

They are created after every migrate and every flush, not by a migration: SQLite drops a table's triggers when
a migration rebuilds the table, and refuses to alter a table that a trigger refers to.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.apps import apps
from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper

CHANGES = "gateway_project_change"
PREFIX = "gateway_change_"
OPERATIONS = ("insert", "update", "delete")


@dataclass(frozen=True)
class Watch:
    """One table whose changes are recorded, and as what."""

    kind: str
    model: str
    row: str = "id"  # the column whose value is recorded as row_id; "" records 0, "reload all of this kind"
    unless: tuple[str, ...] = ()  # an update of these columns alone is not recorded
    only: tuple[str, ...] = ()  # if given, only updates of these columns are recorded
    inserts: bool = True
    deletes: str = ""  # the SQL condition under which a deleted row {old} is recorded; always if empty


WATCHED = (
    Watch("key", "keys.ApiKey", unless=("last_used",)),
    Watch("user", "accounts.User", unless=("last_login",)),
    Watch("user", "accounts.User_roles", row="user_id"),
    Watch("user", "accounts.Group_members", row="user_id"),
    Watch("role", "accounts.Role"),
    Watch("role", "accounts.Role_features", row="role_id"),
    Watch("role", "accounts.Feature", row=""),
    Watch("group", "accounts.Group"),
    Watch(
        "session",
        "accounts.Session",
        row="",
        only=("ended_at",),
        inserts=False,
        # Deleting sessions that have ended changes nothing for readers.
        deletes="{old}.ended_at IS NULL AND {old}.expires_at > CURRENT_TIMESTAMP",
    ),
    Watch("issuer", "accounts.TrustedIssuer", row="", unless=("fetch_begun_at", "fetched_at", "fetch_problem")),
    Watch("provider", "providers.Provider"),
    Watch("provider", "providers.Model", row="provider_id"),
    Watch("provider", "providers.ProviderCredential", row="provider_id"),
    Watch("price", "providers.ModelPrice", row=""),
    Watch("rule", "rules.Rule"),
    Watch("alias", "rules.Alias", row=""),
    Watch("alias", "rules.AliasTarget", row=""),
    Watch("guardrail", "rules.Guardrail", row=""),
    Watch("limit", "licensing.Limit"),
    Watch("grant", "accounts.AccessRequest", row="", inserts=False, only=("state", "ends_at")),
    Watch("licence", "licensing.Licence", unless=("warned_on",)),
)
KINDS = tuple(dict.fromkeys(watch.kind for watch in WATCHED))


def install(using: str, plan: object = None, **signal: object) -> None:
    """Create or replace the triggers; after migrations and a flush (no plan) record a change of every kind."""
    connection = connections[using]
    with transaction.atomic(using=using), connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        if CHANGES not in tables:
            return
        for statement in _statements(connection.vendor, tables):
            cursor.execute(statement)
        _drop(cursor, connection.vendor, keep=set(_names(connection.vendor, tables)))
        if plan is None and connection.vendor == "sqlite":
            cursor.execute(_ADVANCE_ID, [time.time_ns() // 1000])
        if plan or plan is None:
            insert = f"INSERT INTO {CHANGES} (kind, row_id) VALUES (%s, 0)"
            cursor.executemany(insert, [(k,) for k in KINDS])


def drop_before_migrations(using: str, plan: object = (), **signal: object) -> None:
    """Drop the triggers before migrations on SQLite, which cannot alter a table that a trigger refers to."""
    connection = connections[using]
    if plan and connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            _drop(cursor, connection.vendor, keep=set())


def _drop(cursor: CursorWrapper, vendor: str, *, keep: set[str]) -> None:
    cursor.execute(_FIND[vendor], [f"{PREFIX}%"])
    for name, table in cursor.fetchall():
        if name not in keep:
            cursor.execute(f'DROP TRIGGER "{name}"' + (f" ON {table}" if vendor == "postgresql" else ""))


# A flush restarts ids at 1, before the positions of all readers: advance them to the microseconds since 1970, which
# no reader has reached.
_ADVANCE_ID = (
    f"INSERT INTO {CHANGES} (id, kind, row_id) SELECT max(%s, coalesce(max(id), 0) + 1), '{KINDS[0]}', 0 FROM {CHANGES}"
)
_FIND = {
    "sqlite": "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE %s",
    "postgresql": """
        SELECT tgname, tgrelid::regclass::text FROM pg_trigger
        JOIN pg_class ON pg_class.oid = tgrelid
        WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace AND tgname LIKE %s
    """,
}


def _installable_watches(tables: set[str]) -> Iterator[tuple[Watch, str]]:
    """Each watch with its table, if that exists: an app may be migrated back to zero."""
    for watch in WATCHED:
        table = apps.get_model(watch.model)._meta.db_table
        if table in tables:
            yield watch, table


def _names(vendor: str, tables: set[str]) -> Iterator[str]:
    truncate = ("truncate",) if vendor == "postgresql" else ()
    for watch, table in _installable_watches(tables):
        for operation in (*OPERATIONS, *truncate):
            if watch.inserts or operation != "insert":
                yield f"{PREFIX}{table}_{operation}"


def _statements(vendor: str, tables: set[str]) -> Iterator[str]:
    if vendor == "postgresql":
        # Otherwise replicas that start together fail when they replace the same function.
        yield "SELECT pg_advisory_xact_lock(hashtext('gateway change triggers'))"
    for watch, table in _installable_watches(tables):
        yield from (_postgresql if vendor == "postgresql" else _sqlite)(watch, table)


# -- SQLite: triggers for each row, which must name the columns they compare --------------------------------


def _sqlite(watch: Watch, table: str) -> Iterator[str]:
    old, new = _row(watch, "OLD"), _row(watch, "NEW")
    bodies = {
        "insert": ("", f"VALUES ('{watch.kind}', {new})"),
        "update": (_differs_sql(watch), f"SELECT '{watch.kind}', {old} UNION SELECT '{watch.kind}', {new}"),
        "delete": (watch.deletes.format(old="OLD"), f"VALUES ('{watch.kind}', {old})"),
    }
    for operation, (condition, rows) in bodies.items():
        name = f"{PREFIX}{table}_{operation}"
        yield f'DROP TRIGGER IF EXISTS "{name}"'
        if watch.inserts or operation != "insert":
            yield (
                f'CREATE TRIGGER "{name}" AFTER {operation.upper()} ON "{table}"'
                f"{f' WHEN {condition}' if condition else ''}"
                f" BEGIN INSERT INTO {CHANGES} (kind, row_id) {rows}; END"
            )


def _differs_sql(watch: Watch) -> str:
    fields = apps.get_model(watch.model)._meta.local_concrete_fields
    columns = watch.only or [field.column for field in fields if field.column not in watch.unless]
    return " OR ".join(f'OLD."{column}" IS NOT NEW."{column}"' for column in columns)


def _row(watch: Watch, alias: str) -> str:
    return f'{alias}."{watch.row}"' if watch.row else "0"


# -- PostgreSQL: triggers for each statement, with all its rows, so that a bulk write stays fast ------------


def _postgresql(watch: Watch, table: str) -> Iterator[str]:
    yield _function(watch, table)
    transition_tables = {"insert": "NEW TABLE AS new_rows", "delete": "OLD TABLE AS old_rows", "truncate": ""}
    # A trigger with transition tables may not name columns (UPDATE OF); the function compares them.
    transition_tables["update"] = f"{transition_tables['delete']} {transition_tables['insert']}"
    for operation, rows in transition_tables.items():
        if watch.inserts or operation != "insert":
            # OR REPLACE waits for writers only; DROP would wait for readers too, and all later ones would queue.
            yield (
                f'CREATE OR REPLACE TRIGGER "{PREFIX}{table}_{operation}"'
                f' AFTER {operation.upper()} ON "{table}"'
                f"{f' REFERENCING {rows}' if rows else ''}"
                f' FOR EACH STATEMENT EXECUTE FUNCTION "{PREFIX}{table}"()'
            )


def _function(watch: Watch, table: str) -> str:
    note = f"INSERT INTO {CHANGES} (kind, row_id)"
    condition = watch.deletes.format(old="o") or "TRUE"
    return f"""
        CREATE OR REPLACE FUNCTION "{PREFIX}{table}"() RETURNS trigger LANGUAGE plpgsql
        SET search_path FROM CURRENT AS $$
        BEGIN
            IF TG_OP = 'INSERT' THEN
                {note} SELECT DISTINCT '{watch.kind}', {_row(watch, "n")} FROM new_rows n;
            ELSIF TG_OP = 'DELETE' THEN
                {note} SELECT DISTINCT '{watch.kind}', {_row(watch, "o")} FROM old_rows o WHERE {condition};
            ELSIF TG_OP = 'UPDATE' THEN
                {note} SELECT DISTINCT '{watch.kind}', touched.id
                FROM old_rows o FULL JOIN new_rows n ON n.id = o.id
                CROSS JOIN LATERAL (VALUES ({_row(watch, "o")}), ({_row(watch, "n")})) AS touched (id)
                WHERE touched.id IS NOT NULL AND ({_changed_row_sql(watch)});
            ELSE
                {note} VALUES ('{watch.kind}', 0);
            END IF;
            RETURN NULL;
        END $$
    """


def _changed_row_sql(watch: Watch) -> str:
    """Whether a row differs from before; names as few columns as possible, so that migrations can alter the others."""
    if watch.only:
        return " OR ".join(f'o."{column}" IS DISTINCT FROM n."{column}"' for column in watch.only)
    if watch.unless:
        columns = ", ".join(f"'{column}'" for column in watch.unless)
        return f"to_jsonb(o) - ARRAY[{columns}] IS DISTINCT FROM to_jsonb(n) - ARRAY[{columns}]"
    return "o IS DISTINCT FROM n"
