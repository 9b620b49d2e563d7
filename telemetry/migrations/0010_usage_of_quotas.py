"""What quotas ask of usage: requests that a limit refused, and those for which a provider was asked.

Usage from before is given them by `manage.py verify_usage --repair`.
"""

from django.db import migrations, models

NAMES = ("limited", "asked")


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
    ]
