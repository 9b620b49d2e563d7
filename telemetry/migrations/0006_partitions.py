"""On PostgreSQL the log becomes a table of partitions: old ones are dropped, which takes no time.

What is in it goes to the default partition; those of the present and the future are made after each migrate.
"""

from django.db import migrations

LOG = "telemetry_logentry"


def divide(apps, schema_editor) -> None:
    _copied(apps, schema_editor, 'PARTITION BY RANGE ("timestamp")', '("id", "timestamp")', f'CREATE TABLE "{LOG}_default" PARTITION OF "{LOG}" DEFAULT')


def unite(apps, schema_editor) -> None:
    _copied(apps, schema_editor, "", '("id")', "")


def _copied(apps, schema_editor, kind: str, primary_key: str, then: str) -> None:
    """The same table of another kind, with all that is in it."""
    if schema_editor.connection.vendor != "postgresql":
        return
    for statement in (
        f'ALTER TABLE "{LOG}" RENAME TO "{LOG}_before"',
        f'CREATE TABLE "{LOG}" (LIKE "{LOG}_before" INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING IDENTITY) {kind}',
        then,
        f'INSERT INTO "{LOG}" SELECT * FROM "{LOG}_before"',
        f"SELECT setval(pg_get_serial_sequence('{LOG}', 'id'), max(id)) FROM \"{LOG}\"",
        f'DROP TABLE "{LOG}_before" CASCADE',
        f'ALTER TABLE "{LOG}" ADD CONSTRAINT "{LOG}_pkey" PRIMARY KEY {primary_key}',
    ):
        if statement:
            schema_editor.execute(statement)
    model = apps.get_model("telemetry", "LogEntry")
    for index in model._meta.indexes:
        schema_editor.add_index(model, index)


class Migration(migrations.Migration):

    dependencies = [
        ("telemetry", "0005_usage_by_the_hour"),
    ]

    operations = [migrations.RunPython(divide, unite)]
