from django.core.validators import MaxValueValidator
from django.db import migrations, models

BATCH = 500


def complete_versions(apps, schema_editor):
    """Give the versions that are kept the position that every rule had."""
    versions = apps.get_model("rules", "RuleVersion").objects
    batch = []
    for version in versions.only("attributes").order_by("pk").iterator(chunk_size=BATCH):
        version.attributes.setdefault("position", 100)
        batch.append(version)
        if len(batch) == BATCH:
            versions.bulk_update(batch, ["attributes"])
            batch = []
    versions.bulk_update(batch, ["attributes"])


class Migration(migrations.Migration):

    dependencies = [
        ('rules', '0010_samples_of_guardrails'),
    ]

    operations = [
        migrations.AddField(
            model_name='rule',
            name='position',
            field=models.PositiveIntegerField(db_default=100, default=100, validators=[MaxValueValidator(1000000)]),
        ),
        migrations.AddIndex(
            model_name='rule',
            index=models.Index(fields=['-effect', 'position', 'id'], name='rules_in_order_of_judging'),
        ),
        migrations.RunPython(complete_versions, migrations.RunPython.noop),
    ]
