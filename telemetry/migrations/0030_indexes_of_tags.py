"""Partial indexes for filters by tag, severity and cache status.

Entries without a tag, of the severity info, or for which no cache was asked, are not in them. PostgreSQL alone has
them: SQLite would not use them.
"""

from django.db import migrations

LOG = '"telemetry_logentry"'
CREATE = (
    f"CREATE INDEX log_of_a_tag ON {LOG} USING gin (tags jsonb_path_ops)"
    " WITH (gin_pending_list_limit = 256) WHERE tags <> '{}'",
    f"CREATE INDEX log_of_a_severity ON {LOG} (severity) WHERE severity <> 'info'",
    f"CREATE INDEX log_of_a_cache_status ON {LOG} (cache_status) WHERE cache_status <> ''",
)
DROP = ("DROP INDEX log_of_a_tag", "DROP INDEX log_of_a_severity", "DROP INDEX log_of_a_cache_status")


def create(apps, schema_editor) -> None:
    _executed(schema_editor, CREATE)


def drop(apps, schema_editor) -> None:
    _executed(schema_editor, DROP)


def _executed(schema_editor, statements) -> None:
    for statement in statements if schema_editor.connection.vendor == "postgresql" else ():
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0029_unpriced_requests")]

    operations = [migrations.RunPython(create, drop)]
