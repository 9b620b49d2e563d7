"""What quotas ask of usage: requests that a limit refused, and those for which a provider was asked."""

from datetime import UTC, datetime

from django.db import migrations, models
from django.db.models import Min

from telemetry import rollups
from telemetry.verification import HOUR, days

NAMES = ("limited", "asked")


def read_from_the_log(apps, schema_editor) -> None:
    """Usage from before gets them in rows of their own, which are parts of the same sums."""
    oldest = apps.get_model("telemetry", "UsageHour").objects.aggregate(oldest=Min("hour"))["oldest"]
    if oldest is None:
        return
    groups = rollups.columns(rollups.DIMENSIONS)
    counts = [f"nullif(count(*) FILTER (WHERE {condition}), 0)" for condition in map(rollups._COUNTED.get, NAMES)]
    read = ("outcome", "exception", "attempts")  # columns that there are at this point
    entries = rollups.of_log('"timestamp" >= %s AND "timestamp" < %s', read)
    statement = (
        f'INSERT INTO "{rollups.USAGE}" ({groups}, "limited", "asked")'
        f" SELECT {groups}, {', '.join(counts)} FROM {entries} GROUP BY {groups}"
    )
    with schema_editor.connection.cursor() as cursor:
        for start, end in days(oldest, rollups.full_hour(datetime.now(UTC)) + HOUR):
            cursor.execute(statement, [rollups.moment(start), rollups.moment(end)])


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0009_usage_by_the_day'),
    ]

    operations = [
        *(
            migrations.AddField(model_name=model, name=name, field=models.BigIntegerField(null=True))
            for model in ('usageday', 'usagehour')
            for name in NAMES
        ),
        migrations.RunPython(read_from_the_log, migrations.RunPython.noop),
    ]
