"""Usage by provider, model, alias and currency alone, by hour and by day: added up from hours that are merged."""

from django.db import migrations, models


DIMENSIONS = ("hour", "provider_id", "model", "alias", "currency")
# What is added up, and from what.
TABLES = {"ModelUsageHour": "UsageHour", "ModelUsageDay": "UsageDay"}
# Whoever merges usage takes this lock.
LOCK = "SELECT pg_advisory_xact_lock(hashtext('gateway usage'))"


def add_up(apps, schema_editor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(LOCK)
    for to, source in TABLES.items():
        table, rows = (apps.get_model("telemetry", name)._meta for name in (to, source))
        others = (*DIMENSIONS, "id", "merged", "user_id", "group_ids", "key_id", "tags")
        measures = [field.column for field in table.fields if field.column not in others]
        groups = ", ".join(f'"{name}"' for name in DIMENSIONS)
        names = ", ".join(f'"{name}"' for name in measures)
        sums = ", ".join(f'sum("{name}")' for name in measures)
        # Rows of days are sums of merged hours, whether they are merged themselves or not.
        condition = '"merged"' if source == "UsageHour" else "TRUE"
        schema_editor.execute(
            f'INSERT INTO "{table.db_table}" ({groups}, {names}, "merged")'
            f' SELECT {groups}, {sums}, TRUE FROM "{rows.db_table}" WHERE {condition} GROUP BY {groups}'
        )


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0031_compression'),
    ]

    operations = [
        migrations.CreateModel(
            name='ModelUsageDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('merged', models.BooleanField(db_default=False, default=False)),
                ('user_id', models.BigIntegerField(blank=True, null=True)),
                ('group_ids', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list)),
                ('key_id', models.BigIntegerField(blank=True, null=True)),
                ('provider_id', models.BigIntegerField(blank=True, null=True)),
                ('model', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('alias', models.CharField(blank=True, max_length=200, null=True)),
                ('tags', models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict)),
                ('currency', models.CharField(blank=True, db_default='', default='', max_length=3)),
                ('requests', models.BigIntegerField(null=True)),
                ('completed', models.BigIntegerField(null=True)),
                ('denied', models.BigIntegerField(null=True)),
                ('client_closed', models.BigIntegerField(null=True)),
                ('errors', models.BigIntegerField(null=True)),
                ('cache_hits', models.BigIntegerField(null=True)),
                ('input_tokens', models.BigIntegerField(null=True)),
                ('cache_read_tokens', models.BigIntegerField(null=True)),
                ('cache_write_tokens', models.BigIntegerField(null=True)),
                ('output_tokens', models.BigIntegerField(null=True)),
                ('reasoning_tokens', models.BigIntegerField(null=True)),
                ('saved_tokens', models.BigIntegerField(null=True)),
                ('estimated_requests', models.BigIntegerField(null=True)),
                ('cost', models.DecimalField(decimal_places=12, max_digits=38, null=True)),
                ('estimated_cost', models.DecimalField(decimal_places=12, max_digits=38, null=True)),
                ('saved_cost', models.DecimalField(decimal_places=12, max_digits=38, null=True)),
                ('unknown_cost_requests', models.BigIntegerField(null=True)),
                ('unpriced_requests', models.BigIntegerField(null=True)),
                ('unpriced_tokens', models.BigIntegerField(null=True)),
                ('duration_us', models.BigIntegerField(null=True)),
                ('first_byte_us', models.BigIntegerField(null=True)),
                ('first_bytes', models.BigIntegerField(null=True)),
                ('attempts', models.BigIntegerField(null=True)),
                ('failed_attempts', models.BigIntegerField(null=True)),
                ('limited', models.BigIntegerField(null=True)),
                ('asked', models.BigIntegerField(null=True)),
                ('latency_0', models.IntegerField(null=True)),
                ('latency_1', models.IntegerField(null=True)),
                ('latency_2', models.IntegerField(null=True)),
                ('latency_3', models.IntegerField(null=True)),
                ('latency_4', models.IntegerField(null=True)),
                ('latency_5', models.IntegerField(null=True)),
                ('latency_6', models.IntegerField(null=True)),
                ('latency_7', models.IntegerField(null=True)),
                ('latency_8', models.IntegerField(null=True)),
                ('latency_9', models.IntegerField(null=True)),
                ('latency_10', models.IntegerField(null=True)),
                ('latency_11', models.IntegerField(null=True)),
                ('latency_12', models.IntegerField(null=True)),
                ('latency_13', models.IntegerField(null=True)),
                ('latency_14', models.IntegerField(null=True)),
                ('latency_15', models.IntegerField(null=True)),
                ('latency_16', models.IntegerField(null=True)),
                ('latency_17', models.IntegerField(null=True)),
                ('latency_18', models.IntegerField(null=True)),
                ('latency_19', models.IntegerField(null=True)),
                ('latency_20', models.IntegerField(null=True)),
                ('latency_21', models.IntegerField(null=True)),
                ('latency_22', models.IntegerField(null=True)),
                ('latency_23', models.IntegerField(null=True)),
            ],
            options={
                'verbose_name_plural': 'days of models',
                'indexes': [models.Index(fields=['merged', 'hour'], name='model_usage_by_day')],
            },
        ),
        migrations.CreateModel(
            name='ModelUsageHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('merged', models.BooleanField(db_default=False, default=False)),
                ('user_id', models.BigIntegerField(blank=True, null=True)),
                ('group_ids', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list)),
                ('key_id', models.BigIntegerField(blank=True, null=True)),
                ('provider_id', models.BigIntegerField(blank=True, null=True)),
                ('model', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('alias', models.CharField(blank=True, max_length=200, null=True)),
                ('tags', models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict)),
                ('currency', models.CharField(blank=True, db_default='', default='', max_length=3)),
                ('requests', models.BigIntegerField(null=True)),
                ('completed', models.BigIntegerField(null=True)),
                ('denied', models.BigIntegerField(null=True)),
                ('client_closed', models.BigIntegerField(null=True)),
                ('errors', models.BigIntegerField(null=True)),
                ('cache_hits', models.BigIntegerField(null=True)),
                ('input_tokens', models.BigIntegerField(null=True)),
                ('cache_read_tokens', models.BigIntegerField(null=True)),
                ('cache_write_tokens', models.BigIntegerField(null=True)),
                ('output_tokens', models.BigIntegerField(null=True)),
                ('reasoning_tokens', models.BigIntegerField(null=True)),
                ('saved_tokens', models.BigIntegerField(null=True)),
                ('estimated_requests', models.BigIntegerField(null=True)),
                ('cost', models.DecimalField(decimal_places=12, max_digits=38, null=True)),
                ('estimated_cost', models.DecimalField(decimal_places=12, max_digits=38, null=True)),
                ('saved_cost', models.DecimalField(decimal_places=12, max_digits=38, null=True)),
                ('unknown_cost_requests', models.BigIntegerField(null=True)),
                ('unpriced_requests', models.BigIntegerField(null=True)),
                ('unpriced_tokens', models.BigIntegerField(null=True)),
                ('duration_us', models.BigIntegerField(null=True)),
                ('first_byte_us', models.BigIntegerField(null=True)),
                ('first_bytes', models.BigIntegerField(null=True)),
                ('attempts', models.BigIntegerField(null=True)),
                ('failed_attempts', models.BigIntegerField(null=True)),
                ('limited', models.BigIntegerField(null=True)),
                ('asked', models.BigIntegerField(null=True)),
                ('latency_0', models.IntegerField(null=True)),
                ('latency_1', models.IntegerField(null=True)),
                ('latency_2', models.IntegerField(null=True)),
                ('latency_3', models.IntegerField(null=True)),
                ('latency_4', models.IntegerField(null=True)),
                ('latency_5', models.IntegerField(null=True)),
                ('latency_6', models.IntegerField(null=True)),
                ('latency_7', models.IntegerField(null=True)),
                ('latency_8', models.IntegerField(null=True)),
                ('latency_9', models.IntegerField(null=True)),
                ('latency_10', models.IntegerField(null=True)),
                ('latency_11', models.IntegerField(null=True)),
                ('latency_12', models.IntegerField(null=True)),
                ('latency_13', models.IntegerField(null=True)),
                ('latency_14', models.IntegerField(null=True)),
                ('latency_15', models.IntegerField(null=True)),
                ('latency_16', models.IntegerField(null=True)),
                ('latency_17', models.IntegerField(null=True)),
                ('latency_18', models.IntegerField(null=True)),
                ('latency_19', models.IntegerField(null=True)),
                ('latency_20', models.IntegerField(null=True)),
                ('latency_21', models.IntegerField(null=True)),
                ('latency_22', models.IntegerField(null=True)),
                ('latency_23', models.IntegerField(null=True)),
            ],
            options={
                'verbose_name_plural': 'hours of models',
                'indexes': [models.Index(fields=['merged', 'hour'], name='model_usage_by_hour')],
            },
        ),
        migrations.RunPython(add_up, migrations.RunPython.noop),
    ]
